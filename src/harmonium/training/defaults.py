"""Defaults that ``fit`` chooses from the machine and the data: learning rates, their schedule and number of epochs."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from .. import noise
from ..couplings import Coupling
from ..errors import InvalidOption
from ..machines import BoltzmannMachine, Machine
from ..machines.scaling import Scaling
from ..units import Unit

#: the default schedule of earlier versions, whose checkpoints do not name it
CONSTANT = "constant"
#: fraction of a Newton step along the direction of largest curvature
_STEP = 0.05
_LARGEST = 0.5
_FEWEST_EPOCHS, _MOST_EPOCHS, _FEWEST_UPDATES = 10, 1000, 2000
_DRAWS = 1000
_IMAGES = 200  # rows for couplings with shared weights, whose responses may be large
_ITERATIONS = 20


def default_epochs(rows: int, batch_size: int) -> int:
    """Return the default number of epochs: 10, or more (up to 1000) if 2000 updates need more.

    >>> default_epochs(60_000, 100), default_epochs(1797, 100)
    (10, 112)
    """
    if batch_size < 1:
        raise InvalidOption(f"batch_size: expected at least 1, found {batch_size}")
    return min(max(_FEWEST_EPOCHS, -(-_FEWEST_UPDATES // math.ceil(rows / batch_size))), _MOST_EPOCHS)


def default_schedule(from_data: bool) -> str:
    """Return the default schedule: one that ends at zero if the learning rates are chosen ``from_data``.

    With a constant learning rate, persistent chains of machines that mix slowly keep losing modes, and the likelihood
    depends on the step at which training ends. A learning rate given by the user is not changed.

    >>> default_schedule(True), default_schedule(False)
    ('linear:0.5', 'constant')
    """
    return "linear:0.5" if from_data else CONSTANT


def label_scale(machine: Machine) -> float:
    """Return the scale of the initial weights of a machine that learns to classify, 1/√(number of visible units).

    At zero weights ln p(label | features) has a saddle point: the gradients of the weights of the features and of the
    label are proportional to each other. Training leaves it slowly from weights of the usual scale 0.01.

    >>> import harmonium as hm
    >>> label_scale(hm.RBM(hm.units.Mixed(hm.units.Bernoulli(6), hm.units.Potts((1, 10))), 3))
    0.25
    """
    return 1 / math.sqrt(machine.visible.size)


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
    direction, value = coupling.weight.new_empty(coupling.weight.shape), 0.0
    direction.normal_(generator=noise.generator(0, direction.device))
    for _ in range(_ITERATIONS):
        norm = direction.norm()
        if not norm > 0:
            break
        response = coupling.with_weight(direction / norm).up(x)
        direction = coupling.correlate(x, response * variance, scale=1 / len(x))
        value = direction.norm().item()
    return value


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
                    other = part.shared_sum(part.statistics(unit.split(again)[k])[name])
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
    direction, value = spread.sqrt(), 0.0
    for _ in range(_ITERATIONS):
        norm = direction.norm()
        if not norm > 0:
            break
        direction = x.T @ (x @ (direction / norm)) / len(x)
        value = direction.norm().item()
    return max(value, spread.max().item())
