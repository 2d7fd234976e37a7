"""Tables of ratings: which user gave which item which rating, in the names and values of the user's file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harmonium.arrays import as_tensor
from harmonium.data.rating_files import read_lines
from harmonium.errors import InvalidData, InvalidOption
from harmonium.paths import expand

_SHOWN = 60  # letters of a name in a message
_LONGEST_NUMBER = 400  # digits of a name that is ordered as a number
MOST_VALUES = 100  # values of a scale that is taken from a file


@dataclass(frozen=True)
class RatingTable:
    """Ratings of ``items`` by ``users`` on a scale of ``values``; a data set with one row for each user.

    ``user``, ``item`` and ``level`` (n,) are the positions of each rating in these lists, sorted by user. Row k of the
    data set, ``table[k]``, is (items, values): one-hot for the items that user k has rated and zero for the others, as
    expected by :class:`harmonium.units.Ratings`. Rows are made when they are asked for.

    >>> table = RatingTable.of([("ann", "film", 4), ("bob", "film", 2), ("bob", "play", 3)])
    >>> table.values, table.shape, table[1].argmax(-1).tolist()
    ((2.0, 3.0, 4.0), (2, 3), [0, 1])
    """

    users: tuple[str, ...]
    items: tuple[str, ...]
    values: tuple[float, ...]
    user: Tensor
    item: Tensor
    level: Tensor

    @staticmethod
    def of(
        ratings: Sequence[tuple[object, object, float]],
        *,
        users: Sequence[object] | None = None,
        items: Sequence[object] | None = None,
        values: Sequence[float] | None = None,
    ) -> RatingTable:
        """A table of (user, item, rating); ``users``, ``items`` and ``values`` are by default those that occur.

        By default, ``values`` are the steps from the smallest to the largest rating (:func:`scale_of`).
        """
        try:
            triples = [(str(user), str(item), float(rating)) for user, item, rating in ratings]
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidData(
                f"ratings: expected triples (user, item, rating) with a number as rating ({error})"
            ) from None
        pairs = [(user, item) for user, item, _ in triples]
        people = _names((user for user, _ in pairs), users, "users")
        things = _names((item for _, item in pairs), items, "items")
        found = [rating for *_, rating in triples]
        scale = scale_of(found) if values is None else check_scale(values)
        places = {value: k for k, value in enumerate(scale)}
        for rating in found:
            if rating not in places:
                raise InvalidData(f"ratings: expected {_words(scale)}, found {rating:g}")
        user = torch.tensor([people[name] for name, _ in pairs], dtype=torch.int64)
        item = torch.tensor([things[name] for _, name in pairs], dtype=torch.int64)
        level = torch.tensor([places[rating] for rating in found], dtype=torch.int64)
        twice = user * len(things) + item
        if len(twice.unique()) < len(twice):
            seen, counts = twice.unique(return_counts=True)
            pair = divmod(int(seen[counts > 1][0]), len(things))
            names = list(people)[pair[0]], list(things)[pair[1]]
            raise InvalidData(f"ratings: expected one rating of item '{names[1]}' by user '{names[0]}', found several")
        return RatingTable(tuple(people), tuple(things), scale, user, item, level).sorted()

    def sorted(self) -> RatingTable:
        """The same ratings, sorted by user; those of one user keep their order."""
        order = torch.argsort(self.user, stable=True)
        return replace(self, user=self.user[order], item=self.item[order], level=self.level[order])

    def subset(self, index: Tensor) -> RatingTable:
        """The ratings selected by a mask or by positions (m,); all users, items and values are kept."""
        chosen = _positions(index, len(self.user), "index")
        return replace(self, user=self.user[chosen], item=self.item[chosen], level=self.level[chosen]).sorted()

    @property
    def ratings(self) -> Tensor:
        """The ratings as numbers, (n,) in float64."""
        return self.scale[self.level]

    @cached_property
    def scale(self) -> Tensor:
        """The values of the scale as a tensor in float64."""
        return torch.tensor(self.values, dtype=torch.float64)

    @property
    def pairs(self) -> Tensor:
        """The positions of the user and the item of each rating, (n, 2)."""
        return torch.stack([self.user, self.item], 1)

    @property
    def rated(self) -> Tensor:
        """Which items each user has rated, (users, items) in bool."""
        out = torch.zeros(len(self.users), len(self.items), dtype=torch.bool)
        out[self.user, self.item] = True
        return out

    # -- a data set with one row for each user --------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a row: (items, values)."""
        return len(self.items), len(self.values)

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, user: int) -> Tensor:
        if not -len(self) <= user < len(self):
            raise IndexError(f"user: expected a position below {len(self)}, found {user}")
        return self.one_hot([user % len(self)])[0]

    def one_hot(self, users: Sequence[int] | Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """The rows of some users, given by their positions (default: all): (n, items, values)."""
        chosen = range(len(self)) if users is None else _positions(users, len(self), "users").tolist()
        out = torch.zeros(len(chosen), *self.shape, dtype=dtype or torch.get_default_dtype())
        for row, user in zip(out, chosen, strict=True):
            span = slice(self._ends[user], self._ends[user + 1])
            row[self.item[span], self.level[span]] = 1
        return out

    def decode(self, rows: Tensor) -> list[tuple[int, str, float]]:
        """The ratings of rows (n, items, values), such as samples: number of the row, item and rating.

        Of probabilities, such as reconstructions, the most probable rating of each rated item.

        >>> table = RatingTable.of([("ann", "film", 4), ("bob", "film", 2), ("bob", "play", 3)])
        >>> table.decode(table.one_hot([1]))
        [(0, 'film', 2.0), (0, 'play', 3.0)]
        """
        found = as_tensor(rows, "rows")
        if tuple(found.shape[1:]) != self.shape:
            raise InvalidData(f"rows: expected shape (n, {self.shape[0]}, {self.shape[1]}), found {tuple(found.shape)}")
        level = found.argmax(-1)
        rated = (found != 0).any(-1).nonzero().tolist()
        return [(row, self.items[item], self.values[int(level[row, item])]) for row, item in rated]

    def defaults(self) -> dict[str, tuple[Any, str]]:
        """Training of a machine on these rows; chosen on held-out ratings of MovieLens (``docs/recommendation.md``)."""
        chosen = {"optimizer": "adam", "learning_rate": 0.003, "schedule": "linear:0.5", "penalties": "l2-to-mean:0.01"}
        return {name: (value, "ratings") for name, value in chosen.items()}

    @cached_property
    def _ends(self) -> list[int]:
        counts = torch.bincount(self.user, minlength=len(self.users))
        return [0, *counts.cumsum(0).tolist()]


def read_ratings(path: str | Path, values: Sequence[float] | None = None) -> RatingTable:
    """Read ratings from a file with one rating in each line.

    The columns are user, item and rating; others, such as a time, are ignored. Files: ``u.data`` (MovieLens 100k),
    ``.inter`` (RecBole), ``ratings.dat`` (MovieLens 1M, separated by ``::``), ``.csv`` and ``.tsv``, also compressed
    (``.gz``). A header may name the columns, such as ``userId,movieId,rating``.

    Args:
        path: the file.
        values: the values of the scale, in increasing order; by default as in :meth:`RatingTable.of`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name, "ratings.csv")
    >>> _ = file.write_text("userId,movieId,rating\\n7,31,2.5\\n7,1029,3\\n9,31,4\\n")
    >>> table = read_ratings(file)
    >>> table.users, table.items, table.values
    (('7', '9'), ('31', '1029'), (2.5, 3.0, 3.5, 4.0))
    >>> folder.cleanup()
    """
    path = expand(path)
    lines = read_lines(path)
    allowed = None if values is None else check_scale(values)
    seen: dict[tuple[str, str], int] = {}
    ratings = []
    for line in lines:
        where = f"{path}, line {line.number}"
        try:
            rating = float(line.rating)
        except ValueError:
            rating = math.nan
        if not math.isfinite(rating):
            expected = "a number" if allowed is None else _words(allowed)
            raise InvalidData(f"{where}: expected {expected} as rating, found '{line.rating[:_SHOWN]}'")
        if allowed is not None and rating not in allowed:
            raise InvalidData(
                f"{where}: expected a rating of the scale {_words(allowed)}, found {line.rating[:_SHOWN]}"
            )
        first = seen.setdefault((line.user, line.item), line.number)
        if first != line.number:
            raise InvalidData(
                f"{where}: expected one rating of item '{line.item[:_SHOWN]}' by user '{line.user[:_SHOWN]}', "
                f"found another in line {first}"
            )
        ratings.append((line.user, line.item, rating))
    try:
        return RatingTable.of(ratings, values=allowed)
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None


def scale_of(ratings: Sequence[float]) -> tuple[float, ...]:
    """The scale of ratings: the steps of an equal grid from the smallest to the largest, or the ratings that occur.

    The steps are 1, or as small as the smallest difference of two ratings, such as 0.5 for half stars. The scale has
    only the ratings that occur if some are not on the grid, or if they are less than a third of it.

    >>> scale_of([5, 1, 4, 2]), scale_of([0.5, 1.0, 2.5]), scale_of([1, 2, 4.5])
    ((1.0, 2.0, 3.0, 4.0, 5.0), (0.5, 1.0, 1.5, 2.0, 2.5), (1.0, 2.0, 4.5))
    """
    if not all(map(math.isfinite, ratings)):
        raise InvalidData("ratings: expected finite numbers, found NaN or infinity")
    found = sorted({round(float(rating), 9) for rating in ratings})
    if len(found) < 2:
        raise InvalidData(f"ratings: expected two or more different values, found {len(found)}")
    step = min(1.0, *(b - a for a, b in pairwise(found)))
    steps = min((found[-1] - found[0]) / step, 3 * len(found))  # a larger grid is not used
    grid = [round(found[0] + k * step, 9) for k in range(round(steps) + 1)]
    scale = tuple(grid) if set(found) <= set(grid) and len(grid) <= 3 * len(found) else tuple(found)
    if len(scale) > MOST_VALUES:
        raise InvalidData(f"ratings: expected a scale of at most {MOST_VALUES} values, found {len(scale)}")
    return scale


def check_scale(values: Sequence[float]) -> tuple[float, ...]:
    """Return the values of a scale as numbers; raise unless they are two or more finite numbers that increase."""
    scale = tuple(float(value) for value in values)
    if len(scale) < 2 or not all(a < b < math.inf for a, b in pairwise(scale)):
        raise InvalidOption(f"values: expected two or more increasing numbers, found {list(values)}")
    return scale


def parse_scale(text: str) -> tuple[float, ...]:
    """Parse LOW:HIGH, in steps of 1, or LOW:HIGH:STEP.

    >>> parse_scale("1:5"), parse_scale("0.5:2:0.5")
    ((1.0, 2.0, 3.0, 4.0, 5.0), (0.5, 1.0, 1.5, 2.0))
    """
    try:
        low, high, step = map(float, text.split(":") if text.count(":") == 2 else [*text.split(":"), "1"])
        number = (high - low) / step
    except (ValueError, ZeroDivisionError):
        number = math.nan
    if not 0 < number < MOST_VALUES or abs(number - round(number)) > 1e-6:
        raise InvalidOption(f"ratings: expected LOW:HIGH or LOW:HIGH:STEP, such as 1:5 or 0.5:5:0.5, found '{text}'")
    return check_scale([round(low + k * step, 9) for k in range(round(number) + 1)])


def _positions(index: Any, n: int, what: str) -> Tensor:
    """Positions (m,) from 0 to n - 1, or those of a mask (n,), as int64; raises for others."""
    found = as_tensor(index, what).cpu()
    if found.dtype == torch.bool and found.shape == (n,):
        return found.nonzero().squeeze(1)
    if found.numel() == 0 and found.ndim == 1:
        return torch.zeros(0, dtype=torch.int64)
    whole = found.dtype != torch.bool and not found.is_floating_point()
    if not whole or found.ndim != 1 or int(found.min()) < 0 or int(found.max()) >= n:
        raise InvalidData(
            f"{what}: expected whole numbers (m,) from 0 to {n - 1}, found {found.dtype} of shape {tuple(found.shape)}"
        )
    return found.long()


def _names(found: object, given: Sequence[object] | None, what: str) -> dict[str, int]:
    """The position of each name, in the given order or in that of numbers or letters."""
    occurring = set(found)  # type: ignore[call-overload]
    names = sorted(occurring, key=_order) if given is None else [str(name) for name in given]
    unknown = occurring - set(names)
    if unknown:
        raise InvalidData(f"{what}: expected all that occur in the ratings, found no '{min(unknown, key=_order)}'")
    return {name: k for k, name in enumerate(names)}


def _order(name: str) -> tuple[bool, int, str]:
    number = name.isdecimal() and len(name) < _LONGEST_NUMBER
    return (False, int(name), name) if number else (True, 0, name)


def _words(scale: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in (scale if len(scale) <= 12 else [*scale[:3], *scale[-1:]]))
