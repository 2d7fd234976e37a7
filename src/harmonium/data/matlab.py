"""Read matrices from MATLAB and HDF5 files. Objects are never read, and no other file is."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from harmonium.errors import InvalidData, clipped
from harmonium.extras import require

#: picks one of several arrays by their names and shapes, or raises
Pick = Callable[[Path, Mapping[str, tuple[int, ...]]], str]
_HDF5 = b"MATLAB 7.3"
#: writes the arrays of numbers of a MATLAB file to an archive of NumPy
_PROGRAM = """
import sys, numpy, scipy.io
found = {}
for name, value in scipy.io.loadmat(sys.argv[1]).items():
    if hasattr(value, "toarray"):
        value.check_format()
        value = value.toarray()
    if not name.startswith("__") and value.dtype.kind in "biufc":
        found["_" + name] = value
numpy.savez(sys.argv[2], **found)
"""


def read_mat(path: Path, pick: Pick) -> np.ndarray:
    """Read a matrix of a ``.mat`` file; version 7.3 is HDF5 with the order of the dimensions reversed."""
    if is_hdf5(path):
        return read_hdf5(path, pick).T
    found = read_variables(path)
    return found[pick(path, {name: array.shape for name, array in found.items()})]


def is_hdf5(path: Path) -> bool:
    """Return whether a ``.mat`` file is of version 7.3."""
    with path.open("rb") as file:
        return file.read(len(_HDF5)) == _HDF5


def read_variables(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of numbers of a ``.mat`` file before version 7.3; sparse matrices become dense.

    SciPy reads them in a process of its own, because a damaged file can end it.
    """
    with tempfile.TemporaryDirectory(prefix="harmonium-") as folder, damage(path, "a .mat file"):
        target = Path(folder, "arrays.npz")
        words = [sys.executable, "-P", "-c", _PROGRAM, str(path.absolute()), str(target)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError((done.stderr.strip().splitlines() or ["its reader crashed"])[-1])
        with np.load(target, allow_pickle=False) as arrays:
            return {name.removeprefix("_"): arrays[name] for name in arrays.files}


def read_hdf5(path: Path, pick: Pick) -> np.ndarray:
    """Read a data set of an HDF5 file; those in groups have names such as ``session/spikes``."""
    h5py = require("h5py", "HDF5 files need")
    with damage(path, "an HDF5 file"), h5py.File(path, "r") as file:
        check_links(path, file)
        found: dict[str, Any] = {}
        file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        entry = found[pick(path, {name: item.shape for name, item in found.items() if not name.startswith("#")})]
        if entry.dtype.kind not in "biuf":  # the library can hang on damaged strings
            raise InvalidData(f"{path}: expected real numbers in '{entry.name}', found the type {entry.dtype}")
        check_stored(path, entry)
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
def damage(path: Path, what: str) -> Iterator[None]:
    """Report the errors of a reader, which are of many types, as a damaged file."""
    try:
        yield
    except InvalidData:
        raise
    except Exception as error:
        raise InvalidData(f"{path} is damaged or not {what}: {clipped(error)}") from error
