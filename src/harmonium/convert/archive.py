"""Machines as ``.npz`` archives of NumPy."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import HarmoniumError, InvalidData
from ..files import atomic, build, load_parameters
from ..machines import Machine

_CONFIG = "config"
#: what NumPy, zipfile and torch raise for damaged archives
_DAMAGE = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


def write_npz(machine: Machine, path: str | os.PathLike[str]) -> None:
    """Write the parameters of any machine as arrays of an ``.npz`` archive; ``config`` describes the machine in JSON.

    >>> import tempfile, harmonium as hm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.convert.write_npz(hm.RBM(4, 2), folder + "/rbm.npz")
    ...     sorted(np.load(folder + "/rbm.npz"))
    ['config', 'couplings.0.weight', 'layers.0.bias', 'layers.1.bias']
    """
    arrays: dict[str, Any] = {name: value.detach().cpu().numpy() for name, value in machine.state_dict().items()}
    arrays[_CONFIG] = np.array(json.dumps(machine.config()))
    with atomic(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def read_npz(path: str | os.PathLike[str]) -> Machine:
    """Read a machine written by :func:`write_npz`."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not hasattr(archive, "files") or _CONFIG not in archive.files:
                raise InvalidData(f"{path}: expected an archive with the entry '{_CONFIG}', written by write_npz")
            arrays = {name: archive[name] for name in archive.files}
        machine = build(json.loads(str(arrays.pop(_CONFIG))))
        tensors = {f"machine/{name}": torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        load_parameters(machine, path, tensors)
    except HarmoniumError:
        raise
    except _DAMAGE as error:
        raise InvalidData(f"{path}: expected an archive written by write_npz ({str(error)[:200]})") from None
    return machine
