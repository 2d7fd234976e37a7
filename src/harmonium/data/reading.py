"""Read data from files of the user. Nothing is unpickled, so a file cannot execute code."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from harmonium.errors import InvalidData, clipped, unknown
from harmonium.extras import require
from harmonium.paths import check_file, expand

from . import column_files
from .column_files import read_columns
from .image_folders import read_images
from .matlab import Pick, damage, read_hdf5, read_mat

if TYPE_CHECKING:
    import pandas

NPZ_KEYS = ("data", "x", "X")


def read(path: str | Path, name: str | None = None) -> Tensor | np.memmap:
    """Read a file of numbers, one sample per row.

    - ``.npy``: a read-only memory map, so the file may be larger than memory; its values are not checked;
    - ``.npz``: the array ``name``, by default the only matrix, or the one named ``data``, ``x`` or ``X``, in its own
      type;
    - ``.csv``: comma-separated numbers as float32, with or without a header. The first row is a header if it contains
      a cell that is not a number, or if it is 0, 1, 2, ... (at least three columns, the default names of pandas);
    - ``.parquet``, ``.arrow``, ``.feather``: numeric columns, as float32;
    - ``.mat`` (MATLAB), ``.h5``, ``.hdf5``: the same as for ``.npz``;
    - a folder of images of the same size: uint8 (n, channels, height, width), in the order of their names.

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
    path = expand(path)
    if os.path.isdir(path) and path.suffix.lower() not in (*_READERS, *_SEVERAL):
        return read_images(path)
    if path.suffix.lower() not in (*_READERS, *_SEVERAL):
        raise unknown("file extension", path.suffix or path.name, (*_READERS, *_SEVERAL))
    check_file(path)
    if path.stat().st_size == 0:
        raise InvalidData(f"{path} is empty: expected numbers, one sample per row")
    suffix = path.suffix.lower()
    if suffix in _SEVERAL:
        return _SEVERAL[suffix](path, partial(_chosen, name=name))
    if name is not None:
        raise InvalidData(f"{path}: expected no name of an array for a {suffix} file, found '{clipped(name)}'")
    return _READERS[suffix](path)


def _npy(path: Path) -> Tensor | np.memmap:
    with damage(path, "an .npy file"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        _check_array(path, "the array", array.shape, array.dtype)
    return array if array.dtype.isnative else torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))


def _npz(path: Path, pick: Pick) -> np.ndarray:
    with damage(path, "an .npz file"), np.load(path, allow_pickle=False) as archive:
        found = {name: archive[name] for name in archive.files}
        return found[pick(path, {name: array.shape for name, array in found.items()})]


def _chosen(path: Path, shapes: Mapping[str, tuple[int, ...]], *, name: str | None) -> str:
    """Return the array of a file with this name; without a name, the only one, the only matrix, or one of NPZ_KEYS."""
    found = ", ".join(f"{key} ({'×'.join(map(str, shape)) or 'a number'})" for key, shape in shapes.items())
    if name is not None:
        if name not in shapes:
            raise InvalidData(f"{path}: expected an array named '{clipped(name)}', found {clipped(found) or 'none'}")
        return name
    matrices = [key for key, shape in shapes.items() if sum(size > 1 for size in shape) > 1]
    for keys in (list(shapes), [key for key in NPZ_KEYS if key in shapes], matrices):
        if len(keys) == 1:
            return keys[0]
    raise InvalidData(
        f"{path}: expected one matrix, or one named {', '.join(NPZ_KEYS)}, found {clipped(found) or 'none'}"
        + ("; choose one: --array NAME, hm.data.read(path, NAME)" if shapes else "")
    )


