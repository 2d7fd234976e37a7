"""Supports: the sets of values that units can take, used to validate data and to enumerate states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import InvalidData

MOST_COUNTS = 2**24  # integers up to here are exact in float32


@dataclass(frozen=True)
class Support:
    """The set of values of one unit. ``contains`` is elementwise, or over the last dimension for vector units."""

    description: str
    #: number of trailing dimensions of one value: 0 for numbers, 1 for vectors
    event_dim: ClassVar[int] = 0

    @property
    def bounded(self) -> bool:
        """Whether the set is bounded."""
        return True

    def contains(self, x: Tensor) -> Tensor:
        """A boolean mask of the entries (or vectors) of ``x`` that belong to the support."""
        raise NotImplementedError

    def states(self) -> Tensor | None:
        """Every state of one unit, (states,) or (states, size), in float64; ``None`` if there are infinitely many."""
        return None

    @property
    def number(self) -> int | None:
        """The number of states of one unit; ``None`` if infinite."""
        states = self.states()
        return None if states is None else len(states)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest entry of a value; infinite if there is none."""
        states = self.states()
        return (-math.inf, math.inf) if states is None else (states.min().item(), states.max().item())

    def entries(self) -> Support:
        """A set that contains every entry of a vector; the set itself for numbers."""
        return self

    def includes(self, other: Support) -> bool:
        """Whether every value of ``other`` is in this set, or every entry of a vector in a set of numbers.

        >>> real.includes(boolean), boolean.includes(OneHot("labels", 3)), boolean.includes(nonnegative)
        (True, True, False)
        """
        other = other if self.event_dim else other.entries()
        states = None if self.event_dim else other.states()
        return self == other if states is None else bool(self.contains(states).all())

    def check(self, x: Tensor, what: str = "data") -> None:
        """Raise :class:`InvalidData`, naming the first invalid value, unless all values are in the support."""
        inside = self.contains(x)
        # a single pass for valid data: a sum is finite only if every term is
        if bool(inside.all()) and bool(torch.isfinite(x.sum())):
            return
        finite = torch.isfinite(x)
        if not bool(finite.all()):
            where = tuple(torch.nonzero(~finite)[0].tolist())
            raise InvalidData(
                f"{what}: expected finite numbers, found {x[where].item()} at row {where[0]}, index {where[1:]}"
            )
        if not bool(inside.all()):
            where = tuple(torch.nonzero(~inside)[0].tolist())
            found = x[where]
            value = f"{found.item():g}" if found.ndim == 0 else _short(found)
            raise InvalidData(
                f"{what}: expected {self.description}, found {value} at row {where[0]}, index {where[1:]}"
                + self._hint(x)
            )

    def _hint(self, x: Tensor) -> str:
        return ""


def _short(x: Tensor) -> str:
    values = ", ".join(f"{value:g}" for value in x.flatten()[:6].tolist())
    return f"[{values}{', …' if x.numel() > 6 else ''}]"


@dataclass(frozen=True)
class Values(Support):
    """A finite set of numbers, given in increasing order."""

    values: tuple[float, ...]

    def contains(self, x: Tensor) -> Tensor:
        if len(self.values) == 2:  # faster; most data sets are binary and large
            return (x == self.values[0]) | (x == self.values[1])
        return torch.isin(x, torch.tensor(self.values, dtype=x.dtype, device=x.device))

    def states(self) -> Tensor:
        return torch.tensor(self.values, dtype=torch.float64)

    def _hint(self, x: Tensor) -> str:
        low, high = x.min().item(), x.max().item()
        if self.values == (0.0, 1.0) and low >= 0 and 1 < high <= 255:
            return "; these look like pixels of 0 to 255: binarize them first, for example (x > 127)"
        if self.values == (0.0, 1.0) and low >= 0 and high <= 1:
            return "; gray values are not binary: binarize them by threshold or by sampling"
        return ""


