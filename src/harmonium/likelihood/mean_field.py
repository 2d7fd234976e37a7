"""The likelihood that TAP mean field gives, eq. (38) of the TAP paper: no sampling, but no bound either."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import meanfield
from ..errors import InvalidOption, unknown
from ..machines import RBM, BoltzmannMachine
from ..meanfield import Solutions

_CHUNK = 4096
_COMBINATIONS = ("average", "log-sum-exp")


@dataclass(frozen=True)
class TapLikelihood:
    """ln Z from the distinct stable TAP solutions that were found.

    Unstable fixed points, to which a start comes only by symmetry or because of a large tolerance, are no states of the
    machine: they are kept in ``unstable``, named in ``problems``, and do not enter any value.

    ``log_partition`` follows ``combine``: "average" is the paper's, ln Z ≈ -⟨F⟩ over the solutions; "log-sum-exp",
    ln Σ e^{-F}, takes every solution as a state of its own, which is nearer to the truth where there are several. Both
    err on either side, by the third order in the weights.
    """

    machine: BoltzmannMachine
    solutions: Solutions
    starts: int
    converged: int
    combine: str = "average"
    #: the distinct fixed points that are unstable
    unstable: Solutions | None = None

    @property
    def average(self) -> float:
        """-⟨F⟩ over the distinct solutions, as in eq. (38)."""
        return -self.solutions.free_energy.double().mean().item() if len(self.solutions) else math.nan

    @property
    def log_sum_exp(self) -> float:
        """ln Σ e^{-F} over the distinct solutions."""
        return torch.logsumexp(-self.solutions.free_energy.double(), 0).item() if len(self.solutions) else math.nan

    @property
    def log_partition(self) -> float:
        """ln Z; NaN where no stable solution was found."""
        return self.average if self.combine == "average" else self.log_sum_exp

    @property
    def interval(self) -> tuple[float, float]:
        """From the average to the log-sum-exp: how far the two readings are apart, not a bound of the error."""
        return self.average, self.log_sum_exp

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons not to believe the number."""
        found = []
        if self.converged < self.starts:
            found.append(f"only {self.converged} of {self.starts} starts converged")
        if self.unstable is not None and len(self.unstable):
            both = len(self.unstable) + len(self.solutions)
            found.append(
                f"{len(self.unstable)} of {both} fixed points are unstable and left out; "
                "expected a smaller tolerance, or other starts"
            )
        if len(self.solutions) and not self.log_sum_exp - self.average < 1:
            found.append(
                f"{len(self.solutions)} solutions: their average and their log-sum-exp are "
                f"{self.log_sum_exp - self.average:.1f} nats apart"
            )
        return tuple(found)

    @property
    def trustworthy(self) -> bool:
        """Whether every start converged to a stable solution and the readings agree. Convergence is not accuracy."""
        return not self.problems

    def log_likelihood(self, data: Any) -> float:
        """The mean of ln p(v) over the rows of ``data``, in nats; eq. (38)."""
        return self.log_probability(data).mean().item()

    def normalized(self, data: Any) -> float:
        """The mean log-likelihood for each unit of the machine, visible and hidden, as in Fig. 3."""
        return self.log_likelihood(data) / sum(unit.sites for unit in self.machine.layers)

    @torch.no_grad()
    def log_probability(self, data: Any) -> Tensor:
        """ln p(v) of every row, in float64: (n,). The hidden layers of a deep machine are summed out by clamped TAP."""
        rows = self.machine.checked_states(data)
        return (
            torch.cat([-_free_energy(self.machine, chunk).double() for chunk in rows.split(_CHUNK)])
            - self.log_partition
        )


def tap(
    machine: BoltzmannMachine,
    data: Any,
    *,
    combine: str = "average",
    same: float = 5e-2,
    damping: float = 0.5,
    tolerance: float = 1e-8,
    max_iterations: int = 1000,
) -> TapLikelihood:
    """ln Z from the stable TAP solutions that are reached from the rows of ``data`` (n, *visible).

    The stability of each distinct solution is checked (:func:`harmonium.meanfield.stability`).

    Args:
        combine: "average" over the distinct solutions as in eq. (38), or "log-sum-exp".
        same: solutions are the same where no visible magnetization differs by more.
        damping, tolerance, max_iterations: of :func:`harmonium.meanfield.tap`.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> estimate = tap(rbm, torch.eye(3))
    >>> round(estimate.log_partition, 6), estimate.trustworthy
    (3.465736, True)
    >>> round(estimate.log_likelihood(torch.eye(3)) / 3, 4) == round(-float(torch.tensor(2.0).log()), 4)
    True
    """
    if combine not in _COMBINATIONS:
        raise unknown("way to combine solutions", combine, _COMBINATIONS)
    rows = machine.checked_states(data)
    if machine.visible.conserving(rows) is not machine.visible:
        raise InvalidOption(
            "a TAP likelihood expects one machine, not one for each document length: give total=… to the "
            f"{machine.visible.name()} units"
        )
    parts = [
        meanfield.tap(machine, chunk, damping=damping, tolerance=tolerance, max_iterations=max_iterations)
        for chunk in rows.split(_CHUNK)
    ]
    converged = sum(int(part.converged.sum()) for part in parts)
    distinct = Solutions.join([part.unique(same) for part in parts]).unique(same)
    stable = meanfield.stability(machine, distinct).stable
    return TapLikelihood(machine, distinct.select(stable), len(rows), converged, combine, distinct.select(~stable))


def _free_energy(machine: BoltzmannMachine, rows: Tensor) -> Tensor:
    if isinstance(machine, RBM):
        return machine.free_energy(rows)
    return meanfield.tap(machine, clamped=rows).free_energy
