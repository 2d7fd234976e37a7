"""The columns of a table: how the cells of each become the values of units, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harmonium.errors import InvalidData, InvalidOption, unknown

if TYPE_CHECKING:
    import pandas

_MOST_VALUES = 200  # of a column of categories, unless its kind is given
_DIGITS = 6  # of a number relative to the standard deviation of its column
_SHOWN = 8  # values in a message
_MOST_NUMBERS = 0.8  # share of cells with numbers above which other cells look like mistakes
_LARGEST_COUNT, _LARGEST_DISPERSION = 100, 2.0  # of whole numbers that are taken for counts


@dataclass(frozen=True)
class Column:
    """A column of a table; ``width`` is the number of entries of its units in an encoded row."""

    name: str
    kind: ClassVar[str]
    width: ClassVar[int] = 1

    @classmethod
    def fit(cls, name: str, cells: pandas.Series, argument: str | None = None) -> Column:
        """The column for these cells (missing ones removed); ``argument`` follows the kind, as in ``count:10``."""
        raise NotImplementedError

    def encode(self, cells: pandas.Series) -> np.ndarray:
        """Values of the units in float64, (n, width), with NaN for missing cells; raises :class:`InvalidCell`."""
        raise NotImplementedError

    def decode(self, values: np.ndarray) -> Any:
        """The cells of possible values of the units: (n, width) -> (n,)."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        """A description of the values of the column."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Everything needed to rebuild the column, as plain numbers and text."""
        return {"kind": self.kind, **asdict(self)}


class InvalidCell(InvalidData):
    """A cell that cannot be encoded, with the number of its row in the table."""

    def __init__(self, row: int, expected: str, found: Any) -> None:
        super().__init__(f"expected {expected}, found {found!r}")
        self.row = row


