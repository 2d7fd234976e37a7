"""TAP estimate of the log-likelihood, Tramel et al. (2018), eq. (38). It needs no sampling and is not a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import meanfield
from ..errors import InvalidOption, unknown
from ..machines import RBM, BoltzmannMachine
from ..meanfield import Solutions
from ..shown import Shown, short
from .data import hidden_sums, sums_hidden

_CHUNK = 4096
_COMBINATIONS = ("average", "log-sum-exp")


@dataclass(frozen=True, repr=False)
class TapLikelihood(Shown):
    """Estimate of ln Z from the distinct stable TAP solutions.

    Unstable fixed points are reached only because of a symmetry or a large tolerance. They are kept in ``unstable`` and
    reported in ``problems``, and do not enter any value.

    ``combine`` defines ``log_partition``: "average" is ln Z ≈ -⟨F⟩ over the solutions, as in Tramel et al. (2018);
    "log-sum-exp" is ln Σ e^{-F}, which treats every solution as a separate state and is more accurate if there are
    several. Both can be too small or too large, by terms of third order in the weights or because no start leads to a
    solution. Nothing here shows this error, so there is neither an interval nor a verdict, only whether the iteration
    has ``converged`` and the ``spread`` of the solutions. :func:`harmonium.likelihood.estimate` gives both.
    """

    machine: BoltzmannMachine
    solutions: Solutions
    starts: int
    converged_starts: int
    combine: str = "average"
    #: the distinct fixed points that are unstable
    unstable: Solutions | None = None
    #: rows of the data given which the iteration of the hidden layers of a deep machine does not converge
    without_hidden: int = 0

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The value of ln Z, how it was computed, and whether the iteration converged."""
        return "TapLikelihood", {
            "ln Z": short(self.log_partition, 6),
            "combine": self.combine,
            "solutions": f"{len(self.solutions)}, which differ by up to {short(self.spread, 3)} nats",
            "starts": f"{self.starts}, {self.converged_starts} converged",
            "problems": "; ".join(self.problems) or "none",
        }

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
        """ln Z; NaN if there is no stable solution."""
        return self.average if self.combine == "average" else self.log_sum_exp

    @property
    def spread(self) -> float:
        """The difference of ln Z = -F between the best and the worst distinct solution, in nats; NaN without one."""
        values = self.solutions.free_energy.double()
        return (values.max() - values.min()).item() if len(values) else math.nan

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong in the iteration. Nothing that is listed, or not listed, shows the error of TAP itself."""
        found = []
        if self.converged_starts < self.starts:
            found.append(f"only {self.converged_starts} of {self.starts} starts converged")
        if self.unstable is not None and len(self.unstable):
            both = len(self.unstable) + len(self.solutions)
            found.append(
                f"{len(self.unstable)} of {both} fixed points are unstable and not used; "
                "try a smaller tolerance or other starts"
            )
        if self.without_hidden:
            found.append(f"given {self.without_hidden} of {self.starts} rows, the hidden layers do not converge")
        return tuple(found)

    @property
    def converged(self) -> bool:
        """Whether all starts converged to stable solutions with a finite ln Z.

        For a deep machine, the iterations of the hidden layers given the rows must converge, too. This does not mean
        that the TAP approximation is accurate.
        """
        return not self.problems and math.isfinite(self.log_partition)

    def log_likelihood(self, data: Any) -> float:
        """Mean of ln p(v) over the rows of ``data``, in nats; eq. (38)."""
        return self.log_probability(data).mean().item()

    def normalized(self, data: Any) -> float:
        """Mean log-likelihood per unit, visible and hidden units counted, as in Tramel et al. (2018), Fig. 3."""
        return self.log_likelihood(data) / sum(unit.sites for unit in self.machine.layers)

    @torch.no_grad()
    def log_probability(self, data: Any) -> Tensor:
        """ln p(v) of every row (n,) in float64.

        The hidden layers of a deep machine are summed out exactly if they are small, otherwise by clamped TAP.
        """
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
    """Estimate ln Z from the stable TAP solutions that start at the rows of ``data`` (n, *visible).

    The stability of each distinct solution is checked (:func:`harmonium.meanfield.stability`).

    Args:
        combine: "average" over the distinct solutions as in eq. (38), or "log-sum-exp".
        same: two solutions are identical if no visible magnetization differs by more than this.
        damping, tolerance, max_iterations: arguments of :func:`harmonium.meanfield.tap`.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> estimate = tap(rbm, torch.eye(3))
    >>> round(estimate.log_partition, 6), estimate.converged
    (3.465736, True)
    >>> round(estimate.log_likelihood(torch.eye(3)) / 3, 4) == round(-float(torch.tensor(2.0).log()), 4)
    True
    """
    if combine not in _COMBINATIONS:
        raise unknown("way to combine solutions", combine, _COMBINATIONS)
    rows = machine.checked_states(data)
    if machine.visible.conserving(rows) is not machine.visible:
        raise InvalidOption(
            "machine: a TAP likelihood expects a fixed document length: pass total=… to the "
            f"{machine.visible.name()} units"
        )
    parts = [
        meanfield.tap(machine, chunk, damping=damping, tolerance=tolerance, max_iterations=max_iterations)
        for chunk in rows.split(_CHUNK)
    ]
    converged = sum(int(part.converged.sum()) for part in parts)
    distinct = Solutions.join([part.unique(same) for part in parts]).unique(same)
    stable = meanfield.stability(machine, distinct).stable
    solutions, unstable = distinct.select(stable), distinct.select(~stable)
    lost = sum(int((~torch.isfinite(_free_energy(machine, chunk))).sum()) for chunk in rows.split(_CHUNK))
    return TapLikelihood(machine, solutions, len(rows), converged, combine, unstable, lost)


def _free_energy(machine: BoltzmannMachine, rows: Tensor) -> Tensor:
    if isinstance(machine, RBM):
        return machine.free_energy(rows, check=False)
    if sums_hidden(machine, len(rows)):
        return hidden_sums(machine, rows)
    return meanfield.tap(machine, clamped=rows).free_energy
