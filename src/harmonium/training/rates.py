"""Learning rates that ``fit`` chooses from the machine and the data, and lowers where single rows change too much."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from .. import noise
from ..couplings import Coupling
from ..machines import BoltzmannMachine, Machine
from ..machines.scaling import Scaling
from ..units import Unit
from .descent import AnyOptimizer

#: fraction of a Newton step along the direction of largest curvature
_STEP = 0.05
_LARGEST = 0.5
#: fraction of 1/√curvature that a step of Adam changes a parameter
_ADAM_STEP = 0.1
#: nats; largest change of the log-probability of a row by its own part of a step
_CHANGE = 0.1
_DRAWS = 1000
_IMAGES = 200  # rows for couplings with shared weights, whose responses may be large
_ITERATIONS = 20


@torch.no_grad()
def default_groups(machine: Machine, data: Any, scaling: Scaling | None = None) -> list[dict[str, Any]]:
    """Return parameter groups for ``torch.optim.SGD`` with learning rates chosen from ``data`` (n, *visible).

    A rate is 1/20 of the inverse curvature of the loss at zero weights, and at most 0.5. In centered coordinates the
    curvature is the variance of the sufficient statistic for a parameter of a unit, and λ_max(Cov x) · max Var y for
    the weights between the layers x and y. A shared parameter has the variance of the sum of its statistics, and
    a weight that couples several pairs of units the sum over these pairs. Units of any scale therefore learn equally
    fast. In a stack, the rates of each machine are chosen from the input passed up to it. For a machine with a context,
    ``data`` is a pair of rows and contexts. With ``scaling``, the rates are those in standardized coordinates of the
    visible layer.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(4), hm.units.Spin(2))
    >>> rows = torch.tensor([[1.0, 1, 1, 1], [-1, -1, -1, -1]])  # variance 4 along one direction
    >>> [(len(group["params"]), round(group["lr"], 4)) for group in default_groups(rbm, rows)]
    [(1, 0.05), (1, 0.05), (1, 0.0125)]
    """
    generator = noise.generator(0, machine.device)
    rates: dict[int, float] = {}
    for one, rows in machine.stacked(data, generator=generator):
        if one.context is None:
            rates |= _rates(one, rows, generator, scaling if one is machine.machines[0] else None)
        else:
            v, context = rows
            rates |= _rates(one, v, generator, context=context)
    return [{"params": [p], "lr": rates[id(p)]} for p in machine.parameters() if p.requires_grad]


def adam_groups(machine: Machine, data: Any, scaling: Scaling | None = None) -> list[dict[str, Any]]:
    """Return parameter groups for ``torch.optim.Adam`` with learning rates chosen from ``data`` (n, *visible).

    A step of Adam changes a parameter by about the rate, whatever the size of the gradient. The rate is therefore a
    fraction of the change of a parameter that matters, 1/√curvature, with the curvature of :func:`default_groups`.

    >>> import harmonium as hm
    >>> rows = torch.tensor([[1.0, 1, 1, 1], [-1, -1, -1, -1]])
    >>> groups = adam_groups(hm.RBM(hm.units.Spin(4), hm.units.Spin(2)), rows)
    >>> [round(group["lr"], 4) for group in groups]
    [0.1, 0.1, 0.05]
    """
    groups = default_groups(machine, data, scaling)
    return [{**group, "lr": _ADAM_STEP * math.sqrt(group["lr"] / _STEP)} for group in groups]


class RateLimit:
    """Lower learning rates of weights that have become too large, in machines with unbounded hidden units.

    The default rates are chosen from the curvature at zero weights. The means of Gaussian, ReLU and Poisson hidden
    units grow with the weights. If the data have a rare mode, a single row of it in a batch then changes the
    probability of the mode by orders of magnitude, and training does not converge. A row whose sufficient statistic
    s = x·y of the weights has the distance d from its mean changes its own log-probability by η d²/B, with the learning
    rate η and B rows in a batch. Rates are lowered such that this is at most 0.1 nats. Rates are never raised.

    The distance is that of rare rows: d² = ⟨p⁴⟩/⟨p²⟩, where p is the projection of s - ⟨s⟩ on its first principal
    direction in the data. For a rare mode, all of the variance is due to its rows.

    Args:
        machine: the trained machine.
        data: rows, as in :func:`default_groups`.
        scaling: standardized coordinates of the visible layer, if the rates are those in these coordinates.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(4), hm.units.Gaussian(2))
    >>> rows = torch.tensor([[1.0, 1, 1, 1]] * 99 + [[-1, -1, -1, -1]])
    >>> optimizer = torch.optim.SGD(default_groups(rbm, rows))
    >>> _ = torch.nn.init.constant_(rbm.weight, 2.0)
    >>> RateLimit(rbm, rows).lower(optimizer, batch_size=100)
    >>> round(optimizer.param_groups[-1]["lr"], 4)  # of the weights; 0.0387 before
    0.0013
    """

    def __init__(self, machine: Machine, data: Any, scaling: Scaling | None = None) -> None:
        self._machine, self._data, self._scaling = machine, data, scaling

    @staticmethod
    def applies(machine: Machine) -> bool:
        """Return whether a machine has unbounded hidden units; the rates of others do not change."""
        return any(_unbounded(unit) for one in machine.machines for unit in one.layers[1:])

    @torch.no_grad()
    def lower(self, optimizer: AnyOptimizer, batch_size: int) -> None:
        """Lower the rates of the optimizer's parameter groups where they are too large for the current weights."""
        groups = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
        generator = noise.generator(0, self._machine.device)
        for one, rows in self._machine.stacked(self._data, generator=generator):
            x, context = rows if one.context is not None else (rows, None)
            for k, coupling in enumerate(one.couplings):
                upper, field = one.layers[k + 1], coupling.up(x)
                if context is not None and k + 1 in one.context_couplings:
                    field = field + one.context_couplings[k + 1].up(context)
                y = upper.mean(field)
                group = groups.get(id(coupling.weight))
                if group is not None and _unbounded(upper):
                    scaling = self._scaling if k == 0 and one is self._machine.machines[0] else None
                    squares = _projections(coupling, x if scaling is None else scaling.states(x), y).square()
                    distance = (squares.square().mean() / squares.mean()).item()
                    if 0 < distance < math.inf:  # zero weights; if infinite, the check for finite parameters follows
                        group["lr"] = min(group["lr"], _CHANGE * batch_size / distance)
                x = y


