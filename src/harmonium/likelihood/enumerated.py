"""Exact log-likelihood of machines that are small enough for enumeration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..machines import BoltzmannMachine
from ..shown import Shown, short
from .data import mean_free_energy


@dataclass(frozen=True, repr=False)
class ExactLikelihood(Shown):
    """Exact ln Z (``log_partition``) and the log-likelihood that follows from it."""

    machine: BoltzmannMachine
    log_partition: float
    trustworthy: bool = True

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The value of ln Z."""
        return "ExactLikelihood", {"ln Z": short(self.log_partition, 6), "by": "enumeration"}

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