def _csv(path: Path) -> Tensor:
    pandas = require("pandas", ".csv files need")
    try:
        text = path.read_text(encoding="utf-8-sig").lstrip()
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is not UTF-8 text: {error}") from error
    if not text:
        raise InvalidData(f"{path} is empty: expected numbers, one sample per row")
    first, _, rest = text.partition("\n")
    try:
        cells = [cell.strip() for cell in next(csv.reader([first]))]
    except csv.Error as error:
        raise InvalidData(f"{path}: expected numbers separated by commas ({error})") from error
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
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, ValueError, OverflowError) as error:
        raise InvalidData(f"{path}: expected rows of {len(cells)} numbers: {clipped(error)}") from error
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


def _columns(path: Path) -> Tensor:
    return _frame(path, read_columns(path))


def _frame(path: Path, frame: pandas.DataFrame) -> Tensor:
    """Convert a table to float32; raise an error that names the first cell that is not a number."""
    import pandas

    names = [str(name) for name in frame.columns]
    for name, (_, column) in zip(names, frame.items(), strict=True):
        if not (pandas.api.types.is_numeric_dtype(column.dtype) or column.isna().all()):
            row = next(
                (k for k, cell in enumerate(column) if not isinstance(cell, int) and not _is_number(str(cell))), 0
            )
            cell = column.iloc[row]
            shown = "a very long integer" if isinstance(cell, int) else clipped(repr(cell))
            raise InvalidData(f"{path}: expected numbers, found {shown} in row {row + 1}, column '{clipped(name)}'")
    if frame.empty:
        raise InvalidData(f"{path} has columns but no rows: expected numbers, one sample per row")
    if any(pandas.api.types.is_complex_dtype(dtype) for dtype in frame.dtypes):
        raise InvalidData(f"{path}: expected real numbers, found complex numbers")
    try:
        array = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (OverflowError, ValueError, TypeError) as error:  # an integer above 1e308
        raise InvalidData(f"{path}: expected numbers ({clipped(error)})") from error
    _check_finite(path, array, names)
    return torch.from_numpy(array.astype(np.float32))


def _matrix(path: Path, pick: Pick, reader: Callable[[Path, Pick], np.ndarray]) -> Tensor:
    array = reader(path, pick)
    _check_array(path, "the matrix", array.shape, array.dtype)
    _check_finite(path, array, None)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=")))


def _check_array(path: Path, what: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if dtype.hasobject:
        raise InvalidData(f"{path}: expected numbers in {what}, found pickled objects, which are not read")
    if dtype.kind not in "biuf":
        raise InvalidData(f"{path}: expected real numbers in {what}, found the type {dtype}")
    if len(shape) == 0 or 0 in shape:
        raise InvalidData(f"{path}: expected samples in {what}, found the shape {shape}")
    if len(shape) == 1:
        raise InvalidData(
            f"{path}: expected one sample per row in {what}, found the shape {shape}; reshape it to ({shape[0]}, 1) "
            f"for samples of one value, or to (1, {shape[0]}) for one sample"
        )


def _check_finite(path: Path, array: np.ndarray, names: Sequence[str] | None) -> None:
    finite = np.isfinite(array)
    if not finite.all():
        index = tuple(int(i) for i in np.argwhere(~finite)[0])
        where = f"at index {index}" if names is None else f"in row {index[0] + 1}, column '{names[index[1]]}'"
        found = "an empty cell or nan" if np.isnan(array[index]) else str(array[index])
        raise InvalidData(f"{path}: expected finite numbers, found {found} {where}")


_READERS: dict[str, Callable[[Path], Tensor | np.memmap]] = {
    ".npy": _npy,
    ".csv": _csv,
    **dict.fromkeys(column_files.EXTENSIONS, _columns),
}
#: files with several arrays, of which one is picked
_SEVERAL: dict[str, Callable[[Path, Pick], Tensor]] = {
    ".npz": partial(_matrix, reader=_npz),
    ".mat": partial(_matrix, reader=read_mat),
    ".h5": partial(_matrix, reader=read_hdf5),
    ".hdf5": partial(_matrix, reader=read_hdf5),
}
