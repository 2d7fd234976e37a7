"""Read data from files of the user. Nothing is unpickled, so a file cannot execute code."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from harmonium.errors import DataNotFound, InvalidData, unknown
from harmonium.extras import require

if TYPE_CHECKING:
    import pandas

NPZ_KEYS = ("data", "x", "X")


def read(path: str | Path) -> Tensor | np.memmap:
    """Read a file of numbers, one sample per row.

    - ``.npy``: a read-only memory map, so the file may be larger than memory; its values are not checked;
    - ``.npz``: the only array, or the one named ``data``, ``x`` or ``X``, in its own type;
    - ``.csv``: comma-separated numbers as float32, with or without a header. The first row is a header if it contains
      a cell that is not a number, or if it is 0, 1, 2, ... (at least three columns, the default names of pandas);
    - ``.parquet``: numeric columns, as float32.

    Numbers must be finite, except in a memory map.

    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name, "mine.csv")
    >>> _ = file.write_text("height,width\\n1,2\\n3,4\\n")
    >>> read(file)
    tensor([[1., 2.],
            [3., 4.]])
    >>> folder.cleanup()
    """
    path = Path(path).expanduser()
    if path.suffix.lower() not in _READERS:
        raise unknown("file extension", path.suffix or path.name, _READERS)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no file"
        raise DataNotFound(f"path: expected a file at {path}, found {what}")
    if path.stat().st_size == 0:
        raise InvalidData(f"{path} is empty: expected numbers, one sample per row")
    return _READERS[path.suffix.lower()](path)


def _npy(path: Path) -> Tensor | np.memmap:
    with path.open("rb") as file:  # the header tells whether the array can be memory-mapped
        try:
            first = npy.read_magic(file) == (1, 0)
            header = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
            shape, _, dtype = header(file)
        except ValueError as error:
            raise InvalidData(f"{path} is not an .npy file: {error}") from error
    _check_array(path, "the array", shape, dtype)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise InvalidData(f"{path} is damaged: expected an array of shape {shape} ({error})") from error
    return array if dtype.isnative else torch.from_numpy(array.astype(dtype.newbyteorder("=")))


def _npz(path: Path) -> Tensor:
    import zipfile
    import zlib

    try:
        with np.load(path, allow_pickle=False) as arrays:
            key = _npz_key(path, arrays.files)
            array = arrays[key]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise InvalidData(f"{path} is damaged or not an .npz file: {error}") from error
    except ValueError as error:
        if isinstance(error, InvalidData):
            raise
        raise InvalidData(f"{path}: expected arrays of numbers, found pickled objects, which are not read") from error
    _check_array(path, f"array '{key}'", array.shape, array.dtype)
    _check_finite(path, array, None)
    return torch.from_numpy(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))


def _npz_key(path: Path, keys: Sequence[str]) -> str:
    chosen = list(keys) if len(keys) == 1 else [key for key in NPZ_KEYS if key in keys]
    if len(chosen) != 1:
        raise InvalidData(
            f"{path}: expected one array, or one named {', '.join(NPZ_KEYS)}; found {', '.join(keys) or 'none'}"
        )
    return chosen[0]


def _csv(path: Path) -> Tensor:
    pandas = require("pandas", ".csv files need")
    try:
        text = path.read_text(encoding="utf-8-sig").lstrip()
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is not UTF-8 text: {error}") from error
    if not text:
        raise InvalidData(f"{path} is empty: expected numbers, one sample per row")
    first, _, rest = text.partition("\n")
    cells = [cell.strip() for cell in next(csv.reader([first]))]
    header = is_header(cells)
    if header and cells[0] == "":
        raise InvalidData(
            f"{path}: expected a name for every column, found none for the first. Remove it if it is a row index"
        )
    rows = rest if header else text
    if not rows.strip():
        raise InvalidData(f"{path} has columns but no rows: expected numbers, one sample per row")
    try:
        frame = pandas.read_csv(io.StringIO(rows), header=None)
    except pandas.errors.ParserError as error:
        raise InvalidData(f"{path}: expected rows of {len(cells)} numbers: {error}") from error
    if frame.shape[1] != len(cells):
        raise InvalidData(f"{path}: expected rows of {len(cells)} numbers as in the header, found {frame.shape[1]}")
    frame.columns = cells if header else list(map(str, range(1, len(cells) + 1)))
    return _frame(path, frame)


def is_header(cells: Sequence[str]) -> bool:
    """Whether the cells of a first row are names of columns: one is not a number, or they are 0, 1, 2, …"""
    numbered = len(cells) >= 3 and list(cells) == [str(i) for i in range(len(cells))]
    return numbered or not all(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.lower() in ("", "true", "false")
    return True


def _parquet(path: Path) -> Tensor:
    pandas, pyarrow = (require(name, ".parquet files need") for name in ("pandas", "pyarrow"))
    try:
        return _frame(path, pandas.read_parquet(path))
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidData(f"{path} is damaged or not a .parquet file: {error}") from error


def _frame(path: Path, frame: pandas.DataFrame) -> Tensor:
    """Convert a table to float32; raise an error that names the first cell that is not a number."""
    import pandas

    names = [str(name) for name in frame.columns]
    for name, (_, column) in zip(names, frame.items(), strict=True):
        if not (pandas.api.types.is_numeric_dtype(column.dtype) or column.isna().all()):
            bad = pandas.to_numeric(column, errors="coerce").isna() & column.notna()
            row = int(np.argmax(bad)) if bad.any() else 0
            raise InvalidData(f"{path}: expected numbers, found {column.iloc[row]!r} in row {row + 1}, column '{name}'")
    if frame.empty:
        raise InvalidData(f"{path} has columns but no rows: expected numbers, one sample per row")
    if any(pandas.api.types.is_complex_dtype(dtype) for dtype in frame.dtypes):
        raise InvalidData(f"{path}: expected real numbers, found complex numbers")
    array = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    _check_finite(path, array, names)
    return torch.from_numpy(array.astype(np.float32))


def _check_array(path: Path, what: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if dtype.hasobject:
        raise InvalidData(f"{path}: expected numbers in {what}, found pickled objects, which are not read")
    if dtype.kind not in "biuf":
        raise InvalidData(f"{path}: expected real numbers in {what}, found the type {dtype}")
    if len(shape) == 0 or 0 in shape:
        raise InvalidData(f"{path}: expected samples in {what}, found the shape {shape}")


def _check_finite(path: Path, array: np.ndarray, names: Sequence[str] | None) -> None:
    finite = np.isfinite(array)
    if not finite.all():
        index = tuple(int(i) for i in np.argwhere(~finite)[0])
        where = f"at index {index}" if names is None else f"in row {index[0] + 1}, column '{names[index[1]]}'"
        found = "an empty cell or nan" if np.isnan(array[index]) else str(array[index])
        raise InvalidData(f"{path}: expected finite numbers, found {found} {where}")


_READERS: dict[str, Callable[[Path], Tensor | np.memmap]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".parquet": _parquet,
}
