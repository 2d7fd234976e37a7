"""Tables with columns of several kinds, as states of a mixed layer of units."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from harmonium import files
from harmonium.arrays import as_tensor
from harmonium.data import column_files
from harmonium.data import columns as kinds_of
from harmonium.data.column_files import read_columns
from harmonium.data.columns import Binary, Category, Column, Count, Ignored, InvalidCell, Real
from harmonium.data.reading import is_header
from harmonium.errors import InvalidData, InvalidOption, clipped, unknown
from harmonium.extras import require
from harmonium.paths import check_file, expand
from harmonium.units import Bernoulli, Binomial, Categories, Gaussian, Mixed, Poisson, Unit

if TYPE_CHECKING:
    import pandas

FORMAT = 1
_PATH = "harmonium_path"  # key of a table's attributes with the file it was read from
EXTENSIONS = (".csv", ".tsv", *column_files.EXTENSIONS)


@dataclass(frozen=True)
class TableEncoder:
    """Converts between the rows of a table and the states of a layer of units.

    ======== ============================== ====================== ================================================
    kind     chosen for                     units                  values
    ======== ============================== ====================== ================================================
    binary   two different values           Bernoulli              0 and 1, in increasing order
    category text, pandas categoricals      Categories             one-hot
    real     other numbers                  Gaussian, with a       z = (x - mean) / standard deviation
                                            learned variance
    count    whole numbers from 0 to 100    Poisson; Binomial for  the number
             with variance ≤ 2 · mean       the kind ``count:N``
    constant one value                      none
    ignore   (never)                        none
    ======== ============================== ====================== ================================================

    Empty cells, None and NaN are missing; they become NaN. Units of one kind are beside each other in a row, in the
    order of the table.

    >>> import pandas
    >>> people = pandas.DataFrame({"age": [20.5, 30.5, 41.0], "job": ["a", "b", "c"], "member": [True, False, None]})
    >>> encoder = TableEncoder.fit(people)
    >>> [(column.name, column.kind) for column in encoder.columns]
    [('age', 'real'), ('job', 'category'), ('member', 'binary')]
    >>> encoder.layer()
    Mixed(
      (units): ModuleList(
        (0): Bernoulli((1,))
        (1): Categories((3,))
        (2): Gaussian((1,))
      )
    )
    >>> states = encoder.encode(people)
    >>> states[:, :4]
    tensor([[1., 1., 0., 0.],
            [0., 0., 1., 0.],
            [nan, 0., 0., 1.]])
    >>> encoder.decode(states[:2]).to_dict("list")
    {'age': [20.5, 30.5], 'job': ['a', 'b'], 'member': [True, False]}
    """

    columns: tuple[Column, ...]

    @classmethod
    def fit(
        cls, table: pandas.DataFrame | str | Path, *, kinds: Mapping[str, str] | None = None, rows: Any = None
    ) -> TableEncoder:
        """Choose the kind of every column.

        Args:
            table: a pandas table, or a .csv, .tsv, .parquet, .arrow or .feather file.
            kinds: kinds of columns, by name, instead of those chosen from the cells: "binary", "category", "real",
                "count", "count:N" for whole numbers from 0 to N, or "ignore".
            rows: row numbers (m,) from which means and standard deviations are computed; by default all rows.
        """
        frame, given = as_frame(table), dict(kinds or {})
        names = [str(name) for name in frame.columns]
        for name in given:
            if name not in names:
                raise unknown("column", name, names)
        for name in names:
            if names.count(name) > 1:
                raise InvalidData(f"{_source(frame)}: expected different names of columns, found '{name}' twice")
        if len(frame) == 0:
            raise InvalidData(f"{_source(frame)} has columns but no rows: expected at least one row")
        found = list(_each(frame, names, lambda name, cells: kinds_of.column(name, cells, given.get(name))))
        if rows is not None:
            chosen = frame.iloc[_row_numbers(rows, len(frame))]
            scaled = [name for name, column in zip(names, found, strict=True) if isinstance(column, Real)]
            refit = dict(
                zip(
                    scaled, _each(chosen, scaled, lambda name, cells: kinds_of.column(name, cells, "real")), strict=True
                )
            )
            found = [refit.get(column.name, column) for column in found]
        if not any(column.width for column in found):
            raise InvalidData(f"{_source(frame)}: expected a column with two or more values, found none")
        return cls(tuple(found))

    # -- the layer --------------------------------------------------------------------------------------------------

    @property
    def _groups(self) -> list[tuple[Unit, list[int]]]:
        """The parts of the layer, each with the numbers of its columns."""
        by_kind: dict[Any, list[int]] = {}
        for k, column in enumerate(self.columns):
            if column.width:
                by_kind.setdefault((_ORDER.index(column.kind), getattr(column, "largest", None) or 0), []).append(k)
        return [(_LAYERS[_ORDER[key[0]]](self._chosen(members)), members) for key, members in sorted(by_kind.items())]

    def _chosen(self, members: Sequence[int]) -> list[Any]:
        return [self.columns[k] for k in members]

    def layer(self) -> Unit:
        """A new visible layer for the encoded rows."""
        units = [unit for unit, _ in self._groups]
        return units[0] if len(units) == 1 else Mixed(*units)

    @property
    def entries(self) -> dict[str, slice]:
        """The entries of each column in an encoded row, by the name of the column."""
        found, start = {}, 0
        for _, members in self._groups:
            for column in self._chosen(members):
                found[column.name] = slice(start, start + column.width)
                start += column.width
        return found

    @property
    def size(self) -> int:
        """The number of entries of an encoded row."""
        return sum(column.width for column in self.columns)

    # -- rows -------------------------------------------------------------------------------------------------------

    def encode(self, table: pandas.DataFrame | str | Path) -> Tensor:
        """Encode the rows of a table, which must have all columns: (n, size) in float32, NaN for missing cells."""
        frame = as_frame(table)
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        needed = [column for column in self.columns if not isinstance(column, Ignored)]
        for column in needed:
            if column.name not in frame.columns:
                raise InvalidData(f"{_source(frame)}: expected a column '{column.name}', found none of that name")
        by_name = {column.name: column for column in needed}
        parts = dict(
            zip(by_name, _each(frame, list(by_name), lambda name, cells: by_name[name].encode(cells)), strict=True)
        )
        rows = np.empty((len(frame), self.size), dtype=np.float32)
        for name, entries in self.entries.items():
            rows[:, entries] = parts[name]
        return torch.from_numpy(rows)

    def decode(self, states: Tensor) -> pandas.DataFrame:
        """Decode states (n, size) to a table. Values that are not possible are rounded to the nearest possible one."""
        pandas = require("pandas", "tables need")
        array, entries = self._checked(states, "states").numpy(), self.entries
        kept = [column for column in self.columns if not isinstance(column, Ignored)]
        nothing = slice(0, 0)
        return pandas.DataFrame(
            {column.name: column.decode(array[:, entries.get(column.name, nothing)]) for column in kept}
        )

    def complete(self, table: pandas.DataFrame | str | Path, states: Tensor) -> pandas.DataFrame:
        """A copy of the table in which missing cells have the values of the states (n, size).

        Columns that the table does not have are added; other columns of the table are unchanged.
        """
        found = as_frame(table).copy()
        found.columns = [str(name) for name in found.columns]
        decoded = self.decode(states)
        if len(decoded) != len(found):
            raise InvalidData(f"states: expected {len(found)} rows, as in the table, found {len(decoded)}")
        for name, cells in decoded.items():
            cells.index = found.index
            if str(name) in found.columns:
                given = found[name].astype(object)
                try:
                    cells = given.where(given.notna(), cells.astype(object)).astype(cells.dtype)
                except (OverflowError, TypeError, ValueError) as error:
                    raise InvalidData(f"{_source(found)}, column '{name}': expected {cells.dtype} ({error})") from None
            found[name] = cells
        return found

    def probabilities(self, means: Tensor) -> pandas.DataFrame:
        """The probability of every value of the binary and category columns, from the means of their units (n, size).

        The names of the columns are "name=value".
        """
        pandas = require("pandas", "tables need")
        array = self._checked(means, "means").numpy()
        found: dict[str, np.ndarray] = {}
        for column in self.columns:
            if isinstance(column, (Binary, Category)):
                p = array[:, self.entries[column.name]]
                p = np.concatenate([1 - p, p], 1) if isinstance(column, Binary) else p
                found |= {f"{column.name}={value}": p[:, k] for k, value in enumerate(column.values)}
        return pandas.DataFrame(found)

    def log_jacobian(self, states: Tensor) -> Tensor:
        """ln |dz/dx| of the observed real columns of each row: (n, size) -> (n,) in float64.

        Add it to the log-density of the encoded rows to get that of the table, in its own units.
        """
        rows = self._checked(states, "states")
        total = torch.zeros(len(rows), dtype=torch.float64)
        for column in self.columns:
            if isinstance(column, Real):
                seen = ~torch.isnan(rows[:, self.entries[column.name].start])
                total -= seen.double() * float(np.log(column.scale))
        return total

    def _checked(self, states: Any, what: str) -> Tensor:
        """Rows (n, size) in float64; raises if they have another shape."""
        rows = as_tensor(states, what).detach().cpu().double()
        if rows.ndim != 2 or rows.shape[1] != self.size:
            raise InvalidData(f"{what}: expected shape (n, {self.size}), found {tuple(rows.shape)}")
        return rows

    # -- files ------------------------------------------------------------------------------------------------------

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of every column, as in the argument of :meth:`fit`."""
        return {column.name: column.kind + _bound(column) for column in self.columns}

    def to_dict(self) -> dict[str, Any]:
        """Everything needed to rebuild the encoder, as plain numbers and text."""
        return {"format": FORMAT, "columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableEncoder:
        """The encoder that :meth:`to_dict` describes."""
        if values.get("format") != FORMAT:
            raise InvalidOption(f"table: expected format {FORMAT}, found {clipped(repr(values.get('format')))}")
        try:
            found = cls(tuple(map(kinds_of.from_dict, values["columns"])))
            found.layer()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidOption(f"table: expected the columns of a table, found others ({clipped(error)})") from None
        return found

    def save(self, path: str | Path) -> None:
        """Write the encoder to a JSON file."""
        files.write_text(path, json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> TableEncoder:
        """Read the encoder from a JSON file."""
        path = expand(path)
        try:
            check_file(path)
            values = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidData(f"{clipped(path)}: expected the description of a table ({clipped(error)})") from None
        if not isinstance(values, dict):
            raise InvalidData(f"{path}: expected the description of a table, found {type(values).__name__}")
        return cls.from_dict(values)


def _row_numbers(rows: Any, n: int) -> np.ndarray:
    """Row numbers (m,) as an array; raises unless they are whole numbers from 0 to n - 1."""
    found = as_tensor(rows, "rows").cpu().numpy()
    if found.ndim != 1 or found.dtype.kind not in "iu" or not len(found) or found.min() < 0 or found.max() >= n:
        raise InvalidData(f"rows: expected row numbers (m,) from 0 to {n - 1}, found others")
    return found


def _bound(column: Column) -> str:
    largest = getattr(column, "largest", None)
    return "" if largest is None else f":{largest}"


#: the layer of the columns of a kind; counts with a bound have the same bound
_LAYERS: dict[str, Callable[[list[Any]], Unit]] = {
    "binary": lambda columns: Bernoulli(len(columns)),
    "category": lambda columns: Categories([column.width for column in columns]),
    "real": lambda columns: Gaussian(len(columns), learn=("bias", "precision")),
    "count": lambda columns: _counts(columns[0], len(columns)),
}
_ORDER = list(_LAYERS)


def _counts(column: Count, n: int) -> Unit:
    return Poisson(n) if column.largest is None else Binomial(n, trials=column.largest)


def _each(
    frame: pandas.DataFrame, names: Sequence[str], function: Callable[[str, pandas.Series], Any]
) -> Iterator[Any]:
    """Apply a function to columns; errors name the table, the line of a file (or the row) and the column."""
    labels = {str(label): label for label in frame.columns}
    for name in names:
        try:
            yield function(name, frame[labels[name]])
        except InvalidData as error:
            where = f"{_source(frame)}{_line(frame, error.row)}" if isinstance(error, InvalidCell) else _source(frame)
            raise InvalidData(f"{where}, column '{name}': {error}") from None
        except TypeError as error:  # cells that are lists or other objects
            raise InvalidData(f"{_source(frame)}, column '{name}': expected numbers or text ({error})") from None


def _source(frame: pandas.DataFrame) -> str:
    return str(frame.attrs.get(_PATH, "table"))


def _line(frame: pandas.DataFrame, row: int) -> str:
    path = frame.attrs.get(_PATH)
    if path is None or Path(path).suffix.lower() in column_files.EXTENSIONS:
        return f", row {row + 1}"
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=_delimiter(Path(path)))
        lines = [reader.line_num for cells in reader if cells]
    return f", line {lines[row + len(lines) - len(frame)]}"  # a header is before the rows


# -- reading ----------------------------------------------------------------------------------------------------------


def as_frame(table: Any) -> pandas.DataFrame:
    """The table itself, or that of a file."""
    if isinstance(table, (str, Path)):
        return read_table(table)
    if not (hasattr(table, "columns") and hasattr(table, "iloc")):
        raise InvalidData(f"table: expected a pandas table or a file, found {type(table).__name__}")
    return table


def read_table(path: str | Path) -> pandas.DataFrame:
    """Read a table from a .csv, .tsv, .parquet or .arrow file; empty cells, NA, NaN, None and null are missing.

    The first row of a .csv or .tsv file is a header if it contains a cell that is not a number. Otherwise the names of
    the columns are 1, 2, 3, ...

    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name, "mine.csv")
    >>> _ = file.write_text("age,job\\n20,a\\n,b\\n")
    >>> read_table(file).to_dict("list")
    {'age': [20.0, nan], 'job': ['a', 'b']}
    >>> folder.cleanup()
    """
    pandas, path = require("pandas", "tables need"), expand(path)
    if path.suffix.lower() not in EXTENSIONS:
        raise unknown("file extension of a table", path.suffix or path.name, EXTENSIONS)
    check_file(path)
    if path.suffix.lower() in column_files.EXTENSIONS:
        frame = read_columns(path)
    else:
        header = _check_rows(path)
        frame = pandas.read_csv(
            path,
            sep=_delimiter(path),
            header=0 if header else None,
            encoding="utf-8-sig",
            skipinitialspace=True,
            low_memory=False,
        )
        frame.columns = [str(name) if header else str(k + 1) for k, name in enumerate(frame.columns)]
    frame.attrs[_PATH] = str(path)
    return frame


def has_header(path: Path) -> bool:
    """Whether the first row of a .csv or .tsv file has names of columns; files of columns always have names."""
    if path.suffix.lower() in column_files.EXTENSIONS:
        return True
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        for cells in csv.reader(file, delimiter=_delimiter(path)):
            if cells:
                return is_header([cell.strip() for cell in cells])
    return False


def _check_rows(path: Path) -> bool:
    """Raise unless all rows of a file have the same number of cells; return whether it has a header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=_delimiter(path), skipinitialspace=True)
            first = next((cells for cells in reader if cells), None)
            if first is None:
                raise InvalidData(f"{path} is empty: expected a table")
            for cells in reader:
                if cells and len(cells) != len(first):
                    raise InvalidData(
                        f"{path}, line {reader.line_num}: expected {len(first)} cells, as in the first row, "
                        f"found {len(cells)}"
                    )
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is not UTF-8 text: {error}") from error
    header = is_header([cell.strip() for cell in first])
    if header and "" in (cell.strip() for cell in first):
        raise InvalidData(f"{path}, line 1: expected a name for every column, found an empty cell. Remove a row index")
    return header


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","
