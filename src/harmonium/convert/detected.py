"""Read and write machines in the format that a file's contents or name indicate."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..errors import InvalidData, InvalidOption
from ..files import load, save
from ..machines import Machine
from ..paths import check_file
from .dca_files import read_adabmdca
from .feedforward import write_onnx
from .hdf5 import opened
from .julia_files import HEADER, read_julia
from .matlab_files import read_matlab
from .rbms_files import read_rbms, write_rbms

Path_ = str | os.PathLike[str]


def read(path: Path_) -> Machine:
    """Read a machine from a file of this or of another library.

    The extension decides: ``.safetensors`` or a run folder, ``.mat``, ``.h5`` or ``.hdf5`` (rbms, fastrbm and
    RestrictedBoltzmannMachines.jl), and ``.dat`` or ``.txt`` (adabmDCA with protein letters, as an RBM with Gaussian
    hidden units).

    >>> import tempfile, harmonium as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.convert.write(hm.RBM(4, 2), folder + "/rbm.h5")
    ...     hm.convert.read(folder + "/rbm.h5").visible
    Bernoulli((4,))
    """
    path = Path(path)
    if path.is_dir():
        return load(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidData(f"{path}: expected a file named *{', *'.join(sorted(_READERS))}")
    check_file(path, InvalidData)
    return reader(path)


def write(machine: Machine, path: Path_) -> None:
    """Write a machine in the format of the extension: ``.safetensors``, ``.h5`` (rbms) or ``.onnx``."""
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise InvalidOption(f"{path}: expected a file named *{', *'.join(sorted(_WRITERS))}")
    _WRITERS[suffix](machine, path)


def _read_hdf5(path: Path) -> Machine:
    with opened(path) as file:
        julia = HEADER in file
    return read_julia(path) if julia else read_rbms(path)


_READERS: dict[str, Callable[[Path], Machine]] = {
    ".safetensors": load,
    ".mat": read_matlab,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
    ".dat": lambda path: read_adabmdca(path).to_rbm(),
    ".txt": lambda path: read_adabmdca(path).to_rbm(),
}
_WRITERS: dict[str, Callable[..., None]] = {
    ".safetensors": save,
    ".h5": write_rbms,
    ".hdf5": write_rbms,
    ".onnx": write_onnx,
}