@dataclass(frozen=True)
class Listed(Column):
    """A column with a list of known values."""

    values: tuple[Any, ...]
    numbers: ClassVar[tuple[int, int | None]]  # smallest and largest number of values
    expected: ClassVar[str]

    @classmethod
    def fit(cls, name: str, cells: pandas.Series, argument: str | None = None) -> Column:
        values = distinct(cells)
        least, most = cls.numbers
        if len(values) < least or (most is not None and len(values) > most):
            raise InvalidData(f"expected {cls.expected}, found {listed(values)}")
        return cls(name, values)

    def codes(self, cells: pandas.Series) -> np.ndarray:
        """The number of the value of each cell, (n,); -1 if missing."""
        known = {value: k for k, value in enumerate(self.values)}
        missing, codes = cells.isna().to_numpy(), np.full(len(cells), -1)
        for row, cell in enumerate(cells.astype(object).to_numpy()):
            if not missing[row]:
                code = known.get(plain(cell))
                if code is None:
                    raise InvalidCell(row, f"one of {listed(self.values)}", plain(cell))
                codes[row] = code
        return codes

    def decode(self, values: np.ndarray) -> Any:
        table = np.empty(len(self.values), dtype=object)
        table[:] = self.values
        cells = table[self.chosen(values)]
        kinds = {type(value) for value in self.values}
        return cells.astype(kinds.pop()) if kinds in ({bool}, {int}, {float}) else cells

    def chosen(self, values: np.ndarray) -> np.ndarray:
        """The number of the value of each row: (n, width) -> (n,)."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        return listed(self.values)


class Binary(Listed):
    """A column with two values, which become 0 and 1."""

    kind = "binary"
    numbers, expected = (2, 2), "two different values of a binary column"

    def encode(self, cells: pandas.Series) -> np.ndarray:
        codes = self.codes(cells)
        return np.where(codes < 0, np.nan, codes)[:, None]

    def chosen(self, values: np.ndarray) -> np.ndarray:
        return (values[:, 0] > 0.5).astype(int)


class Category(Listed):
    """A column with several values, which become one-hot vectors."""

    kind = "category"
    numbers, expected = (2, None), "two or more different values of a category"

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.values)

    def encode(self, cells: pandas.Series) -> np.ndarray:
        codes = self.codes(cells)
        rows = np.zeros((len(codes), self.width))
        rows[np.arange(len(codes)), codes] = 1.0
        rows[codes < 0] = np.nan
        return rows

    def chosen(self, values: np.ndarray) -> np.ndarray:
        return values.argmax(1)


@dataclass(frozen=True)
class Real(Column):
    """A column of real numbers x, which become z = (x - mean) / scale; ``whole`` if all were whole numbers."""

    mean: float
    scale: float
    whole: bool = False
    kind = "real"

    @classmethod
    def fit(cls, name: str, cells: pandas.Series, argument: str | None = None) -> Column:
        x = numbers(cells)
        scale = float(x.std())
        return cls(name, float(x.mean()), scale if scale > 0 else 1.0, bool((x == np.round(x)).all()))

    def encode(self, cells: pandas.Series) -> np.ndarray:
        return ((numbers(cells) - self.mean) / self.scale)[:, None]

    def decode(self, values: np.ndarray) -> Any:
        x = values[:, 0] * self.scale + self.mean
        if self.whole:
            return np.round(x).astype(np.int64)
        return np.round(x, _DIGITS - math.floor(math.log10(self.scale)))  # z has the precision of float32

    @property
    def words(self) -> str:
        return f"mean {self.mean:.4g}, standard deviation {self.scale:.4g}" + (", whole numbers" if self.whole else "")


@dataclass(frozen=True)
class Count(Column):
    """A column of counts 0, 1, 2, …, up to ``largest`` if it is given."""

    largest: int | None = None
    kind = "count"

    @classmethod
    def fit(cls, name: str, cells: pandas.Series, argument: str | None = None) -> Column:
        if argument is not None and not (argument.isdecimal() and int(argument) > 0):
            raise InvalidOption(f"columns: expected a kind such as count:10, found 'count:{argument}'")
        found = cls(name, None if argument is None else int(argument))
        found.encode(cells)
        return found

    def encode(self, cells: pandas.Series) -> np.ndarray:
        x = numbers(cells)
        top = math.inf if self.largest is None else self.largest
        wrong = ~np.isnan(x) & ((x < 0) | (x != np.round(x)) | (x > top))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidCell(row, f"whole numbers from 0{'' if self.largest is None else f' to {top}'}", float(x[row]))
        return x[:, None]

    def decode(self, values: np.ndarray) -> Any:
        return np.round(values[:, 0]).astype(np.int64)

    @property
    def words(self) -> str:
        return "whole numbers from 0" + ("" if self.largest is None else f" to {self.largest}")


class Constant(Listed):
    """A column with one value; it has no units."""

    kind = "constant"
    width = 0
    numbers, expected = (1, 1), "one value of a constant column"

    def encode(self, cells: pandas.Series) -> np.ndarray:
        self.codes(cells)
        return np.empty((len(cells), 0))

    def chosen(self, values: np.ndarray) -> np.ndarray:
        return np.zeros(len(values), dtype=int)


@dataclass(frozen=True)
class Ignored(Column):
    """A column that is left out."""

    kind = "ignore"
    width = 0

    @classmethod
    def fit(cls, name: str, cells: pandas.Series, argument: str | None = None) -> Column:
        return cls(name)

    def encode(self, cells: pandas.Series) -> np.ndarray:
        return np.empty((len(cells), 0))


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Binary, Category, Real, Count, Constant, Ignored)}


def from_dict(values: Mapping[str, Any]) -> Column:
    """The column that :meth:`Column.to_dict` describes.

    >>> from_dict({"kind": "binary", "name": "sex", "values": ["f", "m"]})
    Binary(name='sex', values=('f', 'm'))
    """
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items() if key != "kind"}
    kind: Any = KINDS[values["kind"]]
    column: Column = kind(**given)
    return column


def column(name: str, cells: pandas.Series, kind: str | None = None) -> Column:
    """The column for these cells, of a kind such as ``"real"`` or ``"count:10"``, by default one chosen from them."""
    chosen, colon, argument = (kind or "").partition(":")
    if kind is not None and chosen not in KINDS:
        raise unknown(f"kind of column '{name}'", kind, [*KINDS, "count:N"])
    if colon and chosen != Count.kind:
        raise InvalidOption(f"columns: expected no value after the kind {chosen} of column '{name}', found '{kind}'")
    if chosen == Ignored.kind:
        return Ignored(name)
    seen = cells[cells.notna()].infer_objects()  # a column of objects may have numbers only
    if len(seen) == 0:
        raise InvalidData("expected at least one value, found only missing cells; the kind 'ignore' leaves it out")
    if chosen in (Real.kind, Count.kind):
        numbers(cells)  # reports the row of a cell that is not a number, counted with missing cells
    return (KINDS[chosen] if chosen else choose(cells, seen)).fit(name, seen, argument if colon else None)


def choose(cells: pandas.Series, seen: pandas.Series) -> type[Column]:
    """The kind of a column: ``cells`` with missing ones, ``seen`` without."""
    import pandas

    kind = pandas.api.types
    number = seen.nunique()
    if kind.is_datetime64_any_dtype(seen.dtype) or kind.is_timedelta64_dtype(seen.dtype):
        raise InvalidData(
            f"expected numbers or text, found dates ({plain(seen.iloc[0])}); convert them to numbers first"
        )
    if number <= 2:
        return Constant if number == 1 else Binary
    if kind.is_numeric_dtype(seen.dtype):
        x = numbers(cells)
        x = x[~np.isnan(x)]
        whole = bool((x == np.round(x)).all()) and x.min() >= 0 and x.max() <= _LARGEST_COUNT
        return Count if whole and x.var() <= _LARGEST_DISPERSION * x.mean() else Real
    if not isinstance(seen.dtype, pandas.CategoricalDtype):
        parsed = pandas.to_numeric(seen, errors="coerce")
        if _MOST_NUMBERS <= parsed.notna().mean() < 1 and number > 20:
            numbers(cells)  # raises for the first cell that is not a number
        if number > _MOST_VALUES or (number > 20 and number > len(seen) / 2):
            raise InvalidData(
                f"expected at most {_MOST_VALUES} categories that repeat, found {number} different values of "
                f"{len(seen)} cells, such as {listed(distinct(seen)[:3])}; the kind 'ignore' leaves names out"
            )
    return Category


def numbers(cells: pandas.Series) -> np.ndarray:
    """The cells as float64 with NaN for missing ones; raises :class:`InvalidCell` for others that are not finite."""
    import pandas

    missing = cells.isna().to_numpy()
    if pandas.api.types.is_complex_dtype(cells.dtype):
        raise InvalidData("expected real numbers, found complex numbers")
    x = pandas.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~missing & ~np.isfinite(x)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidCell(row, "a finite number", plain(cells.iloc[row]))
    return x


def distinct(cells: pandas.Series) -> tuple[Any, ...]:
    """The different values, in increasing order; those of a pandas categorical in its order."""
    import pandas

    if isinstance(cells.dtype, pandas.CategoricalDtype):
        return tuple(map(plain, cells.dtype.categories))
    values = [plain(value) for value in cells.unique()]
    try:
        return tuple(sorted(values))
    except TypeError:  # of several types
        return tuple(sorted(values, key=lambda value: (type(value).__name__, value)))


def plain(value: Any) -> Any:
    """A number or text that JSON can store; whole numbers are ints.

    >>> plain(np.float64(3.0)), plain(np.bool_(True)), plain("a")
    (3, True, 'a')
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def listed(values: Sequence[Any]) -> str:
    """The first values as text.

    >>> listed(("a", 2))
    "'a', 2"
    """
    more = f", … ({len(values)} values)" if len(values) > _SHOWN else ""
    return ", ".join(map(repr, values[:_SHOWN])) + more
