"""10⁶ draws of every sampler at three fields: chi-square test for counts, otherwise Kolmogorov-Smirnov test.

The references share nothing with the samplers: cell probabilities are normalized weights, distribution functions are
cumulative Simpson sums of the weight on a fine grid. The seeds are fixed; the p-value must exceed 1e-4.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import cumulative_simpson
from scipy.stats import binomtest, chi2, kstwobign
from torch import Tensor

from harmonium import units
from harmonium.errors import Diverged
from harmonium.units import Unit

DRAWS = 1_000_000
LEAST = 1e-4


def draws(
    unit: Unit, B: list[float], A: float | None = None, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    field = torch.tensor(B, dtype=dtype).expand(DRAWS // 50, *unit.shape)
    quadratic = None if A is None else torch.full_like(field, A)
    generator = torch.Generator().manual_seed(seed)
    unit.to(dtype)
    x = torch.cat([unit.sample(field, generator=generator, A=quadratic) for _ in range(50)])  # in batches as in use
    assert x.shape == (DRAWS, *unit.shape) and x.dtype == dtype
    unit.check(x)
    return x.double()


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """The p-value, with rare cells pooled until every expected count is at least 5."""
    order = np.argsort(-probabilities)
    counts, expected = counts[order], probabilities[order] * counts.sum()
    common = max(int((expected >= 5).sum()), 1)
    pooled_counts = np.append(counts[:common], counts[common:].sum())
    pooled = np.append(expected[:common], expected[common:].sum())
    if pooled[-1] < 5:  # the remainder joins the rarest common cell
        pooled_counts = np.append(pooled_counts[:-2], pooled_counts[-2:].sum())
        pooled = np.append(pooled[:-2], pooled[-2:].sum())
    if len(pooled) < 2:
        return 1.0 if counts.sum() == pooled_counts.sum() else 0.0
    return float(chi2.sf(((pooled_counts - pooled) ** 2 / pooled).sum(), len(pooled) - 1))


def kolmogorov(x: Tensor, unit: Unit, B: float, A: float, low: float, high: float) -> float:
    """The p-value of scalar draws against the distribution function on a grid over [low, high]."""
    grid = torch.linspace(low, high, 400_001, dtype=torch.float64)
    with torch.no_grad():
        exponent = unit.double().log_weight(grid[:, None])[:, 0] + B * grid - A * grid.square() / 2
        weight = (exponent - exponent.max()).exp().numpy()
    cdf = cumulative_simpson(weight, x=grid.numpy(), initial=0.0)
    cdf /= cdf[-1]
    ordered = np.sort(x.numpy().ravel())
    at = np.interp(ordered, grid.numpy(), cdf)
    n = len(ordered)
    distance = max((np.arange(1, n + 1) / n - at).max(), (at - np.arange(n) / n).max())
    return float(kstwobign.sf(distance * math.sqrt(n)))


DISCRETE = {
    "bernoulli": (lambda: units.Bernoulli(1, bias=0.25), [-3.0, 0.0, 1.5]),
    "spin": (lambda: units.Spin(1, bias=0.25), [-2.0, 0.0, 0.5]),
    "binomial": (lambda: units.Binomial(1, trials=6, bias=0.25), [-2.0, 0.0, 1.0]),
    "binomial-40": (lambda: units.Binomial(1, trials=40, bias=0.25), [-2.0, 0.0, 1.0]),
    "multinary": (lambda: units.Multinary(1, levels=8, scale=0.5, bias=0.25), [-2.0, 0.0, 1.0]),
    "multinary-integral": (
        lambda: units.Multinary(1, levels=4, scale=0.5, bias=0.25, form="integral"),
        [-2.0, 0.0, 1.0],
    ),
}


@pytest.mark.parametrize(
    ("name", "A"), [(name, A) for name in DISCRETE for A in (None, 0.5, -0.25) if A is None or name != "binomial-40"]
)
@pytest.mark.fast_cases(2)
def test_discrete(name: str, A: float | None) -> None:
    build, fields = DISCRETE[name]
    for seed, B in enumerate(fields):
        unit = build()
        x = draws(unit, [B], A, seed)
        unit.double()
        states = unit.support.states()
        with torch.no_grad():
            weight = unit.log_weight(states[:, None])[:, 0] + B * states - (A or 0.0) * states.square() / 2
        counts = np.array([(x == state).sum().item() for state in states])
        assert counts.sum() == DRAWS
        assert chi_square(counts, torch.softmax(weight, 0).numpy()) > LEAST, B


@pytest.mark.parametrize("A", [None, 0.5])
@pytest.mark.slow
def test_potts(A: float | None) -> None:
    bias = torch.tensor([[0.25, -1.0, 0.0, 0.5]])
    for seed, B in enumerate(([0.0, 0.0, 0.0, 0.0], [1.0, -2.0, 0.5, 0.0], [-4.0, 2.0, 0.0, 1.0])):
        unit = units.Potts((1, 4), bias=bias)
        x = draws(unit, [B], A, seed)
        weight = bias[0].double() + torch.tensor(B, dtype=torch.float64) - (A or 0.0) / 2
        assert chi_square(x.sum((0, 1)).numpy(), torch.softmax(weight, 0).numpy()) > LEAST


@pytest.mark.parametrize("A", [None, 0.25])
@pytest.mark.slow
def test_multinomial(A: float | None) -> None:
    bias = torch.tensor([0.25, -1.0, 0.0])
    for seed, B in enumerate(([0.0, 0.0, 0.0], [1.0, -2.0, 0.5], [-2.0, 2.0, 0.0])):
        unit = units.Multinomial(3, total=4, bias=bias)
        x = draws(unit, B, A, seed)
        states = unit.double().support.states()
        with torch.no_grad():
            weight = unit.log_weight(states) + states @ torch.tensor(B, dtype=torch.float64)
            weight = weight - (A or 0.0) * states.square().sum(1) / 2
        key = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
        counts = np.array([((x @ key) == state @ key).sum().item() for state in states])
        assert counts.sum() == DRAWS
        assert chi_square(counts, torch.softmax(weight, 0).numpy()) > LEAST


@pytest.mark.parametrize(("A", "fields"), [(None, [-1.0, 1.0, 5.0]), (0.0, [1.0]), (0.25, [-1.0, 3.0]), (0.002, [6.0])])
@pytest.mark.slow
def test_poisson(A: float | None, fields: list[float]) -> None:
    for seed, B in enumerate(fields):
        unit = units.Poisson(1, bias=0.25)
        x = draws(unit, [B], A, seed)
        states = torch.arange(2000, dtype=torch.float64)
        with torch.no_grad():
            weight = unit.double().log_weight(states[:, None])[:, 0] + B * states - (A or 0.0) * states.square() / 2
        counts = np.bincount(x.long().numpy().ravel(), minlength=2000)
        assert chi_square(counts, torch.softmax(weight, 0).numpy()) > LEAST, B


def test_poisson_at_a_large_rate() -> None:
    """λ = 10⁶ in float32, whose integers are exact there: mean and variance within 5 standard errors."""
    unit = units.Poisson(1)
    x = unit.sample(torch.full((200_000, 1), math.log(1e6)), generator=torch.Generator().manual_seed(0)).double()
    rate = math.exp(torch.tensor(math.log(1e6)).item())
    assert abs(x.mean() - rate) < 5 * math.sqrt(rate / len(x))
    assert abs(x.var() / rate - 1) < 5 * math.sqrt(2 / len(x))
    with pytest.raises(Diverged):
        unit.sample(torch.full((1, 1), 100.0))


# the range of the reference grid for each field
CONTINUOUS = {
    "gaussian": (lambda: units.Gaussian(1, bias=0.25, precision=2.0), [(-5.0, -9, 4), (0.0, -6, 6), (3.0, -4, 8)]),
    "relu": (
        lambda: units.ReLU(1, bias=0.25, precision=2.0),
        [(-1e3, 0, 0.04), (-4.0, 0, 5), (-2.0, 0, 6), (0.0, 0, 7), (8.0, 0, 10)],
    ),
    "double-relu": (
        lambda: units.DoubleReLU(1, bias=0.25, tilt=1.0, precision_plus=1.0, precision_minus=3.0),
        [(-30.0, -15, 1), (-0.5, -8, 8), (4.0, -6, 14)],
    ),
    "double-relu-threshold": (
        lambda: units.DoubleReLU(1, bias=0.25, tilt=-6.0, precision_plus=1.0, precision_minus=3.0),
        [(-3.0, -4, 4), (0.0, -4, 4), (10.0, -2, 14)],
    ),
    "truncated-gaussian": (
        lambda: units.TruncatedGaussian(1, low=-1.0, high=2.0, bias=0.25, precision=3.0),
        [(-40.0, -1, 0), (0.0, -1, 2), (4.0, -1, 2)],
    ),
    "truncated-gaussian-flat": (
        lambda: units.TruncatedGaussian(1, low=-1.0, high=2.0, bias=0.0, precision=0.0),
        [(-3e3, -1, -0.98), (0.0, -1, 2), (1e-4, -1, 2), (5.0, -1, 2)],
    ),
    "truncated-gaussian-convex": (
        lambda: units.TruncatedGaussian(1, low=-1.0, high=2.0, bias=0.25, precision=-2.0),
        [(-4.0, -1, 2), (-1.25, -1, 2), (1.0, -1, 2)],
    ),
    "truncated-gaussian-two-ends": (
        lambda: units.TruncatedGaussian(1, low=-1.0, high=2.0, bias=0.0, precision=-400.0),
        [(-201.0, -1, 2), (-200.0, -1, 2), (-199.8, -1, 2)],
    ),
}


@pytest.mark.parametrize(
    ("name", "A"),
    [(name, None) for name in CONTINUOUS] + [(name, 0.75) for name in ("gaussian", "relu", "double-relu")],
)
@pytest.mark.fast_cases(1)
def test_continuous(name: str, A: float | None) -> None:
    build, fields = CONTINUOUS[name]
    for seed, (B, low, high) in enumerate(fields):
        unit = build()
        x = draws(unit, [B], A, seed)
        assert kolmogorov(x, unit, B, A or 0.0, low, high) > LEAST, B


@pytest.mark.slow
def test_negative_quadratic_terms() -> None:
    """TAP uses negative A."""
    unit = units.TruncatedGaussian(1, low=0.0, high=1.0, precision=1.0)
    for seed, (B, A) in enumerate([(-2.0, -6.0), (0.5, -1.0), (1.0, -1.0009765625)]):
        assert kolmogorov(draws(unit, [B], A, seed), unit, B, A, 0.0, 1.0) > LEAST
    relu = units.ReLU(1, precision=2.0)
    assert kolmogorov(draws(relu, [1.0], -1.5), relu, 1.0, -1.5, 0.0, 16.0) > LEAST


@pytest.mark.slow
def test_float64_draws() -> None:
    for name in ("relu", "truncated-gaussian-two-ends"):
        build, fields = CONTINUOUS[name]
        for seed, (B, low, high) in enumerate(fields[1:2]):
            unit = build().double()
            x = draws(unit, [B], None, seed, torch.float64)
            assert kolmogorov(x, unit, B, 0.0, low, high) > LEAST


@pytest.mark.parametrize("A", [None, -1.5])
@pytest.mark.slow
def test_spike_and_slab(A: float | None) -> None:
    for seed, B in enumerate([-3.0, 0.0, 2.0]):
        unit = units.TruncatedGaussBernoulli(1, low=-1.0, high=2.0, rho=0.3, bias=0.25, precision=1.0)
        x = draws(unit, [B], A, seed)
        slab = units.TruncatedGaussian(1, low=-1.0, high=2.0, bias=0.25, precision=1.0)
        grid = torch.linspace(-1.0, 2.0, 100_001, dtype=torch.float64)
        weight = ((0.25 + B) * grid - (1.0 + (A or 0.0)) * grid.square() / 2).exp()
        z = float(torch.trapezoid(weight, grid))
        on = x[x != 0]
        share = 0.3 * z / (0.7 + 0.3 * z)
        assert binomtest(len(on), DRAWS, share).pvalue > LEAST
        assert kolmogorov(on, slab, B, A or 0.0, -1.0, 2.0) > LEAST


@pytest.mark.slow
def test_mixed_draws_each_part() -> None:
    unit = units.Mixed(units.Bernoulli(1), units.ReLU(1))
    x = draws(unit, [0.5, -1.0])
    assert binomtest(int(x[:, 0].sum()), DRAWS, 1 / (1 + math.exp(-0.5))).pvalue > LEAST
    assert kolmogorov(x[:, 1], units.ReLU(1), -1.0, 0.0, 0.0, 8.0) > LEAST
    assert abs(torch.corrcoef(x.T)[0, 1]) < 5 / math.sqrt(DRAWS)


@pytest.mark.parametrize("name", [*DISCRETE, *CONTINUOUS])
def test_the_seed_decides(name: str) -> None:
    build = (DISCRETE | CONTINUOUS)[name][0]
    field = torch.zeros(50, 1)
    one, two, other = (build().sample(field, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other)
