"""Fixed-point iteration of many starts in parallel. A start that has converged is removed from the batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict, cast

import torch
from torch import Tensor

from ..checks import whole
from ..errors import InvalidOption
from ..noise import Seed


@dataclass(frozen=True)
class Rule:
    """Settings of the iteration x ← damping · x_old + (1 - damping) · f(x_old).

    It stops when the residual is at most ``tolerance`` or after ``max_iterations``. If ``iterations`` is given, it runs
    exactly that many.

    The residual is the mean square over all units of the undamped change, f(x_old) - x_old. It is computed for the
    magnetizations and for the standard deviations, and both must be at most ``tolerance``. The damped change would not
    be a criterion: with a damping close to 1 it is small everywhere.
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
        """The largest number of iterations."""
        return self.max_iterations if self.iterations is None else self.iterations


Tensors = Sequence[Tensor]


class Randomness(TypedDict, total=False):
    """The keyword arguments that draw initial states."""

    seed: Seed


class Options(Randomness, total=False):
    """Keyword arguments that all mean-field methods share; :func:`harmonium.meanfield.tap` documents them."""

    damping: float
    tolerance: float
    max_iterations: int
    iterations: int | None


def split(options: Options) -> tuple[Rule, Randomness]:
    """The rule of the iteration, and the source of random initial states.

    >>> split({"damping": 0.1, "seed": 3})
    (Rule(damping=0.1, tolerance=1e-08, max_iterations=1000, iterations=None), {'seed': 3})
    """
    own = {key: value for key, value in options.items() if key not in Randomness.__annotations__}
    random = {key: value for key, value in options.items() if key in Randomness.__annotations__}
    return Rule(**own), cast("Randomness", random)  # type: ignore[arg-type]


class Scheme(Protocol):
    """An iteration on a batch of independent rows."""

    def state(self) -> list[Tensor]:
        """Return all tensors of the result, with one row per active start."""
        ...

    def step(self, measure: bool = True) -> Tensor | None:
        """Do one iteration; return the mean squared residual of each row's magnetizations, not finite if it failed."""
        ...

    def spread(self) -> Tensor:
        """Return the mean squared residual of each row's standard deviations in the last (measured) iteration."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Continue with the given rows only."""
        ...


@dataclass
class Outcome:
    """The final state of every start, its number of iterations, and whether it converged or failed."""

    state: list[Tensor]
    iterations: Tensor
    converged: Tensor
    failed: Tensor

    def blank(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return the tensors with NaN in the rows that failed."""
        if not bool(self.failed.any()):
            return tensors
        return [x.masked_fill(self.failed.view(-1, *(1 for _ in x.shape[1:])), torch.nan) for x in tensors]


@torch.no_grad()
def iterate(scheme: Scheme, rule: Rule) -> Outcome:
    """Run every row until it converges or fails, or the limit of the rule is reached."""
    first = scheme.state()[0]
    n, device = len(first), first.device
    iterations = torch.zeros(n, dtype=torch.int64, device=device)
    converged, failed = (torch.zeros(n, dtype=torch.bool, device=device) for _ in range(2))
    number = torch.arange(n, device=device)  # index of the start of each active row
    alive = torch.ones(n, dtype=torch.bool, device=device)  # finished rows are removed later, in groups, to save copies
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
        met &= scheme.spread() <= rule.tolerance  # checked last: most iterations do not need the variances
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


#: a function from the state to the undamped new values of a group of tensors, by their index in the state
Update = Callable[[list[Tensor]], dict[int, Tensor]]


@dataclass(frozen=True)
class Map:
    """One iteration as a differentiable function: state tensors (rows, ...) and updates of groups of them, in order."""

    state: list[Tensor]
    updates: Sequence[Update]

    def parallel(self, x: Sequence[Tensor]) -> list[Tensor]:
        """Return f(x): the undamped update of all tensors from the same x."""
        new: dict[int, Tensor] = {}
        for update in self.updates:
            new |= update(list(x))
        return [new[k] for k in range(len(x))]

    def sweep(self, x: Sequence[Tensor], damping: float) -> list[Tensor]:
        """Return the result of one damped iteration, in which each group uses the new values of earlier groups."""
        x = list(x)
        for update in self.updates:
            for k, value in update(x).items():
                x[k] = damping * x[k] + (1 - damping) * value
        return x
