"""Fixed points of a mean-field approximation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..shown import brief


@brief
@dataclass(frozen=True)
class Solutions:
    """One solution per start. Lists have one entry per layer, tensors one row per start.

    ``converged`` means that a solution is a fixed point within the tolerance, independent of the damping. It does not
    mean that the fixed point is stable; see :func:`harmonium.meanfield.stability`.

    ``free_energy`` is the method's estimate of -ln Z. It is NaN if the iteration did not converge, or if a unit got a
    quadratic term for which its weight has no finite integral.
    """

    method: str
    magnetizations: list[Tensor]
    variances: list[Tensor]
    #: the field of every unit from its neighbors, without its bias
    B: list[Tensor]
    #: the quadratic term of every unit
    A: list[Tensor]
    free_energy: Tensor
    iterations: Tensor
    converged: Tensor
    #: whether the visible layer was fixed to given states
    clamped: bool = False
    #: for belief propagation: the moments or the logarithms of all messages
    messages: list[Tensor] = field(default_factory=list)
    #: the damping that was used
    damping: float = 0.5

    def __len__(self) -> int:
        return len(self.free_energy)

    def select(self, rows: Tensor | slice) -> Solutions:
        """Return the solutions with the given indices or mask."""
        chosen: dict[str, Any] = {name: getattr(self, name)[rows] for name in _TENSORS}
        for name in _LISTS:
            chosen[name] = [x[rows] for x in getattr(self, name)]
        return replace(self, **chosen)

    def double(self) -> Solutions:
        """Return the solutions in float64."""
        chosen: dict[str, Any] = {name: [x.double() for x in getattr(self, name)] for name in _LISTS}
        return replace(self, free_energy=self.free_energy.double(), **chosen)

    def unique(self, tolerance: float = 5e-2) -> Solutions:
        """Return the distinct converged solutions.

        Two solutions are identical if no visible magnetization differs by more than ``tolerance``; the first is kept.
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
        """Concatenate the solutions of several calls."""
        first = parts[0]
        if len(parts) == 1:
            return first
        joined: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in _TENSORS}
        for name in _LISTS:
            joined[name] = [torch.cat(x) for x in zip(*(getattr(part, name) for part in parts), strict=True)]
        return replace(first, **joined)


_LISTS = ("magnetizations", "variances", "B", "A", "messages")
_TENSORS = ("free_energy", "iterations", "converged")
