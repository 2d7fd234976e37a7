"""Fixed points of a mean-field approximation: what was found, and whether it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Solutions:
    """One solution for each start. Lists have an entry for each layer, tensors a row for each start.

    ``converged`` says that a solution is a fixed point to within the tolerance, whatever the damping; whether the
    fixed point is stable is a question for :func:`harmonium.meanfield.stability`.

    ``free_energy`` is -ln Z as the method estimates it. It is NaN where no fixed point was found: where the iteration
    was not over after its last step, or where a unit got a quadratic term with which its weight has no finite integral.
    """

    method: str
    magnetizations: list[Tensor]
    variances: list[Tensor]
    #: the field on every unit from its neighbors, its own bias apart
    B: list[Tensor]
    #: the quadratic term of every unit
    A: list[Tensor]
    free_energy: Tensor
    iterations: Tensor
    converged: Tensor
    #: whether the visible layer was held at given states
    clamped: bool = False
    #: of belief propagation: the moments or the logarithms of every message
    messages: list[Tensor] = field(default_factory=list)
    #: with which the solutions were found
    damping: float = 0.5

    def __len__(self) -> int:
        return len(self.free_energy)

    def select(self, rows: Tensor | slice) -> Solutions:
        """Some of the solutions, by number or by mask."""
        chosen: dict[str, Any] = {name: getattr(self, name)[rows] for name in _TENSORS}
        for name in _LISTS:
            chosen[name] = [x[rows] for x in getattr(self, name)]
        return replace(self, **chosen)

    def double(self) -> Solutions:
        """The same in float64."""
        chosen: dict[str, Any] = {name: [x.double() for x in getattr(self, name)] for name in _LISTS}
        return replace(self, free_energy=self.free_energy.double(), **chosen)

    def unique(self, tolerance: float = 5e-2) -> Solutions:
        """The distinct ones among the converged solutions.

        Two are the same where no visible magnetization differs by more than ``tolerance``. Of each group the one that
        comes first is kept.
        """
        rows = torch.nonzero(self.converged).flatten()
        points = self.magnetizations[0][rows].flatten(1)
        kept = []
        left = torch.arange(len(rows), device=rows.device)
        while len(left):
            kept.append(int(left[0]))
            distance = (points[left] - points[left[0]]).abs().amax(1)
            left = left[distance > tolerance]
        return self.select(rows[torch.tensor(kept, dtype=torch.int64, device=rows.device)])

    @staticmethod
    def join(parts: Sequence[Solutions]) -> Solutions:
        """The solutions of several calls, one after the other."""
        first = parts[0]
        if len(parts) == 1:
            return first
        joined: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in _TENSORS}
        for name in _LISTS:
            joined[name] = [torch.cat(x) for x in zip(*(getattr(part, name) for part in parts), strict=True)]
        return replace(first, **joined)


_LISTS = ("magnetizations", "variances", "B", "A", "messages")
_TENSORS = ("free_energy", "iterations", "converged")
