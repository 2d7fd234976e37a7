"""Properties of every unit, tested more strictly or in more places than by ``harmonium.testing.check_unit``."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import mpmath as mp
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from torch import Tensor
from unit_reference import F64, assert_close, half_line

from harmonium import units
from harmonium.errors import InvalidOption
from harmonium.units import Unit
from harmonium.units.special import HalfLine, Segment, solve_moments

TWO = torch.tensor([0.25, -0.5], dtype=F64)


def t(*values: float) -> Tensor:
    return torch.tensor(values, dtype=F64)


UNITS: dict[str, Callable[[], Unit]] = {
    "bernoulli": lambda: units.Bernoulli(2, bias=TWO),
    "spin": lambda: units.Spin(2, bias=TWO),
    "gaussian": lambda: units.Gaussian(2, bias=TWO, precision=t(2.0, 0.5), learn=("bias", "precision")),
    "relu": lambda: units.ReLU(2, bias=TWO, precision=t(2.0, 0.5), learn=("bias", "precision")),
    "double-relu": lambda: units.DoubleReLU(
        2,
        bias=TWO,
        tilt=t(1.0, -0.5),
        precision_plus=t(1.0, 2.0),
        precision_minus=t(0.5, 3.0),
        learn=("bias", "tilt", "precision_plus", "precision_minus"),
    ),
    "truncated-gaussian": lambda: units.TruncatedGaussian(
        2, low=-1.0, high=2.0, bias=TWO, precision=t(1.0, -2.0), learn=("bias", "precision")
    ),
    "truncated-gauss-bernoulli": lambda: units.TruncatedGaussBernoulli(
        2,
        low=-1.0,
        high=2.0,
        rho=t(0.3, 0.8),
        bias=TWO,
        precision=t(1.0, -2.0),
        learn=("bias", "precision", "log_odds"),
    ),
    "poisson": lambda: units.Poisson(2, bias=TWO),
    "binomial": lambda: units.Binomial(2, trials=5, bias=TWO),
    "multinary": lambda: units.Multinary(2, levels=4, scale=0.5, bias=TWO),
    "multinary-integral": lambda: units.Multinary(2, levels=4, scale=0.5, bias=TWO, form="integral"),
    "potts": lambda: units.Potts((2, 3), bias=torch.arange(6, dtype=F64).reshape(2, 3) / 4),
    "multinomial": lambda: units.Multinomial(3, total=4, bias=t(0.25, -0.5, 0.0)),
}
CONTINUOUS = ("gaussian", "relu", "double-relu", "truncated-gaussian", "truncated-gauss-bernoulli")
VECTOR = ("potts", "multinomial")
SCALAR = [name for name in UNITS if name not in VECTOR]
BOUNDED = [name for name in SCALAR if name not in ("gaussian", "relu", "double-relu", "poisson")]


def field(unit: Unit, seed: int = 0, size: float = 1.5) -> Tensor:
    return size * torch.randn(3, *unit.shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def integral(unit: Unit, B: Tensor, A: Tensor, site: int, function: Callable[[Tensor], Tensor]) -> float:
    """Σ or ∫ of ``function`` times e^{log_weight + Bx - Ax²/2}, for one unit of a layer of two."""

    def weighted(x: float) -> float:
        point = torch.full((2,), x, dtype=F64)
        with torch.no_grad():
            exponent = unit.log_weight(point) + B * point - A * point.square() / 2
            return float((exponent.exp() * function(point))[site])

    name = unit.name()
    if name not in CONTINUOUS:
        states = unit.support.states()
        return sum(weighted(x) for x in (range(120) if states is None else states.tolist()))
    low, high = getattr(unit.support, "low", -math.inf), getattr(unit.support, "high", math.inf)
    ends = [max(low, -40.0), 0.0, min(high, 40.0)]  # the spike and the kink are at zero
    pieces = [quad(weighted, a, b, epsabs=1e-13, epsrel=1e-11, limit=200)[0] for a, b in pairwise(ends) if a < b]
    spike = weighted(0.0) if name == "truncated-gauss-bernoulli" else 0.0
    return sum(pieces) + spike


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.fast_cases(4)
def test_weights_add_up_to_the_partition_function(name: str) -> None:
    """Σ e^{log_weight + Bx - Ax²/2} = Z, and the moments are the averages of the statistics."""
    unit = UNITS[name]()
    B, A = t(0.5, -1.0), t(0.25, 0.125)
    for quadratic in (None, A):
        term = torch.zeros(2, dtype=F64) if quadratic is None else quadratic
        lnz, moments = unit.log_partition(B, quadratic), unit.moments(B, quadratic)
        assert set(moments) == set(unit.natural()) == set(unit.statistics(B))
        for site in range(2):
            z = integral(unit, B, term, site, torch.ones_like)
            assert math.isclose(math.log(z), lnz[site].item(), rel_tol=1e-9, abs_tol=1e-9)
            for key, moment in moments.items():
                average = integral(unit, B, term, site, lambda x, key=key: unit.statistics(x)[key]) / z
                assert math.isclose(average, moment[site].item(), rel_tol=1e-8, abs_tol=1e-9), key


@pytest.mark.parametrize("name", VECTOR)
def test_weights_of_vectors_add_up(name: str) -> None:
    unit = UNITS[name]()
    B, A = field(unit)[0], 0.25 * field(unit, 1)[0].abs()
    states = unit.support.states()
    for quadratic in (None, A):
        term = torch.zeros_like(B) if quadratic is None else quadratic
        x = states.reshape(len(states), *[1] * (len(unit.shape) - 1), -1).expand(len(states), *unit.shape)
        exponent = unit.log_weight(x) + (B * x - term * x.square() / 2).sum(-1)
        assert_close(unit.log_partition(B, quadratic), torch.logsumexp(exponent, 0).detach(), 1e-10)
        p = torch.softmax(exponent, 0).detach()[..., None]
        mean = (p * x).sum(0)
        assert_close(unit.mean(B, quadratic), mean, 1e-10)
        assert_close(unit.variance(B, quadratic), (p * (x - mean).square()).sum(0), 1e-9)


@pytest.mark.parametrize("quadratic", [False, True])
@pytest.mark.parametrize("name", UNITS)
def test_mean_and_variance_are_derivatives(name: str, quadratic: bool) -> None:
    unit = UNITS[name]()
    B = field(unit).requires_grad_()
    A = 0.3 * field(unit, 1).abs() if quadratic else None
    (slope,) = torch.autograd.grad(unit.log_partition(B, A).sum(), B)
    assert_close(unit.mean(B, A), slope, 1e-9, 1e-3)
    if name not in VECTOR:
        (curvature,) = torch.autograd.grad(unit.mean(B, A).sum(), B)
        assert_close(unit.variance(B, A), curvature, 1e-9)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.fast_cases(4)
def test_gradients(name: str) -> None:
    """Derivatives of ln Z, mean and variance in B, A and the parameters, by finite differences."""
    unit = UNITS[name]()
    B = field(unit)[:1].requires_grad_()
    for function in (unit.log_partition, unit.mean, unit.variance):
        assert torch.autograd.gradcheck(lambda b, f=function: f(b), (B,), atol=1e-6)
        A = (0.3 * field(unit, 1)[:1].abs() + 0.05).requires_grad_()
        assert torch.autograd.gradcheck(lambda b, a, f=function: f(b, a), (B, A), atol=1e-6)

    stored = [parameter for parameter in unit.parameters() if parameter.requires_grad]
    fixed = B.detach()
    for function in (unit.log_partition, unit.mean):
        assert torch.autograd.gradcheck(lambda *_, f=function: f(fixed), tuple(stored), atol=1e-6)


@pytest.mark.parametrize("name", UNITS)
def test_moments_are_the_gradient_of_ln_z(name: str) -> None:
    """``gradients`` gives the gradients of the stored parameters."""
    unit, other = UNITS[name](), UNITS[name]()
    B = field(unit)
    unit.log_partition(B).sum().backward()
    found = other.gradients({key: moment.detach().sum(0) for key, moment in other.moments(B).items()})
    for (key, stored), parameter in zip(unit.named_parameters(), other.parameters(), strict=True):
        gradient = stored.grad
        if key == "log_odds":  # ln Z also contains the normalizer of (1-ρ, ρ), which does not depend on x
            gradient = gradient + len(B) * torch.sigmoid(stored)
        assert_close(gradient, found[parameter], 1e-9, 1e-6)


@pytest.mark.parametrize("name", ["relu", "double-relu", "truncated-gaussian", "truncated-gauss-bernoulli", "poisson"])
@pytest.mark.fast_cases(2)
def test_cumulants(name: str) -> None:
    """κ₁ … κ₆ against derivatives of the closed forms of ln Z by mpmath."""
    unit = UNITS[name]()
    natural = {key: value.tolist() for key, value in unit.natural().items()}
    for site in range(2):
        p = {key: mp.mpf(value[site]) for key, value in natural.items()}

        def z(q: mp.mpf, p: dict[str, mp.mpf] = p) -> mp.mpf:
            h = p["bias"] + q
            if name == "poisson":
                return mp.exp(mp.exp(h))
            if name == "relu":
                return half_line(h, p["precision"])[0]
            if name == "double-relu":
                sides = (p["tilt"] + h, p["precision_plus"]), (p["tilt"] - h, p["precision_minus"])
                return mp.fsum(half_line(*side)[0] for side in sides)
            root = mp.sqrt(2 * p["precision"])  # imaginary if the precision is negative
            slab = mp.erf((2 * p["precision"] - h) / root) - mp.erf((-p["precision"] - h) / root)
            slab = mp.re(mp.sqrt(mp.pi) / root * mp.exp((h / root) ** 2) * slab)
            return slab if name == "truncated-gaussian" else 1 + mp.exp(p["log_odds"]) * slab

        with mp.workdps(30):
            series = mp.taylor(lambda q: mp.log(z(q)), 0, 6)
            expected = [series[n] * mp.factorial(n) for n in range(1, 7)]
        sigma = math.sqrt(float(expected[1]))
        for n, kappa in enumerate(expected, 1):
            assert_close(unit.cumulant(n)[site], torch.tensor(float(kappa), dtype=F64), 1e-9, sigma**n)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("bias", [-30.0, -9.5, -9.0])
def test_relu_cumulants_far_below_threshold(bias: float) -> None:
    """Relative accuracy where polynomial formulas lose all precision."""
    unit = units.ReLU(1, bias=t(bias))
    with mp.workdps(60):
        series = mp.taylor(lambda q: mp.log(half_line(mp.mpf(bias) + q, mp.mpf(1))[0]), 0, 6)
        for n in range(1, 7):
            assert_close(unit.cumulant(n), t(float(series[n] * mp.factorial(n))), 1e-9)


# -- initialization ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.fast_cases(5)
def test_initialize_from_reproduces_the_mean(name: str) -> None:
    unit = UNITS[name]()
    data = unit.sample(torch.zeros(400, *unit.shape, dtype=F64), generator=torch.Generator().manual_seed(0))
    unit.initialize_from(data, pseudocount=0.0)
    zero = torch.zeros(unit.shape, dtype=F64)
    assert_close(unit.mean(zero), data.mean(0), 1e-8, 1e-3)
    learned = set(unit.learn)
    if name == "truncated-gauss-bernoulli":
        assert_close(unit.moments(zero)["log_odds"], (data != 0).double().mean(0), 1e-8)
    reachable = name != "relu" or bool((data.var(0, correction=0) < 0.98 * data.mean(0).square()).all())
    if ("precision" in learned or "precision_plus" in learned) and reachable:
        assert_close(unit.variance(zero), data.var(0, correction=0), 1e-7)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("extreme", ["lowest", "highest"])
@pytest.mark.fast_cases(8)
def test_initialize_from_constant_data(name: str, extreme: str) -> None:
    """Data at the end of a support give finite parameters."""
    unit = UNITS[name]()
    zero = torch.zeros(20, *unit.shape, dtype=F64)
    if name == "multinomial":
        data = unit.mode(zero)
    elif name == "potts":
        data = torch.zeros_like(zero)
        data[..., 0 if extreme == "lowest" else -1] = 1.0
    else:
        low = {"spin": -1.0, "truncated-gaussian": -1.0, "truncated-gauss-bernoulli": 0.0}.get(name, 0.0)
        top = {"binomial": 5.0, "multinary": 4.0, "multinary-integral": 4.0, "spin": 1.0, "bernoulli": 1.0}
        high = top.get(name, 2.0)
        data = torch.full_like(zero, low if extreme == "lowest" else high)
    unit.initialize_from(data)
    for parameter in unit.parameters():
        assert bool(torch.isfinite(parameter).all())
    assert bool(torch.isfinite(unit.mean(zero[0])).all())


def test_only_the_mean_without_a_learned_precision() -> None:
    data = torch.rand(500, 3, dtype=F64, generator=torch.Generator().manual_seed(0)) ** 2
    bias = torch.zeros(3, dtype=F64)
    for unit in (
        units.TruncatedGaussian(3, bias=bias, precision=t(1.0, 4.0, -2.0)),
        units.ReLU(3, bias=bias, precision=t(1.0, 4.0, 0.5)),
    ):
        before = unit.precision.detach().clone()
        unit.initialize_from(data, pseudocount=0.0)
        assert_close(unit.precision, before, 1e-14)
        assert_close(unit.mean(torch.zeros(3, dtype=F64)), data.mean(0), 1e-10)


@pytest.mark.slow
def test_solve_moments_in_boundary_layers() -> None:
    segment = Segment(0.0, 1.0)
    h, p = t(-300.0, 80.0, -20.0, 3.0), t(5.0, -40.0, -45.0, 0.0)
    mean, variance = segment.moment(1, h, p), segment.moment(2, h, p)
    h2, p2 = solve_moments(
        lambda h, p: (segment.moment(1, h, p), segment.moment(2, h, p)), mean, torch.zeros(4, dtype=F64), variance
    )
    assert_close(segment.moment(1, h2, p2), mean, 1e-9)
    assert_close(segment.moment(2, h2, p2), variance, 1e-8)


# -- properties ----------------------------------------------------------------------------------------------------

fields = st.floats(-1e4, 1e4)
near = st.floats(-60.0, 60.0)
quadratics = st.one_of(st.none(), st.floats(-40.0, 40.0))


def ends(name: str) -> tuple[float, float]:
    unit = UNITS[name]()
    states = unit.support.states()
    if states is not None:
        return states.min().item(), states.max().item()
    return unit.support.low, unit.support.high  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [F64, torch.float32])
@pytest.mark.parametrize("name", BOUNDED)
@settings(max_examples=60, deadline=None)
@given(B=fields, A=quadratics)
@pytest.mark.fast_cases(4)
def test_bounded_units_are_finite_everywhere(name: str, dtype: torch.dtype, B: float, A: float | None) -> None:
    unit = UNITS[name]().to(dtype)
    b = torch.full((2,), B, dtype=dtype)
    a = None if A is None else torch.full((2,), A, dtype=dtype)
    low, high = ends(name)
    with torch.no_grad():
        lnz, mean, variance = unit.log_partition(b, a), unit.mean(b, a), unit.variance(b, a)
        x = unit.sample(b, A=a, generator=torch.Generator().manual_seed(0))
    for value in (lnz, mean, variance, x):
        assert bool(torch.isfinite(value).all())
    slack = 1e-6 * (high - low) if dtype == torch.float32 else 1e-13
    assert bool(((mean >= low - slack) & (mean <= high + slack) & (variance >= 0)).all())
    assert bool(((x >= low) & (x <= high)).all())


@pytest.mark.parametrize("name", SCALAR)
@settings(max_examples=60, deadline=None)
@given(B=near, step=st.floats(1e-3, 5.0), A=st.one_of(st.none(), st.floats(0.0, 10.0)))
@pytest.mark.fast_cases(4)
def test_ln_z_is_convex_and_the_mean_grows(name: str, B: float, step: float, A: float | None) -> None:
    unit = UNITS[name]()
    if name == "poisson":
        B = min(B, 15.0)
    b = (B + step * torch.tensor([-1.0, 0.0, 1.0], dtype=F64))[:, None].expand(3, 2)
    a = None if A is None else torch.full_like(b, A)
    with torch.no_grad():
        lnz, mean, variance = unit.log_partition(b, a), unit.mean(b, a), unit.variance(b, a)
    rounding = 1e-13 * (1 + lnz.abs().max())
    assert bool((lnz[0] + lnz[2] - 2 * lnz[1] >= -rounding).all())
    assert bool((mean.diff(dim=0) >= -1e-12 * (1 + mean.abs().max())).all())
    assert bool((variance >= 0).all())


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(h=fields, p=st.floats(-1e4, 1e4), low=st.floats(-5.0, 5.0), width=st.floats(1e-2, 10.0))
def test_segments_of_every_kind(h: float, p: float, low: float, width: float) -> None:
    """ln Z is within the bounds from its largest term, the mean inside, the variance below that of two points."""
    segment = Segment(low, low + width)
    hh, pp = t(h), t(p)
    lnz, mean, variance = (segment.moment(k, hh, pp).item() for k in range(3))
    peak = segment.peak(hh, pp).item()
    height = peak * (h - p * peak / 2)
    slack = 1e-12 * (1 + abs(h * peak) + abs(p) * peak * peak)
    assert lnz <= height + math.log(width) + slack
    # within δ of the peak, on one side at least, the exponent has decreased by no more than (|slope| + |p|δ/2) δ
    slope = abs(h - p * peak)
    near_peak = min(width / 2, 1 / (1 + slope + abs(p)))
    assert lnz >= height + math.log(near_peak) - (slope + abs(p) * near_peak / 2) * near_peak - slack
    assert segment.low - 1e-12 <= mean <= segment.high + 1e-12
    assert 0 < variance <= (mean - segment.low) * (segment.high - mean) * (1 + 1e-9) + 1e-14 * width**2


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(u=st.floats(-1e4, 1e4), p=st.floats(1e-4, 1e4))
def test_half_line_by_both_roads(u: float, p: float) -> None:
    """Error functions and quadrature agree, and the exponential limit holds far below threshold."""
    h = t(u * math.sqrt(p))
    for k in range(3):
        closed, window = HalfLine().moment(k, h, t(p)), Segment(0.0, math.inf).moment(k, h, t(p))
        assert_close(closed, window, 1e-9, 1.0 if k == 0 else 0.0)
    if u < -100:
        assert_close(HalfLine().moment(1, h, t(p)), -1 / h, 3 / u**2)


@pytest.mark.slow
def test_poisson_stays_finite() -> None:
    unit = units.Poisson(1, bias=torch.zeros(1))
    B = torch.linspace(-1e4, 1e4, 201)[:, None]
    for A in (None, torch.tensor([[1e-3]]), torch.tensor([[2.0]])):
        for function in (unit.log_partition, unit.mean, unit.variance):
            value = function(B, A)
            assert not bool(value.isnan().any())
            assert A is None or bool(value.isfinite().all())


def test_bad_options_are_refused() -> None:
    for arguments in ({"low": 1.0, "high": 0.0}, {"low": 0.0, "high": math.inf}, {"low": math.nan}):
        for cls in (units.TruncatedGaussian, units.TruncatedGaussBernoulli):
            with pytest.raises(InvalidOption, match="low, high"):
                cls(2, **arguments)
    for rho in (0.0, 1.0, 1.5, math.nan):
        with pytest.raises(InvalidOption, match="rho"):
            units.TruncatedGaussBernoulli(2, rho=rho)
    for cls, name in ((units.ReLU, "precision"), (units.DoubleReLU, "precision_minus")):
        with pytest.raises(InvalidOption, match=name):
            cls(2, **{name: -1.0})