def _unbounded(unit: Unit) -> bool:
    return bool(unit.tail().unbounded.any())


def _projections(coupling: Coupling, x: Tensor, y: Tensor) -> Tensor:
    """Return (x - ⟨x⟩)·(y - ⟨y⟩) of rows along its first principal direction, in the coordinates of the weights."""
    x, y = x - x.mean(0), y - y.mean(0)
    if coupling.weight.numel() >= coupling.lower.numel() * coupling.upper.numel():
        a, b = x.flatten(1).to(torch.float64), y.flatten(1).to(torch.float64)
        if a.shape[1] * b.shape[1] <= len(a):
            products = (a[:, :, None] * b[:, None, :]).flatten(1)
            products -= products.mean(0)
            return products @ _leading(lambda v: products.T @ (products @ v), products.square().sum(0))[1]
        gram = (a @ a.T) * (b @ b.T)  # inner products of the outer products of two rows
        gram -= gram.mean(0)
        gram -= gram.mean(1, keepdim=True)
        value, direction = _leading(lambda v: gram @ v, gram.diagonal())
        return direction * value**0.5
    x, y = x[:_IMAGES], y[:_IMAGES]

    def project(direction: Tensor) -> Tensor:
        found = (coupling.with_weight(direction).up(x) * y).flatten(1).sum(1)
        return found - found.mean()

    def covariance(direction: Tensor) -> Tensor:
        factors = project(direction).view(-1, *(1,) * (y.ndim - 1))
        return coupling.correlate(x, y * factors, scale=1 / len(x))

    return project(_leading(covariance, _random_direction(coupling))[1])


