"""Transforms of gradients and parameters; they can be combined with every negative phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..couplings import Coupling, Dense
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.scaling import Scaling
from ..units import Unit
from ..units.support import OneHot
from .negative import NegativePhase
from .optimizers import AnyOptimizer
from .schedules import Clock
from .state import restored, restored_number

Rates = Callable[[Tensor], float]


def same_rate(parameter: Tensor) -> float:
    """Return 1: all parameters have the same learning rate."""
    return 1.0


class Transform:
    """Base class of transforms: change the gradient before the optimizer's step and the parameters after it.

    A transform may also change the coordinates of the optimizer: :meth:`enter` converts the parameters to them just
    before the optimizer's step and :meth:`leave` converts back just after it. A plain step W ← W - ηg is linear, so
    :meth:`pull_back` maps the gradient instead, which is faster.
    """

    #: whether it is a term of the loss; such terms are applied first, so other transforms get the full gradient
    of_loss: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        """The name that must not change when a run is resumed."""
        return type(self).__name__

    def applies(self, machine: BoltzmannMachine) -> bool:
        """Return whether the transform has an effect on the machine; in a stack it is left out where it has none."""
        return True

    def check(self, machine: BoltzmannMachine, optimizer: AnyOptimizer) -> None:
        """Raise :class:`InvalidOption` if the transform cannot be used with this machine and optimizer."""

    def begin(self, machine: BoltzmannMachine, data_mean: Any) -> None:
        """Called before training; ``data_mean`` (*visible) is the mean of the data.

        For a machine with a context it is a pair, with the mean of the context.
        """

    def measured(self, scaling: Scaling) -> None:
        """Called before training if the visible layer has units with a scale, such as Gaussian units."""

    @property
    def linear(self) -> bool:
        """Whether :meth:`pull_back` is equivalent to :meth:`enter` and :meth:`leave` for plain steps."""
        return True

    def prepare(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        """Called before the negative phase computes a gradient."""

    def follow(self, data_mean: Tensor) -> None:
        """Called in each step with the mean (*visible) of the batch, if the distribution of the rows changes."""

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        """Change ``.grad`` of the machine's parameters in place."""

    def enter(self, machine: BoltzmannMachine, phase: NegativePhase, optimizer: AnyOptimizer) -> None:
        """Convert the parameters to the optimizer's coordinates, before its step."""

    def leave(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        """Convert the parameters back to the usual coordinates, after the optimizer's step."""

    def pull_back(self, machine: BoltzmannMachine, phase: NegativePhase, learning_rate_of: Rates = same_rate) -> None:
        """Map the gradient so that a plain step with it equals a plain step in the transform's coordinates.

        ``learning_rate_of`` returns the learning rate of a parameter.
        """

    def parameters(self, machine: BoltzmannMachine, clock: Clock) -> None:
        """Change the parameters in place."""

    def end(self, machine: BoltzmannMachine) -> None:
        """Called after the last step."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resume."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state returned by :meth:`state_dict`."""

    def config(self) -> dict[str, Any]:
        """Return the name and options of the transform, for the run's configuration."""
        options = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        return {"transform": type(self).__name__, **options}


class Clip(Transform):
    """Scale the gradient to the norm ``max_norm`` if its norm is larger."""

    def __init__(self, max_norm: float) -> None:
        if not max_norm > 0:
            raise InvalidOption(f"max_norm: expected a positive number, found {max_norm}")
        self.max_norm = max_norm

    def gradient(self, machine: BoltzmannMachine, phase: NegativePhase) -> None:
        for link in phase.all_gradients:
            link.dense()
        torch.nn.utils.clip_grad_norm_(machine.parameters(), self.max_norm)


class ZeroSum(Transform):
    """Zero-sum gauge of one-hot units: the weights and biases of a site sum to zero over its states.

    The subtracted constants are added to the biases of the other layer, so the model does not change.
    """

    def applies(self, machine: BoltzmannMachine) -> bool:
        return any(_one_hot_parts(unit) for unit in machine.layers)

    def check(self, machine: BoltzmannMachine, optimizer: AnyOptimizer) -> None:
        if not self.applies(machine):
            raise InvalidOption("ZeroSum expects a layer of one-hot (Potts) units, found none")
        for coupling in all_couplings(machine):
            if type(coupling) is not Dense:  # with a mask or a kernel the constant cannot be subtracted
                raise InvalidOption(f"ZeroSum expects dense couplings, found {type(coupling).__name__}")
        for k, unit in enumerate(machine.layers):
            if any(part.shared for part in unit.parts):  # the subtracted constants differ between the units
                raise InvalidOption(f"ZeroSum expects a bias for each unit, found shared biases in layer {k}")

    @torch.no_grad()
    def parameters(self, machine: BoltzmannMachine, clock: Clock | None = None) -> None:
        units = machine.layers
        for k, coupling in enumerate(machine.couplings):
            weight = coupling.weight.data.view(coupling.lower.numel(), coupling.upper.numel())
            for part, entries in _one_hot_parts(units[k]):
                block = weight[entries].unflatten(0, (part.sites, -1))
                excess = block.mean(1, keepdim=True)
                block -= excess
                units[k + 1].shift_bias(excess.sum((0, 1)).view(coupling.upper))
            for part, entries in _one_hot_parts(units[k + 1]):
                block = weight[:, entries].unflatten(1, (part.sites, -1))
                excess = block.mean(2, keepdim=True)
                block -= excess
                units[k].shift_bias(excess.sum((1, 2)).view(coupling.lower))
        for k, coupling in machine.context_couplings.items():
            weight = coupling.weight.data.view(coupling.lower.numel(), coupling.upper.numel())
            for part, entries in _one_hot_parts(units[k]):  # a constant for a site, which changes no probability
                block = weight[:, entries].unflatten(1, (part.sites, -1))
                block -= block.mean(2, keepdim=True)
        for unit in units:
            for part, _ in _one_hot_parts(unit):
                part.bias.data.sub_(part.bias.data.mean(-1, keepdim=True))


def _one_hot_parts(unit: Unit) -> list[tuple[Unit, slice]]:
    """Return the parts of a layer with one-hot units, and the entries of each in a state."""
    found, start = [], 0
    for part in unit.parts:
        if isinstance(part.support, OneHot):
            found.append((part, slice(start, start + part.size)))
        start += part.size
    return found


class Average(Transform):
    """At the end, replace the parameters by their average over the last fraction of the run (Polyak & Juditsky 1992).

    Args:
        last: fraction of the run to average over.
        every: number of steps between the averaged parameters.
    """

    def __init__(self, last: float = 0.3, every: int = 10) -> None:
        if not 0 < last <= 1 or every < 1:
            raise InvalidOption(f"last, every: expected a fraction 0 < last ≤ 1, every ≥ 1, found {last} and {every}")
        self.last, self.every = last, every
        self._mean: list[Tensor] = []
        self._count = self._seen = 0

    def begin(self, machine: BoltzmannMachine, data_mean: Any) -> None:
        self._mean, self._count, self._seen, self._device = [], 0, 0, machine.device
        self._like = [torch.empty_like(parameter, device="meta") for parameter in machine.parameters()]

    @torch.no_grad()
    def parameters(self, machine: BoltzmannMachine, clock: Clock) -> None:
        if clock.fraction < 1 - self.last:
            return
        self._seen += 1
        if (self._seen - 1) % self.every:
            return
        self._count += 1
        if not self._mean:
            self._mean = [p.detach().clone() for p in machine.parameters()]
        for mean, parameter in zip(self._mean, machine.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 1 / self._count)

    @torch.no_grad()
    def end(self, machine: BoltzmannMachine) -> None:
        for mean, parameter in zip(self._mean, machine.parameters(), strict=False):
            parameter.copy_(mean)

    def state_dict(self) -> dict[str, Any]:
        return {"mean": list(self._mean), "count": self._count, "seen": self._seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        like = self._like if state["mean"] else []
        self._mean = [restored(x, own).to(self._device) for x, own in zip(state["mean"], like, strict=True)]
        self._count, self._seen = restored_number(state["count"]), restored_number(state["seen"])


def all_couplings(machine: BoltzmannMachine) -> list[Coupling]:
    """Return the couplings of the layers and of the context."""
    return [*machine.couplings, *machine.context_couplings.values()]
