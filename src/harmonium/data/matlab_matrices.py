"""Read a matrix from a MATLAB or HDF5 file. Sizes are checked before memory is used; objects are never read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from harmonium.errors import InvalidData
from harmonium.extras import require
from harmonium.limits import check_expansion

from . import matlab5

#: picks one of several arrays by their names and shapes, or raises
Pick = Callable[[Path, Mapping[str, tuple[int, ...]]], str]


def read_mat(path: Path, pick: Pick) -> np.ndarray:
    """Read a matrix of a ``.mat`` file; version 7.3 is HDF5 with the order of the dimensions reversed."""
    with path.open("rb") as file:
        begin = file.read(10)
    if begin == b"MATLAB 7.3":
        return read_hdf5(path, pick).T
    with _damage(path, "a .mat file"):
        if 0 in begin[:4]:
            return _version4(path, pick)
        found = {matrix.name: matrix for matrix in matlab5.matrices(path)}
        return found[pick(path, {name: matrix.shape for name, matrix in found.items()})].read()


def _version4(path: Path, pick: Pick) -> np.ndarray:
    from scipy.io import loadmat, whosmat

    shapes = {name: shape for name, shape, kind in whosmat(path) if kind != "char"}
    name = pick(path, shapes)
    check_expansion(path, path.stat().st_size, 8 * math.prod(shapes[name]))
    found = loadmat(path, variable_names=[name])[name]
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found)  # a sparse matrix


def read_hdf5(path: Path, pick: Pick) -> np.ndarray:
    """Read a data set of an HDF5 file; those in groups have names such as ``session/spikes``."""
    h5py = require("h5py", "HDF5 files need")
    with _damage(path, "an HDF5 file"), h5py.File(path, "r") as file:
        check_links(path, file)
        found: dict[str, Any] = {}
        file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        entry = found[pick(path, {name: item.shape for name, item in found.items() if not name.startswith("#")})]
        if entry.dtype.kind not in "biuf":  # the library can hang on damaged strings
            raise InvalidData(f"{path}: expected real numbers in '{entry.name}', found the type {entry.dtype}")
        check_stored(path, entry)
        check_expansion(path, path.stat().st_size, entry.nbytes)
        return np.asarray(entry[()])


def check_links(path: Path, file: Any) -> None:
    """Raise :class:`InvalidData` if an open HDF5 file has links into other files, which could be any file."""
    external = require("h5py").h5l.TYPE_EXTERNAL
    name = file.id.links.visit(lambda name, link: name if link.type == external else None, info=True)
    if name is not None:
        raise InvalidData(f"{path}: expected data in the file itself, found the link {name!r} into another file")


def check_stored(path: Path, entry: Any) -> None:
    """Raise :class:`InvalidData` if the values of a data set are in other files, which could be any file."""
    if entry.is_virtual or entry.external:
        kind = "a virtual data set" if entry.is_virtual else "external storage"
        raise InvalidData(
            f"{path}: expected '{entry.name}' in the file itself, found {kind}, whose values are elsewhere"
        )


@contextmanager
def _damage(path: Path, what: str) -> Iterator[None]:
    """Report the errors of a reader, which are of many types, as a damaged file."""
    try:
        yield
    except InvalidData:
        raise
    except Exception as error:
        raise InvalidData(f"{path} is damaged or not {what}: {' '.join(str(error).split())[:200]}") from error
