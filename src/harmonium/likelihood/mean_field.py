"""TAP estimate of the log-likelihood, Tramel et al. (2018), eq. (38). It needs no sampling and is not a bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch

from .. import meanfield
from ..errors import InvalidOption, unknown
from ..machines import BoltzmannMachine
from ..machines.phase_masses import phases
from ..meanfield import Solutions
from .results import LogPartition, judge
from .rows import row_weights

_CHUNK = 4096
_COMBINATIONS = ("average", "log-sum-exp")


def tap(
    machine: BoltzmannMachine,
    data: Any,
    *,
    combine: str = "average",
    same: float = 5e-2,
    damping: float = 0.5,
    tolerance: float = 1e-8,
    max_iterations: int = 1000,
    check: bool = True,
) -> LogPartition:
    """Estimate ln Z from the stable TAP solutions that start at the rows of ``data`` (n, *visible).

    Unstable fixed points (:func:`harmonium.meanfield.stability`), which are reached only because of a symmetry or a
    large tolerance, do not enter the value. It can be too small or too large, by terms of third order in the weights or
    because no start leads to a solution. The iteration does not show this error, so the interval is infinite, and
    ``problems`` lists only what went wrong in the iteration, and phases of the machine that no solution represents.

    ``details`` has the distinct ``solutions`` and their ``spread`` in nats, both combinations (``average`` and
    ``log_sum_exp``), the ``unstable`` fixed points, and the numbers of ``starts`` and ``converged_starts``.

    Args:
        machine: the machine.
        data: rows from which the iterations start.
        combine: "average" over the distinct solutions, ln Z ≈ -⟨F⟩, as in eq. (38), or "log-sum-exp", ln Σ e^{-F},
            which treats every solution as a separate state and is more accurate if there are several.
        same: two solutions are identical if no visible magnetization differs by more than this.
        damping, tolerance, max_iterations: arguments of :func:`harmonium.meanfield.tap`.
        check: whether to compare with the phases of the machine (:func:`harmonium.sampling.phases`).

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> found = tap(rbm, torch.eye(3))
    >>> round(found.value, 6), found.problems, round(found.log_likelihood(torch.eye(3)).value, 4)
    (3.465736, (), -2.0794)
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
    failed = int((~torch.isfinite(row_weights(machine, rows, hidden="tap").values)).sum())
    problems = _problems(len(rows), converged, solutions, unstable, failed)
    found = from_solutions(machine, solutions, combine, problems)
    details = {"starts": len(rows), "converged_starts": converged, "unstable": unstable}
    found = replace(found, details={**found.details, **details})
    return judge(found, phases(machine, seed=0), 0.0) if check else found


def from_solutions(
    machine: BoltzmannMachine, solutions: Solutions, combine: str = "average", problems: Iterable[str] = ()
) -> LogPartition:
    """ln Z from distinct solutions, eq. (38); NaN if there are none."""
    F = solutions.free_energy.double()
    values = {"average": math.nan, "log_sum_exp": math.nan, "spread": math.nan}
    if len(solutions):
        values = {"average": -F.mean().item(), "log_sum_exp": torch.logsumexp(-F, 0).item()}
        values["spread"] = (F.max() - F.min()).item()
    return LogPartition(
        machine=machine,
        value=values[combine.replace("-", "_")],
        standard_error=math.inf,
        interval=(-math.inf, math.inf),
        method="TAP",
        problems=tuple(problems),
        details={**values, "solutions": solutions},
    )


def _problems(starts: int, converged: int, solutions: Solutions, unstable: Solutions, failed: int) -> Iterator[str]:
    """What went wrong in the iteration; nothing here shows the error of TAP itself."""
    if converged < starts:
        yield f"only {converged} of {starts} starts converged"
    if len(unstable):
        both = len(unstable) + len(solutions)
        words = f"{len(unstable)} of {both} fixed points are unstable and not used"
        yield f"{words}; try a smaller tolerance or other starts"
    if failed:
        yield f"given {failed} of {starts} rows, the hidden layers do not converge"
    if not len(solutions):
        yield "there is no stable solution"
