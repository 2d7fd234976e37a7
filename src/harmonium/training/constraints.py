"""Constraints: maps of the parameters after every step, and one at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..couplings import Dense
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..units import Unit
from ..units.support import OneHot
from .schedules import Clock

State = dict[str, Any]


@dataclass(frozen=True)
class Constraint:
    """Base class. A constraint is a value; what changes is its state, a tree of tensors and numbers."""

    def check(self, machine: BoltzmannMachine) -> None:
        """Raise :class:`InvalidOption` if the constraint cannot be used with the machine."""

    def applies(self, machine: BoltzmannMachine) -> bool:
        """Return whether it concerns the machine; in a stack it is left out where it does not."""
        return True

    def init(self, machine: BoltzmannMachine) -> State:
        """Return the state before the first step."""
        return {}

    def after_step(self, machine: BoltzmannMachine, state: State, clock: Clock) -> State:
        """Change the parameters in place; return the next state."""
        return state

    def finish(self, machine: BoltzmannMachine, state: State) -> None:
        """Change the parameters in place after the last step."""


@dataclass(frozen=True)
class ZeroSum(Constraint):
    """Zero-sum gauge of one-hot units: the weights and biases of a site sum to zero over its states.

    The subtracted constants are added to the biases of the other layer, so the model does not change.
    """

    def applies(self, machine: BoltzmannMachine) -> bool:
        return any(_one_hot_parts(unit) for unit in machine.layers)

    def check(self, machine: BoltzmannMachine) -> None:
        if not self.applies(machine):
            raise InvalidOption("ZeroSum expects a layer of one-hot (Potts) units, found none")
        for coupling in (*machine.couplings, *machine.context_couplings.values()):
            if type(coupling) is not Dense:  # with a mask or a kernel the constant cannot be subtracted
                raise InvalidOption(f"ZeroSum expects dense couplings, found {type(coupling).__name__}")
        for k, unit in enumerate(machine.layers):
            if any(part.shared for part in unit.parts):  # the subtracted constants differ between the units
                raise InvalidOption(f"ZeroSum expects a bias for each unit, found shared biases in layer {k}")

    @torch.no_grad()
    def after_step(self, machine: BoltzmannMachine, state: State, clock: Clock) -> State:
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
        return state


def _one_hot_parts(unit: Unit) -> list[tuple[Unit, slice]]:
    """Return the parts of a layer with one-hot units, and the entries of each in a state."""
    found, start = [], 0
    for part in unit.parts:
        if isinstance(part.support, OneHot):
            found.append((part, slice(start, start + part.size)))
        start += part.size
    return found


@dataclass(frozen=True)
class Average(Constraint):
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

    def init(self, machine: BoltzmannMachine) -> State:
        return {"count": 0, "seen": 0, "mean": [torch.zeros_like(p.detach()) for p in machine.parameters()]}

    @torch.no_grad()
    def after_step(self, machine: BoltzmannMachine, state: State, clock: Clock) -> State:
        if clock.fraction < 1 - self.last:
            return state
        count, seen = state["count"], state["seen"]
        if seen % self.every == 0:
            count += 1
            for mean, parameter in zip(state["mean"], machine.parameters(), strict=True):
                mean.lerp_(parameter.detach(), 1 / count)
        return {**state, "count": count, "seen": seen + 1}

    @torch.no_grad()
    def finish(self, machine: BoltzmannMachine, state: State) -> None:
        if state["count"]:
            for mean, parameter in zip(state["mean"], machine.parameters(), strict=True):
                parameter.copy_(mean)


#: constraints by their names in files and on the command line
CONSTRAINTS = {"zero-sum": ZeroSum, "average": Average}
