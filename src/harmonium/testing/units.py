"""Conformance checks of a unit: its functions are consistent with each other and with sums over the support."""

from __future__ import annotations

import copy
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor

from ..couplings import Dense
from ..errors import InvalidData, InvalidOption
from ..files import load, save
from ..machines import RBM
from ..training import Exact
from ..training.defaults import default_groups
from ..units import Bernoulli, Unit
from . import nodes
from .nodes import F64
from .report import Subject

_DRAWS = 20_000
_SIGMAS = 5.0
_STEP = 1e-4  # of finite differences, in units of 1/(standard deviation)


def check_unit(unit: Unit, *, seed: int = 0) -> None:
    """Check that an instance of :class:`~harmonium.units.Unit` fulfills the contract.

    Compares ``log_partition``, ``mean``, ``variance``, ``moments`` and samples with sums or quadrature of
    e^{log_weight} over the support and with finite differences, in float64. Also checks shapes and types, the in-place
    forms, errors for data outside the support, ``initialize_from``, files, and that a small RBM with this unit learns.
    The unit itself is not changed. Use nonzero parameters that differ between the units of the layer: then the checks
    find functions that ignore them.

    Args:
        unit: a layer of a few units. A mixed layer is checked as a whole and part by part.
        seed: seed of the draws and of the random fields.

    Raises:
        AssertionError: with the name of the check, the expected and the actual value.

    >>> from harmonium.units import Spin
    >>> check_unit(Spin(2, bias=torch.tensor([0.3, -0.5])))
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for part in unit.parts:
            trial = _Trial.of(part)
            for check in _MATHEMATICS:
                check(trial)
        trial = _Trial.of(unit)
        for check in _LAYER:
            check(trial)


@dataclass(frozen=True)
class _Trial:
    """A copy of the unit in float64, and the inputs of the checks."""

    subject: Subject
    unit: Unit
    spread: Tensor  # standard deviation of the free units, (*shape)
    B: Tensor  # random fields, (n, *shape)
    A: Tensor

    @staticmethod
    def of(unit: Unit) -> _Trial:
        subject = Subject("check_unit", unit.name())
        double = copy.deepcopy(unit).double()
        with torch.no_grad():
            variance = double.free_variance()
        subject.equal("free_variance (shape)", tuple(variance.shape), tuple(unit.shape))
        subject.finite("free_variance", variance)
        subject.expect(bool((variance > 0).all()), "free_variance", "positive values", variance.min().item())
        spread = variance.sqrt()
        # fields that move the mean by about one standard deviation, quadratic terms that narrow the unit a little
        noise = torch.randn(5, *unit.shape, dtype=F64), torch.rand(5, *unit.shape, dtype=F64)
        return _Trial(subject, double, spread, noise[0] / spread, 0.1 * noise[1] / variance)

    @property
    def quadratics(self) -> Iterator[tuple[str, Tensor | None]]:
        """Yield (label, A) without and with a quadratic term."""
        yield from (("", None), (" with A", self.A))

    def exponents(self, A: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return points (m, 1, *shape) and unnormalized log-probabilities (m, n, *site shape) in the fields B and A."""
        unit = self.unit
        points, weights = nodes.of_unit(unit)
        points = points.view(-1, 1, *(1 for _ in range(len(unit.shape) - len(unit.event_shape))), *unit.event_shape)
        x = points.expand(len(points), 1, *unit.shape)
        value = unit.log_weight(x) + unit.dot(self.B, x)
        value = value if A is None else value - unit.dot(A, x.square()) / 2
        return x, value + weights.view(-1, *(1 for _ in value.shape[1:]))

    def average(self, p: Tensor, values: Tensor) -> Tensor:
        """Return the expectation (n, *shape) of values (m, 1, *shape) under p (m, n, *site shape)."""
        return ((p.unsqueeze(-1) if self.unit.event_shape else p) * values).sum(0)


# -- the mathematics of one unit type -------------------------------------------------------------------------------


@torch.no_grad()
def _shapes(t: _Trial) -> None:
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
def _finite(t: _Trial) -> None:
    for dtype in (F64, torch.float32):
        layer = copy.deepcopy(t.unit).to(dtype)
        for size in (0.0, -1.0, 1.0, -10.0, 10.0, *((-1e3, 1e3) if t.unit.support.bounded else ())):
            B = (size / t.spread).to(dtype)
            for name in ("log_partition", "mean", "variance"):
                t.subject.finite(f"{name} in a field of {size:g}/deviation, {dtype}", getattr(layer, name)(B))
            least = layer.variance(B).min().item()
            t.subject.expect(least >= 0, f"variance in a field of {size:g}/deviation, {dtype}", "at least 0", least)


