"""Constraints: maps of the parameters after every step, and one at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..couplings import Dense
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..units import Unit
from ..units.support import OneHot
from .descent import AnyOptimizer
from .schedules import Clock
from .state import restored, restored_number
from .transforms import Transform, all_couplings


@dataclass
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


@dataclass
class Average(Transform):
    """At the end, replace the parameters by their average over the last fraction of the run (Polyak & Juditsky 1992).

    Args:
        last: fraction of the run to average over.
        every: number of steps between the averaged parameters.
    """

    last: float = 0.3
    every: int = 10

    def __post_init__(self) -> None:
        last, every = self.last, self.every
        if not 0 < last <= 1 or every < 1:
            raise InvalidOption(f"last, every: expected a fraction 0 < last ≤ 1, every ≥ 1, found {last} and {every}")
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


#: constraints by their names in files and on the command line
CONSTRAINTS = {"zero-sum": ZeroSum, "average": Average}
