"""Many fixed points at once: every start runs until its own residual is small enough, then costs nothing more."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..checks import whole
from ..errors import InvalidOption


@dataclass(frozen=True)
class Rule:
    """How to iterate: x ← damping · x_old + (1 - damping) · f(x_old), until the residual is at most ``tolerance``, or
    ``max_iterations`` are done; with ``iterations``, exactly that many.

    The residual is that of the undamped update, f(x_old) - x_old, as a mean square over all units: of the
    magnetizations and of the standard deviations, each of which must meet the tolerance. The change of x is
    1 - damping times as large: with a damping close to 1 it is small at any point.
    """

    damping: float = 0.5
    tolerance: float = 1e-8
    max_iterations: int = 1000
    iterations: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.damping < 1:
            raise InvalidOption(f"damping: expected a number from 0 to below 1, found {self.damping!r}")
        if not (self.tolerance >= 0 and math.isfinite(self.tolerance)):
            raise InvalidOption(f"tolerance: expected a finite number of at least 0, found {self.tolerance!r}")
        for name, value in (("max_iterations", self.max_iterations), ("iterations", self.iterations)):
            if value is not None and whole(name, value) < 1:
                raise InvalidOption(f"{name}: expected at least 1, found {value}")

    @property
    def limit(self) -> int:
        """The most iterations that will be done."""
        return self.max_iterations if self.iterations is None else self.iterations


class Scheme(Protocol):
    """An iteration on a batch of rows, each of which goes its own way."""

    def state(self) -> list[Tensor]:
        """Every tensor that belongs to the result, with a row for each active start."""
        ...

    def step(self, measure: bool = True) -> Tensor | None:
        """One iteration; the mean squared residual of each row's magnetizations, not finite where the row is lost."""
        ...

    def spread(self) -> Tensor:
        """The mean squared residual of each row's standard deviations, of the last iteration, which was measured."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Go on with some of the rows alone."""
        ...


@dataclass
class Outcome:
    """The state of every start when it was done, after how many iterations, and how it ended."""

    state: list[Tensor]
    iterations: Tensor
    converged: Tensor
    failed: Tensor

    def blank(self, tensors: list[Tensor]) -> list[Tensor]:
        """The same with NaN in the rows that failed."""
        if not bool(self.failed.any()):
            return tensors
        return [x.masked_fill(self.failed.view(-1, *(1 for _ in x.shape[1:])), torch.nan) for x in tensors]


@torch.no_grad()
def iterate(scheme: Scheme, rule: Rule) -> Outcome:
    """Run every row until it has converged or failed, or the rule's limit is reached."""
    first = scheme.state()[0]
    n, device = len(first), first.device
    iterations = torch.zeros(n, dtype=torch.int64, device=device)
    converged, failed = (torch.zeros(n, dtype=torch.bool, device=device) for _ in range(2))
    number = torch.arange(n, device=device)  # of the start that each active row belongs to
    alive = torch.ones(n, dtype=torch.bool, device=device)  # a row that is done stays a while: fewer copies
    result: list[Tensor] | None = None
    for step in range(1, rule.limit + 1):
        last = step == rule.limit
        residual = scheme.step(rule.iterations is None or last)
        if residual is None:
            continue
        met, lost = residual <= rule.tolerance, ~torch.isfinite(residual)
        done = alive if last else alive & (lost | met)
        if not bool(done.any()):
            continue
        met &= scheme.spread() <= rule.tolerance  # only now: most iterations need not look at the variances
        rows = torch.nonzero(alive if last else alive & (lost | met)).flatten()
        if len(rows) == 0:
            continue
        done = torch.zeros_like(alive).index_fill_(0, rows, True)
        state, starts = scheme.state(), number[rows]
        iterations[starts], converged[starts], failed[starts] = step, met[rows], lost[rows]
        if len(rows) == n:
            result = state
        else:
            if result is None:
                result = [torch.empty(n, *x.shape[1:], dtype=x.dtype, device=device) for x in state]
            for kept, x in zip(result, state, strict=True):
                kept[starts] = x[rows]
        alive = alive & ~done
        left = int(alive.sum())
        if left == 0:
            break
        if bool(lost.any()) or left < 0.8 * len(alive):
            rows = torch.nonzero(alive).flatten()
            scheme.keep(rows)
            number, alive = number[rows], alive[rows]
    assert result is not None
    return Outcome(result, iterations, converged, failed)


#: the undamped new values, by their number in the state, of the tensors that are updated together
Update = Callable[[list[Tensor]], dict[int, Tensor]]


@dataclass(frozen=True)
class Map:
    """One iteration as a differentiable function: tensors (rows, ...), and the groups of them that follow in turn."""

    state: list[Tensor]
    updates: Sequence[Update]

    def parallel(self, x: Sequence[Tensor]) -> list[Tensor]:
        """f(x): every tensor from the same x, undamped."""
        new: dict[int, Tensor] = {}
        for update in self.updates:
            new |= update(list(x))
        return [new[k] for k in range(len(x))]

    def sweep(self, x: Sequence[Tensor], damping: float) -> list[Tensor]:
        """One iteration as it is run: each group from what the groups before it have become, damped."""
        x = list(x)
        for update in self.updates:
            for k, value in update(x).items():
                x[k] = damping * x[k] + (1 - damping) * value
        return x
