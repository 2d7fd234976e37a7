"""The exact likelihood, for machines that can be enumerated."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InvalidData, InvalidOption
from ..machines import RBM, BoltzmannMachine


@dataclass(frozen=True)
class ExactLikelihood:
    """ln Z and what follows from it. ``value`` is ln Z; the interval has no width."""

    machine: BoltzmannMachine
    value: float
    trustworthy: bool = True

    @property
    def interval(self) -> tuple[float, float]:
        """The value twice: there is no error."""
        return self.value, self.value

    @torch.no_grad()
    def log_likelihood(self, data: Tensor) -> float:
        """The mean of ln p(v) over the rows of ``data``, in nats."""
        if not isinstance(self.machine, RBM):
            raise InvalidOption(f"log_likelihood expects an RBM (two layers), found {type(self.machine).__name__}")
        data = self.machine.as_states(data)
        if len(data) == 0:
            raise InvalidData("data: expected at least one row, found none")
        self.machine.visible.check(data)
        total = sum(-self.machine.free_energy(chunk).double().sum().item() for chunk in data.split(4096))
        return total / len(data) - self.value


def exact(machine: BoltzmannMachine) -> ExactLikelihood:
    """ln Z by enumeration of the smaller side.

    >>> import harmonium as hm
    >>> round(hm.likelihood.exact(hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))).value, 6)
    3.465736
    """
    return ExactLikelihood(machine, machine.log_partition())
