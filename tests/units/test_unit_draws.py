"""Draws of every unit in fields of every size, in float32 and float64: mean, variance, distribution and extremes.

``test_unit_samplers`` tests moderate fields with more draws. Here the fields are so large that probabilities round to 0
or 1. The seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import kstwobign, norm
from torch import Generator, Tensor
from unit_cases import EVERY, F64, SCALAR

from harmonium import noise, units
from harmonium.units import Unit
from harmonium.units.special import normal_below

DRAWS = 40_000
FIELDS = [sign * size for size in (10.0, 100.0, 1e3, 1e4) for sign in (-1.0, 1.0)]
CONTINUOUS = [name for name in SCALAR if name.startswith(("gaussian", "relu", "double-relu", "truncated-gaussian"))]
BOTH = [torch.float32, F64]


def draws(unit: Unit, B: Tensor, n: int = DRAWS) -> Tensor:
    """Draws in the field B (*shape), as float64; all are in the support."""
    with torch.no_grad():
        x = unit.sample(B.expand(n, *unit.shape), generator=torch.Generator().manual_seed(1))
    assert x.dtype == B.dtype
    unit.check(x)
    return x.to(F64)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.fast_cases(4)
def test_mean_and_variance(name: str, dtype: torch.dtype = torch.float32) -> None:
    """Mean and variance within 5 standard errors of the exact ones in float64, up to rounding and rare events."""
    unit, reference = EVERY[name]().to(dtype), EVERY[name]()
    for B in FIELDS:
        if name == "poisson" and B > 10:
            continue  # raises: the counts exceed 64 bits
        field = torch.full(unit.shape, B, dtype=dtype)
        if name in ("potts", "multinomial", "mixed"):
            field = field * torch.arange(unit.shape[-1], dtype=dtype)
        x = draws(unit, field)
        with torch.no_grad():
            mean, variance = reference.mean(field.to(F64)), reference.variance(field.to(F64))
        step = 1.0 if name not in CONTINUOUS else 0.0
        ulp = torch.finfo(dtype).eps * mean.abs()  # rounding of a draw
        error = 5 * (variance / DRAWS).sqrt() + 10 * step / DRAWS + ulp
        assert bool(((x.mean(0) - mean).abs() <= error).all()), (B, x.mean(0), mean)
        deviation = x - mean
        error = (
            5 * deviation.square().std(0) / math.sqrt(DRAWS) + 10 * step / DRAWS + ulp.square() + ulp * variance.sqrt()
        )
        assert bool(((deviation.square().mean(0) - variance).abs() <= error + 1e-12 * variance).all()), (
            B,
            x.var(0),
            variance,
        )


def distribution(unit: Unit, B: float, site: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """F(x) and 1 - F(x) of a continuous unit, each summed from its own end, on a grid of twelve deviations."""
    field = torch.full((2,), B, dtype=F64)
    with torch.no_grad():
        mean, spread = unit.mean(field)[site].item(), unit.variance(field)[site].sqrt().item()
        low, high = (getattr(unit.support, end) for end in ("low", "high"))
        # exponential tails decay more slowly than Gaussian ones
        grid = torch.linspace(max(low, mean - 30 * spread), min(high, mean + 30 * spread), 200_001, dtype=F64)
        exponent = (unit.log_weight(grid[:, None].expand(-1, 2)) + B * grid[:, None])[:, site]
        weight = (exponent - exponent.max()).exp()
    cell = ((weight[1:] + weight[:-1]) / 2).numpy()
    below = np.concatenate([[0.0], cell.cumsum()]) / cell.sum()
    above = np.concatenate([cell[::-1].cumsum()[::-1], [0.0]]) / cell.sum()
    points = grid.numpy()
    return lambda x: (np.interp(x, points, below), np.interp(x, points, above))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in CONTINUOUS if name != "truncated-gauss-bernoulli"]
    + [(name, F64) for name in ("relu", "double-relu")],
)
@pytest.mark.fast_cases(1)
def test_distribution_and_extremes(name: str, dtype: torch.dtype) -> None:
    """Kolmogorov-Smirnov test, and no draw more extreme than expected once in 1000 samples of this size."""
    unit, reference = EVERY[name]().to(dtype), EVERY[name]()
    for B in FIELDS:
        x = draws(unit, torch.full((2,), B, dtype=dtype))
        for site in range(2):
            law = distribution(reference, B, site)
            ordered = np.sort(x[:, site].numpy())
            at, _ = law(ordered)
            distance = max(
                (np.arange(1, DRAWS + 1) / DRAWS - at).max(),
                (at - np.arange(DRAWS) / DRAWS).max(),
            )
            ulp = torch.finfo(dtype).eps * np.abs(ordered).max()
            rounding = np.max(law(ordered + ulp)[0] - law(ordered - ulp)[0])
            assert kstwobign.sf(max(distance - rounding, 0.0) * math.sqrt(DRAWS)) > 1e-4, (B, site)
            assert law(ordered[:1] + ulp)[0] > 1e-3 / DRAWS, (B, site, ordered[0])
            assert law(ordered[-1:] - ulp)[1] > 1e-3 / DRAWS, (B, site, ordered[-1])


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("extreme", [0.0, 1e-8, 20.0, math.inf])
@pytest.mark.parametrize("name", ["relu", "double-relu", "truncated-gaussian", "gaussian"])
@pytest.mark.fast_cases(10)
def test_the_most_extreme_random_numbers(
    name: str, extreme: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any output of the generator gives a draw that 10³⁰ draws could contain: at least e^{-70} of the peak's weight."""
    ends = {0.0: 0.0, 1e-8: 2.0**-24, 20.0: 1 - 2.0**-24, math.inf: 1 - 2.0**-53}
    monkeypatch.setattr(noise, "exponential", lambda like, generator=None: torch.full_like(like, extreme))
    monkeypatch.setattr(noise, "uniform", lambda like, generator=None: torch.full_like(like, ends[extreme]))
    for coin in (False, True):

        def bernoulli(p: Tensor, generator: Generator | None = None, coin: bool = coin) -> Tensor:
            return ((p == 1) | ((p > 0) & coin & (p > 2**-24)) | (p > 1 - 2**-24)).to(p.dtype)

        monkeypatch.setattr(noise, "bernoulli", bernoulli)
        for B in (-1e4, -100.0, -10.0, -1.0, 0.0, 0.5, 3.0, 10.0, 100.0, 1e4):
            unit, reference = EVERY[name]().to(dtype), EVERY[name]()
            x = unit.sample(torch.full((1, 2), B, dtype=dtype), generator=torch.Generator().manual_seed(0)).to(F64)
            assert bool(torch.isfinite(x).all())
            field = torch.full((1, 2), B, dtype=F64)
            mode = reference.mode(field)
            fall = reference.log_weight(mode) + B * mode - reference.log_weight(x) - B * x
            if name == "double-relu":  # the other sign was drawn: compare with the peak of that side
                sign = x.sign()
                (plus, gamma_plus), (minus, gamma_minus) = reference._sides(field, None)
                h = torch.where(sign > 0, plus, minus)
                gamma = torch.where(sign > 0, gamma_plus, gamma_minus)
                peak = (h / gamma).clamp_min(0.0)
                fall = peak * (h - gamma * peak / 2) - x.abs() * (h - gamma * x.abs() / 2)
            # rounding of x by one unit in the last place matters where the weight is steep
            ulp = torch.finfo(dtype).eps * x.abs()
            slack = (B - mode).abs() * ulp * 4
            assert bool((fall <= 90.0 + slack).all()), (B, coin, x, fall)


