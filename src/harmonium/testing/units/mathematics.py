"""Checks of the functions of one unit type."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from ...errors import InvalidData
from ..nodes import F64
from .trial import Trial

_DRAWS = 20_000
_SIGMAS = 5.0
_STEP = 1e-4  # of finite differences, in units of 1/(standard deviation)


@torch.no_grad()
def _shapes(t: Trial) -> None:
    unit, site = t.unit, t.unit.shape[: len(t.unit.shape) - len(t.unit.event_shape)]
    for lead in ((), (1,), (2, 3)):
        for dtype in (F64, torch.float32):
            layer = unit if dtype == F64 else copy.deepcopy(unit).float()
            B = t.B[0].expand(*lead, *unit.shape).to(dtype)
            x = layer.sample(B)
            found = {"mean": layer.mean(B), "variance": layer.variance(B), "mode": layer.mode(B), "sample": x}
            per_site = {"log_partition": layer.log_partition(B), "log_weight": layer.log_weight(x)}
            for name, value in {**found, **per_site}.items():
                expected = (*lead, *(site if name in per_site else unit.shape))
                t.subject.equal(f"shape of {name} in a field of shape {tuple(B.shape)}", tuple(value.shape), expected)
                t.subject.equal(f"type of {name} in a field of {dtype}", value.dtype, dtype)


@torch.no_grad()
def _finite(t: Trial) -> None:
    for dtype in (F64, torch.float32):
        layer = copy.deepcopy(t.unit).to(dtype)
        for size in (0.0, -1.0, 1.0, -10.0, 10.0, *((-1e3, 1e3) if t.unit.support.bounded else ())):
            B = (size / t.spread).to(dtype)
            for name in ("log_partition", "mean", "variance"):
                t.subject.finite(f"{name} in a field of {size:g}/deviation, {dtype}", getattr(layer, name)(B))
            least = layer.variance(B).min().item()
            t.subject.expect(least >= 0, f"variance in a field of {size:g}/deviation, {dtype}", "at least 0", least)


@torch.no_grad()
def _derivatives(t: Trial) -> None:
    unit, step = t.unit, _STEP / t.spread
    for what, A in t.quadratics:
        mean, variance = unit.mean(t.B, A), unit.variance(t.B, A)
        direction = torch.randn_like(step)
        if not unit.event_shape:
            direction = direction.sign()
        up, down = (unit.log_partition(t.B + sign * step * direction, A) for sign in (1, -1))
        expected = (up - down) / 2
        found = unit.dot(mean, step * direction)
        rounding = 1e-13 * (1 + up.abs())
        t.subject.close(f"mean is the derivative of log_partition{what}", found, expected, 1e-5 * _STEP + rounding)
        with torch.enable_grad():
            field = t.B.clone().requires_grad_()
            (slope,) = torch.autograd.grad(unit.log_partition(field, A).sum(), field)
        scale = 1e-6 * (t.spread + mean.abs())
        t.subject.close(f"mean is the gradient of log_partition by autograd{what}", mean, slope, scale)
        for k in range(unit.event_shape.numel()):
            along = step if not unit.event_shape else step * torch.eye(unit.event_shape.numel(), dtype=F64)[k]
            up, down = (unit.mean(t.B + sign * along, A) for sign in (1, -1))
            curvature, found = (up - down) / 2, variance * step
            if unit.event_shape:
                curvature, found = curvature[..., k], found[..., k]
            allowed = 1e-4 * found.abs() + 1e-12 * (1 + up.abs().max())
            t.subject.close(f"variance is the derivative of mean{what}", found, curvature, allowed)


@torch.no_grad()
def _normalization(t: Trial) -> None:
    unit = t.unit
    for what, A in t.quadratics:
        x, exponents = t.exponents(A)
        log_z = torch.logsumexp(exponents, 0)
        t.subject.close(
            f"log_partition is the logarithm of the sum of e^log_weight over the support{what}",
            unit.log_partition(t.B, A), log_z, 1e-8 * (1 + log_z.abs()),
        )  # fmt: skip
        p = (exponents - log_z).exp()
        mean = t.average(p, x)
        t.subject.close(f"mean is the average over the support{what}", unit.mean(t.B, A), mean, 1e-7 * t.spread)
        variance = t.average(p, (x - mean).square())
        t.subject.close(f"variance over the support{what}", unit.variance(t.B, A), variance, 1e-6 * t.spread.square())
        found, statistics = unit.moments(t.B, A), unit.statistics(x)
        for name, values in statistics.items():
            expected = t.average(p, values)
            size = t.average(p, values.abs())
            t.subject.close(f"moments['{name}'] is the average of statistics{what}", found[name], expected, 1e-7 * size)
        given = unit.moments(t.B, A, mean=unit.mean(t.B, A))
        for name, value in found.items():
            size = 1e-9 * (1 + value.abs())
            t.subject.close(f"moments['{name}'] with the mean given{what}", given[name], value, size)


@torch.no_grad()
def _statistics(t: Trial) -> None:
    """-U is linear in the natural parameters, with the statistics as coefficients, up to a term independent of x."""
    unit, natural = t.unit, {name: value.detach() for name, value in t.unit.natural().items()}
    t.subject.equal("names of natural()", set(natural), set(unit.naturals))
    t.subject.expect(set(unit.learn) <= set(natural), "learn", f"some of {sorted(natural)}", unit.learn)
    x, _ = t.exponents(None)
    x = x[:, 0]
    statistics = unit.statistics(x)
    t.subject.equal("names of statistics()", set(statistics), set(natural))
    t.subject.equal("names of moments()", set(unit.moments(t.B)), set(natural))
    same = unit.with_natural(natural)
    size = 1e-9 * (1 + unit.log_partition(t.B).abs())
    check = "log_partition of with_natural(natural())"
    t.subject.close(check, same.log_partition(t.B), unit.log_partition(t.B), size)
    for name, value in natural.items():
        change = 0.1 * torch.rand_like(value) * torch.where(value == 0, 1.0, value.abs())
        other = unit.with_natural({**natural, name: value + change})
        found = other.log_weight(x) - unit.log_weight(x)
        expected = unit.dot(change, statistics[name])
        size = 1e-8 * (1 + unit.log_weight(x).abs() + expected.abs())
        found, expected = (y - y[:1] for y in (found, expected))
        t.subject.close(f"log_weight changes with {name} by statistics['{name}']", found, expected, size)
    for lead in ((), (5,)):  # machines of a ladder have separate parameters for every row
        wide = {name: value.expand(*lead, *unit.shape) for name, value in natural.items()}
        found = unit.with_natural(wide).log_partition(t.B)
        t.subject.close(f"log_partition of natural parameters of shape {(*lead, *unit.shape)}", found,
                        unit.log_partition(t.B), 1e-9 * (1 + found.abs()))  # fmt: skip


@torch.no_grad()
def _mode(t: Trial) -> None:
    unit, B = t.unit, 3 * t.B
    mode = unit.mode(B)
    check_inside(t, "mode", mode)
    best = unit.log_weight(mode) + unit.dot(B, mode)
    points, _ = t.exponents(None)
    heights = unit.log_weight(points) + unit.dot(B, points)
    highest = heights.max(0).values
    excess = (highest - best).max().item()
    t.subject.expect(excess <= 1e-9 * (1 + best.abs().max().item()), "mode has the largest log_weight + B x",
                     f"at least {highest.flatten()[0]:.6g}, …", f"{excess:.3g} less")  # fmt: skip


@torch.no_grad()
def _draws(t: Trial) -> None:
    unit = t.unit
    for what, A in t.quadratics:
        x, exponents = t.exponents(A)
        p = torch.softmax(exponents[:, :2], 0)  # two of the fields
        B, quadratic = (None if y is None else y[:2].expand(_DRAWS, 2, *unit.shape) for y in (t.B, A))
        assert B is not None
        one, two = (unit.sample(t.B, generator=Generator().manual_seed(1), A=A) for _ in range(2))
        t.subject.expect(
            torch.equal(one, two), f"sample{what} with the same generator", "equal samples", "different samples"
        )
        drawn = unit.sample(B, generator=Generator().manual_seed(1), A=quadratic)
        check_inside(t, f"sample{what}", drawn.flatten(0, 1))
        functions: dict[str, Callable[[Tensor], Tensor]] = {
            "mean": lambda y: y / t.spread,
            "square": lambda y: (y / t.spread).square(),
            "cosine": lambda y: (2 * y / t.spread).cos(),
            "sine": lambda y: (2 * y / t.spread).sin(),
        }
        for name, function in functions.items():
            expected = t.average(p, function(x))
            error = (t.average(p, function(x).square()) - expected.square()).clamp_min(0.0).sqrt() / math.sqrt(_DRAWS)
            allowed = _SIGMAS * error + 20 / _DRAWS  # allows for rare events
            t.subject.close(f"sample{what}: {name} of {_DRAWS} samples", function(drawn).mean(0), expected, allowed)


@torch.no_grad()
def _cumulants(t: Trial) -> None:
    unit, zero = t.unit, torch.zeros(t.unit.shape, dtype=F64)
    t.subject.close("cumulant(1) is the free mean", unit.cumulant(1), unit.mean(zero), 1e-7 * t.spread)
    t.subject.close("cumulant(2) is the free variance", unit.cumulant(2), t.spread.square(), 1e-6 * t.spread.square())
    if unit.event_shape:
        return
    step = 1e-3 / t.spread
    third = (unit.variance(step) - unit.variance(-step)) / (2 * step)
    t.subject.close("cumulant(3) is the slope of the variance", unit.cumulant(3), third, 1e-4 * t.spread**3)


@torch.no_grad()
def _initialization(t: Trial) -> None:
    unit = copy.deepcopy(t.unit)
    zero = torch.zeros(unit.shape, dtype=F64)
    data = unit.sample(zero.expand(400, *unit.shape), generator=Generator().manual_seed(2))
    unit.shift_bias(0.3 / t.spread)
    unit.initialize_from(data, pseudocount=0.0)
    for name, parameter in unit.named_parameters():
        t.subject.finite(f"initialize_from: {name}", parameter)
    check = "initialize_from: the free mean is that of the data"
    pieces = zip(unit.parts, unit.split(data.mean(0)), strict=True)  # units with shared parameters have equal means
    mean = unit.join([part.full(part.shared_mean(piece)) for part, piece in pieces])
    t.subject.close(check, unit.mean(zero), mean, 1e-4 * t.spread)
    unit.float()
    unit.initialize_from(data.float(), pseudocount=0.0)
    t.subject.close(f"{check}, float32", unit.mean(zero.float()), mean, 1e-2 * t.spread)


def check_inside(t: Trial, what: str, x: Tensor) -> None:
    """Check that states are in the support of the unit."""
    try:
        t.unit.check(x, what)
    except InvalidData as error:
        t.subject.expect(False, f"{what} is in the support", t.unit.support.description, error)


MATHEMATICS = (
    _shapes, _finite, _normalization, _derivatives, _statistics, _mode, _draws, _cumulants, _initialization
)  # fmt: skip
