"""Exact log-likelihood of machines that are small enough for enumeration."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..machines import BoltzmannMachine
from .data import mean_free_energy


@dataclass(frozen=True)
class ExactLikelihood:
    """Exact ln Z (``value``) and the log-likelihood that follows from it."""

    machine: BoltzmannMachine
    value: float
    trustworthy: bool = True

    @property
    def interval(self) -> tuple[float, float]:
        """(value, value), because ln Z is exact."""
        return self.value, self.value

    def log_likelihood(self, data: Tensor) -> float:
        """Mean of ln p(v) over the rows of ``data``, in nats."""
        return -mean_free_energy(self.machine, data) - self.value


def exact(machine: BoltzmannMachine) -> ExactLikelihood:
    """Compute ln Z by enumeration of the smaller side.

    >>> import harmonium as hm
    >>> round(hm.likelihood.exact(hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))).value, 6)
    3.465736
    """
    return ExactLikelihood(machine, machine.log_partition())