@torch.no_grad()
def _derivatives(t: _Trial) -> None:
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
def _normalization(t: _Trial) -> None:
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
def _statistics(t: _Trial) -> None:
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
def _mode(t: _Trial) -> None:
    unit, B = t.unit, 3 * t.B
    mode = unit.mode(B)
    _inside(t, "mode", mode)
    best = unit.log_weight(mode) + unit.dot(B, mode)
    points, _ = t.exponents(None)
    heights = unit.log_weight(points) + unit.dot(B, points)
    highest = heights.max(0).values
    excess = (highest - best).max().item()
    t.subject.expect(excess <= 1e-9 * (1 + best.abs().max().item()), "mode has the largest log_weight + B x",
                     f"at least {highest.flatten()[0]:.6g}, …", f"{excess:.3g} less")  # fmt: skip


@torch.no_grad()
def _draws(t: _Trial) -> None:
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
        _inside(t, f"sample{what}", drawn.flatten(0, 1))
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
def _cumulants(t: _Trial) -> None:
    unit, zero = t.unit, torch.zeros(t.unit.shape, dtype=F64)
    t.subject.close("cumulant(1) is the free mean", unit.cumulant(1), unit.mean(zero), 1e-7 * t.spread)
    t.subject.close("cumulant(2) is the free variance", unit.cumulant(2), t.spread.square(), 1e-6 * t.spread.square())
    if unit.event_shape:
        return
    step = 1e-3 / t.spread
    third = (unit.variance(step) - unit.variance(-step)) / (2 * step)
    t.subject.close("cumulant(3) is the slope of the variance", unit.cumulant(3), third, 1e-4 * t.spread**3)


@torch.no_grad()
def _initialization(t: _Trial) -> None:
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


def _inside(t: _Trial, what: str, x: Tensor) -> None:
    try:
        t.unit.check(x, what)
    except InvalidData as error:
        t.subject.expect(False, f"{what} is in the support", t.unit.support.description, error)


# -- the layer ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def _parts(t: _Trial) -> None:
    unit = t.unit
    t.subject.expect(torch.equal(unit.join(unit.split(t.B)), t.B), "join(split(x))", "x", "a different tensor")
    t.subject.equal("sites", unit.sites, sum(part.sites for part in unit.parts))
    t.subject.equal("tail (size)", tuple(unit.tail().precision.shape), (unit.size,))
    if unit.cardinality is not None and unit.cardinality <= 4096:
        states = unit.enumerate()
        t.subject.equal("number of enumerated states", len(states), unit.cardinality)
        t.subject.equal("number of different states", len(states.unique(dim=0)), unit.cardinality)
        _inside(t, "enumerate", states)


@torch.no_grad()
def _in_place(t: _Trial) -> None:
    unit, B = t.unit, t.B
    size = 1e-9 * (t.spread + unit.mean(B).abs())
    for what, A in t.quadratics:
        mean, variance = torch.full_like(B, 77.0), torch.full_like(B, 77.0)
        unit.mean_and_variance_(B.clone(), A, mean, variance)
        t.subject.close(f"mean_and_variance_: mean{what}", mean, unit.mean(B, A), size)
        t.subject.close(f"mean_and_variance_: variance{what}", variance, unit.variance(B, A), size * t.spread)
    out = torch.full_like(B, 77.0)
    t.subject.expect(unit.mean_(B.clone(), out) is out, "mean_ returns its buffer", True, False)
    t.subject.close("mean_", out, unit.mean(B), size)
    drawn = unit.sample(B, generator=Generator().manual_seed(3))
    for given in (None, unit.mean(B)):
        field = B.clone() if given is None or not unit.samples_from_mean else torch.full_like(B, torch.nan)
        what = "sample_" + ("" if given is None else " with the mean given")
        found = unit.sample_(field, torch.full_like(B, 77.0), Generator().manual_seed(3), mean=given)
        t.subject.close(f"{what} equals sample", found, drawn, 1e-9 * (1 + drawn.abs()))
    other = copy.deepcopy(unit)
    other.shift_bias(0.1 / t.spread)
    change = (unit.log_partition(B) - other.log_partition(0.5 * B)).reshape(len(B), -1).sum(1)
    for given in (None, unit.mean(B)):
        found = unit.log_partition_gain(B.clone(), other, 0.5 * B, given)
        t.subject.close("log_partition_gain is the change of log_partition", found, change, 1e-6 * (1 + change.abs()))


