"""Exact log-likelihood of machines that are small enough for enumeration."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..machines import BoltzmannMachine
from .data import mean_free_energy


@dataclass(frozen=True)
class ExactLikelihood:
    """Exact ln Z (``log_partition``) and the log-likelihood that follows from it."""

    machine: BoltzmannMachine
    log_partition: float
    trustworthy: bool = True

    @property
    def interval(self) -> tuple[float, float]:
        """(ln Z, ln Z), because ln Z is exact."""
        return self.log_partition, self.log_partition

    def log_likelihood(self, data: Tensor) -> float:
        """Mean of ln p(v) over the rows of ``data``, in nats."""
        return -mean_free_energy(self.machine, data) - self.log_partition


def exact(machine: BoltzmannMachine) -> ExactLikelihood:
    """Compute ln Z by enumeration of the smaller side.

    >>> import harmonium as hm
    >>> round(hm.likelihood.exact(hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))).log_partition, 6)
    3.465736
    """
    return ExactLikelihood(machine, machine.log_partition())