@dataclass(frozen=True)
class Interval(Support):
    """The real numbers between ``low`` and ``high``, both included; either may be infinite."""

    low: float = -math.inf
    high: float = math.inf
    #: points with positive mass, in addition to the Lebesgue measure
    atoms: ClassVar[tuple[float, ...]] = ()

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def range(self) -> tuple[float, float]:
        return self.low, self.high

    def contains(self, x: Tensor) -> Tensor:
        return (x >= self.low) & (x <= self.high)

    def includes(self, other: Support) -> bool:
        low, high = other.entries().range
        return self.low <= low and high <= self.high


@dataclass(frozen=True)
class Integers(Support):
    """The integers 0, 1, 2, … up to ``high`` (unbounded if ``None``)."""

    high: int | None = None

    @property
    def bounded(self) -> bool:
        return self.high is not None

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, math.inf if self.high is None else float(self.high)

    def contains(self, x: Tensor) -> Tensor:
        inside = (x >= 0) & (x == x.floor())
        return inside if self.high is None else inside & (x <= self.high)

    def states(self) -> Tensor | None:
        return None if self.high is None else torch.arange(self.high + 1, dtype=torch.float64)


@dataclass(frozen=True)
class OneHot(Support):
    """One-hot vectors of length ``size``."""

    size: int = 0
    event_dim: ClassVar[int] = 1

    def contains(self, x: Tensor) -> Tensor:
        return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1)

    def states(self) -> Tensor:
        return torch.eye(self.size, dtype=torch.float64)

    def entries(self) -> Support:
        return boolean

    def includes(self, other: Support) -> bool:
        return isinstance(other, OneHot) and other.size == self.size


@dataclass(frozen=True)
class AtMostOneHot(Support):
    """One-hot vectors of length ``size``, and the zero vector."""

    size: int = 0
    event_dim: ClassVar[int] = 1

    def contains(self, x: Tensor) -> Tensor:
        return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) <= 1)

    def states(self) -> Tensor:
        return torch.cat([torch.zeros(1, self.size, dtype=torch.float64), torch.eye(self.size, dtype=torch.float64)])


@dataclass(frozen=True)
class RatedOneHot(AtMostOneHot):
    """One-hot vectors, and the zero vector where a row has no value; which rows have none is not random."""

    def states(self) -> Tensor | None:  # type: ignore[override]
        return None  # one, or as many as values: it depends on the row


@dataclass(frozen=True)
class Counts(Support):
    """Vectors of ``size`` non-negative integers with the sum ``total`` (up to ``MOST_COUNTS`` if ``None``)."""

    size: int = 0
    total: int | None = None
    event_dim: ClassVar[int] = 1

    def contains(self, x: Tensor) -> Tensor:
        inside, total = ((x >= 0) & (x == x.floor())).all(-1), x.sum(-1)
        return inside & (total <= MOST_COUNTS if self.total is None else total == self.total)

    def states(self) -> Tensor | None:
        if self.total is None:
            return None
        return torch.tensor(list(_compositions(self.total, self.size)), dtype=torch.float64)

    def entries(self) -> Support:
        return Integers(self.description, self.total)

    def includes(self, other: Support) -> bool:
        total = 1 if isinstance(other, OneHot) else other.total if isinstance(other, Counts) else None
        same_size = isinstance(other, (OneHot, Counts)) and other.size == self.size
        return same_size and self.total in (None, total)

    @property
    def number(self) -> int | None:
        # in closed form, because the list of states may be too long to build
        return None if self.total is None else math.comb(self.total + self.size - 1, self.size - 1)


def _compositions(total: int, size: int) -> Sequence[tuple[int, ...]]:
    if size == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in _compositions(total - first, size - 1)]


boolean = Values("binary values 0 or 1", (0.0, 1.0))
signs = Values("spins -1 or +1", (-1.0, 1.0))
real = Interval("real numbers")
nonnegative = Interval("non-negative numbers", low=0.0)
counts = Integers("non-negative integers")