@pytest.mark.parametrize("dtype", BOTH)
def test_normal_below_inverts_both_sides(dtype: torch.dtype) -> None:
    """Against scipy's distribution, for every truncation, up to the ends of the uniform numbers."""
    uniform = torch.tensor([1.0, 0.7, 0.1, 1e-3, 1e-6, 2.0**-30, 1e-12], dtype=dtype)
    for u in (-2.0, -0.5, 0.0, 0.5, 2.0, 6.0, 100.0, 1e4):
        point = torch.full_like(uniform, u)
        low = normal_below(point, torch.zeros_like(uniform, dtype=torch.bool), uniform).to(F64)
        expected = norm.ppf(uniform.to(F64).numpy() * min(norm.cdf(u), 0.5))
        assert np.allclose(low.numpy(), expected, rtol=20 * torch.finfo(dtype).eps, atol=4 * torch.finfo(dtype).eps)
        if u > 0:
            high = normal_below(point, torch.ones_like(uniform, dtype=torch.bool), uniform).to(F64)
            expected = norm.isf(norm.sf(u) + uniform.to(F64).numpy() * (0.5 - norm.sf(u)))
            slope = torch.finfo(dtype).eps * (1 + np.exp(expected**2 / 2) * norm.sf(u))
            assert bool((np.abs(high.numpy() - expected) <= 20 * slope + 20 * torch.finfo(dtype).eps).all()), u


@pytest.mark.parametrize("field", [17.5, -17.5])
def test_rare_counts(field: float) -> None:
    """A million trials, of which one in forty million differs: 1 - σ(17.5) is 2.5e-8, and σ(17.5) rounds to 1."""
    n, trials = 200_000, 1_000_000
    rate = trials / (1 + math.exp(17.5))
    generator = torch.Generator().manual_seed(0)
    x = units.Binomial(1, trials=trials).sample(torch.full((n, 1), field), generator=generator).to(F64)
    rare = trials - x if field > 0 else x
    assert abs(rare.sum().item() - n * rate) < 5 * math.sqrt(n * rate)

    total = 10_000_000
    words = units.Multinomial(2, total=total)
    x = words.sample(torch.tensor([[field, 0.0]]).expand(n, 2), generator=generator).to(F64)
    rare, rate = x[:, 1 if field > 0 else 0], total / (1 + math.exp(17.5))
    assert abs(rare.sum().item() - n * rate) < 5 * math.sqrt(n * rate)


def test_two_far_peaks_in_float32() -> None:
    """The log-odds of the two sides are a small difference of two exponents of size 10⁷."""
    field = torch.tensor([[0.0001]])
    unit = units.DoubleReLU(1, tilt=4096.0)
    odds = 2 * 4096.0 * field.double().item()
    x = unit.sample(field.expand(DRAWS, 1), generator=torch.Generator().manual_seed(0))
    share, p = (x > 0).double().mean().item(), 1 / (1 + math.exp(-odds))
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / DRAWS)
    assert math.isclose(unit.mean(field).item(), 4096.0 * (2 * p - 1), rel_tol=1e-4)
    ends = units.TruncatedGaussian(1, low=-1.0, high=1.0, precision=-30000.0)  # two peaks, of height 15000
    field = torch.tensor([[0.25]])
    x = ends.sample(field.expand(DRAWS, 1), generator=torch.Generator().manual_seed(0))
    share, p = (x > 0).double().mean().item(), 1 / (1 + math.exp(-0.5))
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / DRAWS)
