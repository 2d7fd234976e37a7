"""Arrays and strings of HDF5 files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.matlab import check_links, check_stored
from ..errors import InvalidData
from ..extras import require


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open an HDF5 file for reading; damaged and other files raise :class:`InvalidData`."""
    h5py = require("h5py", "HDF5 files need")
    if not path.is_file():
        raise InvalidData(f"{path}: no such file; expected an HDF5 file")
    try:
        with h5py.File(path, "r") as file:
            check_links(path, file)
            yield file
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        if isinstance(error, InvalidData):
            raise
        raise InvalidData(f"{path}: expected an HDF5 file, found a damaged or another file ({error})") from None


def tensor(group: Any, name: str) -> Tensor:
    """The array ``name`` of a file or group, in its own floating-point type."""
    found = entry(group, name)
    if found.dtype.kind not in "fiub" or found.dtype.itemsize > 8:
        raise InvalidData(f"{place(found)}: expected numbers, found {found.dtype}")
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
