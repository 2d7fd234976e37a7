"""MATLAB files with the variable names of Hinton's and Salakhutdinov's programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..couplings import Dense
from ..data.matlab import is_hdf5, read_variables
from ..errors import InvalidData
from ..machines import RBM, BoltzmannMachine, DeepBoltzmannMachine
from ..units import Bernoulli
from . import hdf5

#: weights and biases of the layers above the visible one
_LAYERS = (("vishid", "hidbiases"), ("hidpen", "penbiases"))
_VISIBLE = "visbiases"
_LABELS = "labpen"


def read_matlab(path: str | os.PathLike[str]) -> BoltzmannMachine:
    """Read ``vishid``, ``visbiases`` and ``hidbiases`` as an RBM with binary units.

    With ``hidpen`` and ``penbiases``, as in Salakhutdinov's programs, the result is a deep Boltzmann machine. The label
    units of that program (``labpen``) are not supported.
    """
    path = Path(path)
    variables = _variables(path)
    if _LABELS in variables:
        raise InvalidData(f"{path}: expected a machine without label units, found the variable {_LABELS}")
    used = [names for names in _LAYERS if names[0] in variables] or [_LAYERS[0]]
    weights = [_matrix(path, variables, weight) for weight, _ in used]
    biases = [_matrix(path, variables, name).flatten() for name in (_VISIBLE, *(bias for _, bias in used))]
    for (name, _), weight, below, above in zip(used, weights, biases, biases[1:], strict=False):
        if tuple(weight.shape) != (len(below), len(above)):
            raise InvalidData(
                f"{path}: expected {name} of shape {(len(below), len(above))}, as its biases, "
                f"found {tuple(weight.shape)}"
            )
    layers = [Bernoulli(len(bias), bias=bias) for bias in biases]
    couplings = [Dense(len(weight), weight.shape[1], weight) for weight in weights]
    if len(couplings) == 1:
        return RBM(layers[0], layers[1], couplings[0])
    return DeepBoltzmannMachine(layers, couplings)


def _variables(path: Path) -> dict[str, Any]:
    """The variables of a MATLAB file of this library's interest, as arrays."""
    wanted = [_VISIBLE, _LABELS, *(name for names in _LAYERS for name in names)]
    if not is_hdf5(path):
        return {name: array for name, array in read_variables(path).items() if name in wanted}
    with hdf5.opened(path) as file:  # version 7.3 is HDF5, with the order of the dimensions reversed
        return {name: hdf5.tensor(file, name).numpy().T for name in wanted if name in file}


def _matrix(path: Path, variables: Mapping[str, Any], name: str) -> Tensor:
    if name not in variables:
        known = ", ".join(sorted(variables)) or "nothing"
        raise InvalidData(f"{path}: expected the variable {name}, found {known}")
    array = np.asarray(variables[name])
    if array.dtype.kind not in "fiu" or array.ndim != 2 or not np.isfinite(array).all():
        raise InvalidData(f"{path}: expected a matrix of finite numbers {name}, found {array.dtype} {array.shape}")
    kept = np.float64 if array.dtype.itemsize == 8 else np.float32
    return torch.from_numpy(np.array(array, dtype=kept))