def _rates(
    machine: BoltzmannMachine,
    data: Tensor,
    generator: Generator | None,
    scaling: Scaling | None = None,
    context: Tensor | None = None,
) -> dict[int, float]:
    """Return the rate of every parameter of a machine, by its ``id``."""
    rates: dict[int, float] = {}
    layers = list(machine.layers)
    if scaling is not None:
        layers[0], data, layers[1] = scaling.layer(layers[0]), scaling.states(data), copy.deepcopy(layers[1])
        layers[1].shift_bias(machine.couplings[0].up(scaling.location[None])[0])
    for k, unit in enumerate(layers):
        bound = unit.conserving(data) if k == 0 else unit  # keeps the document lengths
        field = torch.zeros(len(data) if k == 0 else _DRAWS, *unit.shape, dtype=machine.dtype, device=machine.device)
        if k == 0 and context is not None and 0 in machine.context_couplings:
            field = machine.context_couplings[0].up(context)
        free = bound.sample(field, generator=generator)
        seen = [data, free] if k == 0 else [free]  # use the larger variance of the data and the initial model
        again = bound.sample(field, generator=generator) if k == 0 and context is not None else None
        own = zip(machine.layers[k].parameters(), unit.parameters(), strict=True)
        found = _unit_rates(unit, seen, again)
        rates |= {id(parameter): found[id(used)] for parameter, used in own if id(used) in found}
        if k < len(machine.couplings):
            curvature = max(_curvature(machine.couplings[k], x, layers[k + 1]) for x in seen)
            rates[id(machine.couplings[k].weight)] = _rate(curvature)
    for k, coupling in machine.context_couplings.items():
        assert context is not None
        rates[id(coupling.weight)] = _rate(_curvature(coupling, context, machine.layers[k]))
    return rates


def _rate(curvature: float) -> float:
    return min(_STEP / curvature, _LARGEST) if curvature > 0 else _LARGEST


def _curvature(coupling: Coupling, x: Tensor, upper: Unit) -> float:
    """Return the largest curvature of the loss by the weights, for states x (n, *lower) of the lower layer."""
    variance = upper.free_variance()
    if coupling.weight.numel() >= coupling.lower.numel() * coupling.upper.numel():
        return _largest_variance(x) * variance.max().item()
    # Weights that couple several pairs of units: the curvature along D is Σ_j Var y_j ⟨((x - ⟨x⟩)·D)_j²⟩.
    x = x[:_IMAGES] - x[:_IMAGES].mean(0)
    return _leading(
        lambda d: coupling.correlate(x, coupling.with_weight(d).up(x) * variance, scale=1 / len(x)),
        _random_direction(coupling),
    )[0]


def _unit_rates(unit: Unit, seen: Sequence[Tensor], again: Tensor | None = None) -> dict[int, float]:
    """Return the rate of every stored parameter of the unit by its ``id``, from the variance of its statistic.

    With a context, this is the variance given the context of a row, half the mean square of the difference from
    ``again``, draws of the initial model with the same contexts.
    """
    rates: dict[int, float] = {}
    for k, part in enumerate(unit.members):
        statistics = [part.statistics(unit.by_member(x)[k][1]) for x in seen]
        with torch.enable_grad():
            natural = {name: value for name, value in part.natural().items() if value.requires_grad}
            for name, value in natural.items():
                totals = [part.shared_sum(s[name]) for s in statistics]
                if again is None:
                    variance = torch.stack([total.var(0, correction=0) for total in totals]).amax(0)
                else:
                    other = part.shared_sum(part.statistics(unit.by_member(again)[k][1])[name])
                    variance = torch.stack([(total - other).square().mean(0) / 2 for total in totals]).amax(0)
                stored = [parameter for parameter in part.parameters() if parameter.requires_grad]
                slopes = torch.autograd.grad(value.sum(), stored, allow_unused=True)  # p if stored as ln p, else 1
                for parameter, slope in zip(stored, slopes, strict=True):
                    if slope is not None:
                        rates[id(parameter)] = _rate((variance * slope.square()).max().item())
    return rates


def _largest_variance(x: Tensor) -> float:
    """Return λ_max of the covariance of states (n, *shape) by power iteration; at least the largest variance."""
    x = x.flatten(1).to(torch.float64)
    x = x - x.mean(0)
    spread = x.square().mean(0)
    value, _ = _leading(lambda d: x.T @ (x @ d) / len(x), spread.sqrt())
    return max(value, spread.max().item())


def _random_direction(coupling: Coupling) -> Tensor:
    direction = coupling.weight.new_empty(coupling.weight.shape)
    return direction.normal_(generator=noise.generator(0, direction.device))


def _leading(apply: Callable[[Tensor], Tensor], direction: Tensor) -> tuple[float, Tensor]:
    """Return λ_max of a positive semidefinite linear map and its direction, by power iteration from ``direction``."""
    value = 0.0
    for _ in range(_ITERATIONS):
        norm = direction.norm()
        if not norm > 0:
            break
        direction = apply(direction / norm)
        value = direction.norm().item()
    return value, direction / direction.norm()
