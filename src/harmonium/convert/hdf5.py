"""Arrays and strings of HDF5 files, with sizes checked before anything is read."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.matlab_matrices import check_links, check_stored
from ..errors import InvalidData
from ..extras import require

_MOST_PER_BYTE = 1000  # compressed arrays may be this much larger than their part of the file
_SMALL = 2**20
_HEAP = b"GCOL\x01\x00\x00\x00"
_OBJECT = struct.Struct("<HHIQ")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open an HDF5 file for reading; damaged and other files raise :class:`InvalidData`."""
    h5py = require("h5py", "HDF5 files need")
    if not path.is_file():
        raise InvalidData(f"{path}: no such file; expected an HDF5 file")
    try:
        check_heaps(path)
        with h5py.File(path, "r") as file:
            check_links(path, file)
            yield file
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        if isinstance(error, InvalidData):
            raise
        raise InvalidData(f"{path}: expected an HDF5 file, found a damaged or another file ({error})") from None


def check_heaps(path: Path) -> None:
    """Raise :class:`InvalidData` for a heap of strings with free space of size 0, on which the HDF5 library never ends.

    A heap is b"GCOL", its version and size, and objects: index, number of references, size and content; the index of
    free space is 0.
    """
    content = path.read_bytes()
    start = content.find(_HEAP)
    while start >= 0:
        (size,) = struct.unpack_from("<Q", content.ljust(start + 16), start + 8)
        at, end = start + 16, min(start + size, len(content))
        while at + _OBJECT.size <= end:
            index, _, _, length = _OBJECT.unpack_from(content, at)
            if index == 0 and length == 0:
                raise InvalidData(f"{path} is damaged: expected free space in the heap at byte {at}, found 0 bytes")
            at += length if index == 0 else _OBJECT.size + length + -length % 8
        start = content.find(_HEAP, start + 8)


def tensor(group: Any, name: str) -> Tensor:
    """The array ``name`` of a file or group, in its own floating-point type."""
    found = entry(group, name)
    if found.dtype.kind not in "fiub" or found.dtype.itemsize > 8:
        raise InvalidData(f"{place(found)}: expected numbers, found {found.dtype}")
    if found.nbytes > max(_SMALL, _MOST_PER_BYTE * found.id.get_storage_size()):
        raise InvalidData(
            f"{place(found)}: expected an array that is stored in the file, found shape {found.shape} "
            f"in {found.id.get_storage_size()} bytes"
        )
    array = np.asarray(found[()])
    kept = array.dtype.newbyteorder("=") if array.dtype.kind == "f" and array.dtype.itemsize >= 4 else np.float32
    values = torch.from_numpy(np.array(array, dtype=kept))
    if not bool(torch.isfinite(values).all()):
        raise InvalidData(f"{place(found)}: expected finite numbers")
    return values


def text(group: Any, name: str) -> str:
    """The string ``name`` of a file or group."""
    value = entry(group, name)[()]
    if not isinstance(value, bytes | str):
        raise InvalidData(f"{place(group[name])}: expected a string, found {type(value).__name__}")
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def entry(group: Any, name: str) -> Any:
    """The data set ``name`` of a file or group."""
    if name not in group or not hasattr(group[name], "nbytes"):
        raise InvalidData(f"{place(group)}: expected the array '{name}', found {', '.join(sorted(group)) or 'nothing'}")
    check_stored(Path(group.file.filename), group[name])
    return group[name]


def place(found: Any) -> str:
    """File and path of a group or data set, for error messages."""
    return f"{found.file.filename}{'' if found.name == '/' else ':' + found.name}"
