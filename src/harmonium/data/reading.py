"""Read data from files of the user. Nothing is unpickled, so a file cannot execute code.

The size that a header declares is compared with the size of the file before memory is used (:mod:`harmonium.limits`).
"""

from __future__ import annotations

import csv
import io
import lzma
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from harmonium.errors import InvalidData, clipped, unknown
from harmonium.extras import require
from harmonium.limits import MOST_MEMBERS, check_expansion
from harmonium.paths import expanded, file_size, is_folder

from . import column_files
from .column_files import read_columns
from .image_folders import read_images
from .matlab_matrices import Pick, read_hdf5, read_mat

if TYPE_CHECKING:
    import zipfile

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
    path = expanded(path)
    if is_folder(path) and path.suffix.lower() not in (*_READERS, *_SEVERAL):
        return read_images(path)
    if path.suffix.lower() not in (*_READERS, *_SEVERAL):
        raise unknown("file extension", path.suffix or path.name, (*_READERS, *_SEVERAL))
    if file_size(path) == 0:
        raise InvalidData(f"{path} is empty: expected numbers, one sample per row")
    suffix = path.suffix.lower()
    if suffix in _SEVERAL:
        return _SEVERAL[suffix](path, partial(_chosen, name=name))
    if name is not None:
        raise InvalidData(f"{path}: expected no name of an array for a {suffix} file, found '{clipped(name)}'")
    return _READERS[suffix](path)


def _npy(path: Path) -> Tensor | np.memmap:
    with path.open("rb") as file:  # the header tells whether the array can be memory-mapped
        shape, dtype = _npy_header(path, file)
        begin = file.tell()
    _check_array(path, "the array", shape, dtype)
    _check_size(path, shape, dtype, path.stat().st_size - begin)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, OverflowError) as error:
        raise InvalidData(f"{path} is damaged: expected an array of shape {shape} ({error})") from error
    return array if dtype.isnative else torch.from_numpy(array.astype(dtype.newbyteorder("=")))


def _npy_header(path: Path, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and type in the header of an array; the file is then at its first value."""
    try:
        first = npy.read_magic(file) == (1, 0)
        header = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
        shape, _, dtype = header(file)
    except Exception as error:  # the header is a Python literal, whose parser has many kinds of errors
        raise InvalidData(f"{path} is not an .npy file: {clipped(error)}") from error
    if not all(isinstance(n, int) and 0 <= n < 2**62 for n in shape):
        raise InvalidData(f"{path} is damaged: expected a shape of sizes, found {clipped(shape)}")
    return shape, dtype


def _check_size(path: Path, shape: tuple[int, ...], dtype: np.dtype, found: int) -> None:
    expected = math.prod(shape) * dtype.itemsize
    if expected > found:
        raise InvalidData(f"{path} is damaged: expected {expected:,} bytes of the shape {shape}, found {found:,}")


def _npz(path: Path, pick: Pick) -> Tensor:
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(path) as archive:
            members = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            if len(members) > MOST_MEMBERS:
                raise InvalidData(f"{path}: expected at most {MOST_MEMBERS:,} arrays, found {len(members):,}")
            key = pick(path, {name: _npz_shape(path, archive, part) for name, part in members.items()})
            entry = members[key]
            check_expansion(path, entry.compress_size, entry.file_size)
            with archive.open(entry) as file:
                shape, dtype = _npy_header(path, file)
                _check_array(path, f"array '{key}'", shape, dtype)
                _check_size(path, shape, dtype, entry.file_size)
            with archive.open(entry) as file:
                array = npy.read_array(file, allow_pickle=False)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise InvalidData(f"{path} is damaged or not an .npz file: {clipped(error)}") from error
    except (NotImplementedError, RuntimeError, lzma.LZMAError) as error:  # unknown method of compression, encryption
        raise InvalidData(f"{path}: expected an archive of NumPy, found another kind ({clipped(error)})") from error
    except (ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, InvalidData):
            raise
        raise InvalidData(f"{path} is damaged: expected arrays of numbers ({clipped(error)})") from error
    _check_finite(path, array, None)
    return torch.from_numpy(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))


def _npz_shape(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> tuple[int, ...]:
    with archive.open(entry) as file:
        return _npy_header(path, file)[0]


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
    ".npz": _npz,
    ".mat": partial(_matrix, reader=read_mat),
    ".h5": partial(_matrix, reader=read_hdf5),
    ".hdf5": partial(_matrix, reader=read_hdf5),
}
