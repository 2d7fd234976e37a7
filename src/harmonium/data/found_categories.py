"""Find the categories in binary columns: groups of columns of which at most one is 1 in each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harmonium.errors import InvalidData
from harmonium.units import Bernoulli, Categories, Mixed, Unit

_CHANCE = 0.1  # largest probability with which a column at the end of a run of neighbors is exclusive by chance
_RARE_CHANCE = 1e-3  # the same for a whole run, and for columns that are not neighbors, divided by the number of pairs
_MUCH_SHORTER = 0.8  # of the description without the order of the columns, to prefer it
_MOST_NODES = 20_000  # of the search for columns that cover all rows


@dataclass(frozen=True)
class FoundCategories:
    """Groups of mutually exclusive binary columns, and the layer of units for them.

    Attributes:
        groups: column numbers of each group. In every row at most one of them is 1.
        none: for each group, whether there are rows without a 1; the group then has a further state "none".
        others: numbers of the other columns, which are Bernoulli units.
    """

    groups: tuple[tuple[int, ...], ...]
    none: tuple[bool, ...]
    others: tuple[int, ...]

    @property
    def columns(self) -> int:
        """The number of columns."""
        return sum(map(len, self.groups)) + len(self.others)

    def layer(self) -> Unit:
        """A new visible layer: the groups, then the other columns."""
        units: list[Unit] = []
        if self.groups:
            units.append(Categories([len(group) + none for group, none in zip(self.groups, self.none, strict=True)]))
        if self.others:
            units.append(Bernoulli(len(self.others)))
        return units[0] if len(units) == 1 else Mixed(*units)

    def encode(self, x: Any) -> Tensor:
        """Rows of binary columns (n, columns) as states of the layer (n, size); raises for a row that is no state."""
        rows = _binary(x)
        if rows.shape[1] != self.columns:
            raise InvalidData(f"x: expected {self.columns} columns, found {rows.shape[1]}")
        parts = []
        for group, none in zip(self.groups, self.none, strict=True):
            part = rows[:, group]
            number = part.sum(1)
            wrong = (number > 1) | ((number == 0) & (not none))
            if wrong.any():
                row = int(np.argmax(wrong))
                expected = "at most one" if none else "exactly one"
                raise InvalidData(
                    f"x: expected {expected} value 1 in the columns {_listed(group)}, "
                    f"found {int(number[row])} in row {row}"
                )
            parts.append(part)
            if none:
                parts.append(1 - number[:, None])
        return torch.from_numpy(np.concatenate([*parts, rows[:, self.others]], 1).astype(np.float32))

    def decode(self, states: Tensor) -> Tensor:
        """States of the layer (n, size) as rows of binary columns: the inverse of :meth:`encode`."""
        order = [column for column in self._order if column is not None]
        kept = [k for k, column in enumerate(self._order) if column is not None]
        found = torch.empty(len(states), self.columns, dtype=states.dtype, device=states.device)
        found[:, order] = states[:, kept]
        return found

    @property
    def _order(self) -> list[int | None]:
        """The column of every entry of a state; None for a state "none"."""
        order: list[int | None] = []
        for group, none in zip(self.groups, self.none, strict=True):
            order += [*group, *([None] if none else [])]
        return [*order, *self.others]


def find_categories(x: Any) -> FoundCategories:
    """Find groups of binary columns of which at most one is 1 in each row, such as one-hot codes of categories.

    Neighboring columns are tried first: runs of exclusive columns of which exactly one is 1 in every row, then runs of
    which at most one is 1, without columns at their ends that may be exclusive by chance. Then other columns are tried:
    sets that cover every row exactly once, and exclusive sets that are very unlikely by chance. If the latter alone
    describe the rows with much fewer states, the order of the columns is ignored. Columns that are always 0 belong to
    a neighboring group.

    The groups are properties of the given rows. Find them in training rows only: other rows may violate them
    (:meth:`FoundCategories.encode` then raises), and have probability zero under a machine with such a layer.

    Args:
        x: rows (n, columns) of values 0 and 1.

    >>> import torch
    >>> color = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]).repeat(20, 1)
    >>> found = find_categories(torch.cat([color, (torch.arange(80) % 3 == 0)[:, None]], 1))
    >>> found.groups, found.none, found.others
    (((0, 1, 2),), (False,), (3,))
    >>> found.layer().shape
    torch.Size([4])
    """
    rows = _binary(x)
    near, far = _Search(rows), _Search(rows)
    by_order = [*near.covers(), *near.runs(), *near.scattered_covers(), *near.scattered()]
    anywhere = [*far.scattered_covers(), *far.scattered()]
    shuffled = far.log_states(anywhere) < _MUCH_SHORTER * near.log_states(by_order)
    groups = sorted(map(sorted, near.with_empty_columns(anywhere if shuffled else by_order)))
    taken = {column for group in groups for column in group}
    none = tuple(bool((rows[:, group].sum(1) == 0).any()) for group in groups)
    others = tuple(k for k in range(rows.shape[1]) if k not in taken)
    return FoundCategories(tuple(tuple(group) for group in groups), none, others)


class _Search:
    """The columns that are not yet in a group, and which pairs of columns are never 1 in the same row."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, (self.n, self.number) = rows.astype(bool), rows.shape
        both = rows.T.astype(np.float32) @ rows.astype(np.float32)
        self.count = rows.sum(0).astype(int)
        self.exclusive = both == 0
        self.free = self.count > 0

    def covers(self) -> Iterator[list[int]]:
        """Runs of neighboring columns of which exactly one is 1 in every row."""
        first = 0
        while first < self.number:
            run = self._run(first, stop=self.n)
            if len(run) > 1 and self.count[run].sum() == self.n:
                yield self._taken(run)
                first = run[-1]
            first += 1

    def runs(self) -> Iterator[list[int]]:
        """Runs of neighboring columns of which at most one is 1 in every row."""
        first = 0
        while first < self.number:
            run = self._run(first)
            while len(run) > 1 and self._chance(run[-1], run) > _CHANCE:
                run = run[:-1]
            while len(run) > 1 and self._chance(run[0], run) > _CHANCE:
                run = run[1:]
            limit = _RARE_CHANCE / self.number**2
            if len(run) > 1 and min(self._chance(column, run) for column in run) < limit:
                yield self._taken(run)
                first = run[-1]
            first += 1

    def scattered_covers(self) -> Iterator[list[int]]:
        """Columns anywhere of which exactly one is 1 in every row, by a search with backtracking."""
        for seed in np.argsort(-self.count, kind="stable"):
            if self.free[seed] and self.count[seed] < self.n:
                self._nodes = 0
                found = self._extended([int(seed)], self.free & self.exclusive[seed], ~self.rows[:, seed])
                if found is not None:
                    yield self._taken(found)

    def scattered(self) -> Iterator[list[int]]:
        """Columns anywhere of which at most one is 1 in every row, if that is very unlikely by chance."""
        limit, order = _RARE_CHANCE / self.number**2, np.argsort(-self.count, kind="stable")
        for seed in order:
            if not self.free[seed]:
                continue
            group = [int(seed)]
            for other in order:
                if self.free[other] and self.exclusive[other, group].all() and self._chance(other, group) < limit:
                    group.append(int(other))
            if len(group) > 1:
                yield self._taken(group)

    def log_states(self, groups: Sequence[Sequence[int]]) -> float:
        """ln of the number of states that the groups and the other columns allow."""
        sizes = [len(group) + (self.count[list(group)].sum() < self.n) for group in groups]
        return float(np.log([1, *sizes]).sum() + (self.number - sum(map(len, groups))) * np.log(2))

    def with_empty_columns(self, groups: Sequence[Sequence[int]]) -> list[list[int]]:
        """The groups with the columns that are always 0 and beside one of their columns."""
        owner = {column: k for k, group in enumerate(groups) for column in group}
        found = [list(group) for group in groups]
        for column in np.flatnonzero(self.count == 0):
            k = owner.get(int(column) - 1, owner.get(int(column) + 1))
            if k is not None:
                owner[int(column)] = k
                found[k].append(int(column))
        return found

    def _run(self, first: int, stop: int | None = None) -> list[int]:
        """Free columns from ``first`` on that exclude each other, up to a number ``stop`` of rows with a 1."""
        run: list[int] = []
        total = 0
        for column in range(first, self.number):
            if self.count[column] == 0 and run:
                continue
            if not self.free[column] or not self.exclusive[column, run].all() or total == stop:
                break
            run.append(column)
            total += self.count[column]
        return run

    def _chance(self, column: int, group: Sequence[int]) -> float:
        """The probability that a column excludes the others of a group if it is independent of them."""
        covered = sum(self.count[other] for other in group if other != column) / self.n
        return float((1 - min(covered, 1.0)) ** self.count[column])

    def _extended(self, group: list[int], allowed: np.ndarray, left: np.ndarray) -> list[int] | None:
        """The group with further columns such that exactly one is 1 in every row, or None."""
        if not left.any():
            return group
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            return None
        options = self.rows[left][:, allowed].sum(1)
        if options.min() == 0:
            return None
        row = np.flatnonzero(left)[options.argmin()]  # the row with the fewest columns to choose from
        near = sorted(np.flatnonzero(allowed & self.rows[row]), key=lambda column: abs(column - group[0]))
        for column in near:
            found = self._extended(
                [*group, int(column)], allowed & self.exclusive[column], left & ~self.rows[:, column]
            )
            if found is not None:
                return found
        return None

    def _taken(self, group: list[int]) -> list[int]:
        self.free[group] = False
        return group


def _binary(x: Any) -> np.ndarray:
    rows = np.asarray(x.cpu() if isinstance(x, Tensor) else x)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidData(f"x: expected rows (n, columns), found the shape {rows.shape}")
    wrong = ~((rows == 0) | (rows == 1))
    if wrong.any():
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        raise InvalidData(f"x: expected 0 or 1, found {rows[row, column]} at row {row}, column {column}")
    return rows.astype(np.uint8)


def _listed(group: Sequence[int]) -> str:
    return ", ".join(map(str, group[:8])) + (", …" if len(group) > 8 else "")