def _outside(t: _Trial) -> None:
    unit = t.unit
    good = unit.mode(torch.zeros(1, *unit.shape, dtype=F64)).detach()
    candidates = [torch.nan, torch.inf, -torch.inf, -1e6, 0.37]
    for value in candidates:
        bad = good.clone()
        bad[(0,) * bad.ndim] = value
        part, piece = unit.parts[0], unit.split(bad)[0]
        if math.isfinite(value) and bool(part.support.contains(piece).all()):
            continue
        try:
            unit.check(bad)
        except InvalidData:
            continue
        t.subject.expect(False, f"check of data with the value {value}", "InvalidData", "no error")
    try:
        unit.check(good[0, ..., :-1].unsqueeze(0) if unit.shape[-1] > 1 else good[0])
    except InvalidData:
        return
    t.subject.expect(False, "check of data of the wrong shape", "InvalidData", "no error")


@torch.no_grad()
def _files(t: _Trial) -> None:
    unit = t.unit
    again = Unit.from_config(json.loads(json.dumps(unit.config()))).double()
    t.subject.equal("type after from_config(config())", type(again).__name__, type(unit).__name__)
    t.subject.equal("config after from_config(config())", again.config(), unit.config())
    t.subject.equal("shape after from_config(config())", tuple(again.shape), tuple(unit.shape))
    t.subject.equal("names in state_dict after from_config", list(again.state_dict()), list(unit.state_dict()))
    again.load_state_dict(unit.state_dict())
    same = torch.equal(again.log_partition(t.B), unit.log_partition(t.B))
    t.subject.expect(same, "log_partition after from_config and load_state_dict", "bitwise equal", "different")
    rbm = RBM(copy.deepcopy(unit), Bernoulli(2).double())
    with tempfile.TemporaryDirectory() as folder:
        save(rbm, Path(folder) / "machine.safetensors")
        loaded = load(Path(folder) / "machine.safetensors")
    same = torch.equal(loaded.visible.log_partition(t.B), unit.log_partition(t.B))
    t.subject.expect(same, "log_partition after save and load", "bitwise equal", "different")


def _training(t: _Trial) -> None:
    """Check that an RBM with this unit, visible or hidden, learns data of another RBM with exact gradients."""
    for place in ("visible", "hidden"):
        layers = [copy.deepcopy(t.unit), Bernoulli(3).double()]
        scales = [t.spread, torch.full((3,), 0.5, dtype=F64)]
        if place == "hidden":
            layers, scales = layers[::-1], scales[::-1]
        flat = [scale.flatten() for scale in scales]
        signs = torch.randn(len(flat[0]), len(flat[1]), generator=Generator().manual_seed(4), dtype=F64).sign()
        weight = 1.5 * signs / (flat[0][:, None] * flat[1] * max(len(x) for x in flat) ** 0.5)
        teacher = RBM(layers[0], layers[1], Dense(tuple(layers[0].shape), tuple(layers[1].shape), weight))
        teacher.check_normalizable()
        data = _exact_draws(teacher, 500)
        student = copy.deepcopy(teacher)
        student.initialize(data, seed=0)
        before = student.log_probability(data).mean().item()
        phase, optimizer = Exact(), torch.optim.SGD(default_groups(student, data))
        with torch.no_grad():
            phase.begin(student, len(data), data, None)
            phase.data_slot.copy_(data)
            for _ in range(30):
                phase.gradient(student, None)
                optimizer.step()
        after = student.log_probability(data).mean().item()
        t.subject.expect(after > before, f"log-likelihood after training as {place} layer", f"above {before:.6g}",
                         f"{after:.6g}")  # fmt: skip


@torch.no_grad()
def _exact_draws(rbm: RBM, n: int) -> Tensor:
    """Draw visible states of an RBM with one finite layer: that layer exactly, then the other given it."""
    generator = Generator().manual_seed(5)
    if rbm.hidden.cardinality is None:
        states, log_p = rbm.distribution()
        return states[torch.multinomial(log_p.exp(), n, replacement=True, generator=generator)]
    states = rbm.hidden.enumerate()
    p = torch.softmax(-rbm.hidden_free_energy(states), 0)
    hidden = states[torch.multinomial(p, n, replacement=True, generator=generator)]
    return rbm.sample_visible(hidden, generator=generator)


def _name(t: _Trial) -> None:
    kind = Unit.registry.get(t.unit.name())
    t.subject.expect(kind is type(t.unit), "class registered under name()", type(t.unit), kind)
    try:
        Unit.from_config({"unit": f"no-{t.unit.name()}", "shape": [1]})
    except InvalidOption:
        return
    t.subject.expect(False, "from_config of an unknown name", "InvalidOption", "no error")


_MATHEMATICS = (
    _shapes, _finite, _normalization, _derivatives, _statistics, _mode, _draws, _cumulants, _initialization
)  # fmt: skip
_LAYER = (_name, _parts, _in_place, _outside, _files, _training)
