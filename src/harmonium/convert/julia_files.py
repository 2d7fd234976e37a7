"""HDF5 files of ``RestrictedBoltzmannMachines.jl``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..couplings import Dense
from ..errors import InvalidData
from ..machines import RBM
from ..units import Bernoulli, DoubleReLU, Gaussian, Potts, ReLU, Spin, Unit
from . import hdf5

HEADER = "rbm_hdf5_file_format_version"
_FORMAT = "1.0.0"
_RECORDS = ("RBM", "StandardizedRBM")


def read_julia(path: str | os.PathLike[str]) -> RBM:
    """Read a machine saved with ``save_rbm`` of the Julia package RestrictedBoltzmannMachines.jl.

    Arrays of Julia are stored with the order of their dimensions reversed: Potts units of size (q, N) have the shape
    (N, q) here. A standardized machine, with the energy -Σ w (v - λ)/σ · (h - λ')/σ', becomes the same distribution
    with plain weights and biases. The layers ``dReLU``, ``pReLU`` and ``xReLU`` are :class:`DoubleReLU` units.
    """
    with hdf5.opened(Path(path)) as file:
        if HEADER not in file:
            raise InvalidData(f"{path}: expected a file of RestrictedBoltzmannMachines.jl, found no entry '{HEADER}'")
        version, record = hdf5.text(file, HEADER), hdf5.text(file, "rbm_type")
        if version != _FORMAT or record not in _RECORDS:
            raise InvalidData(f"{path}: expected format {_FORMAT} of RBM or StandardizedRBM, found {version}, {record}")
        visible, hidden = _layer(file, "visible"), _layer(file, "hidden")
        weight = hdf5.tensor(file, "weights")
        if tuple(weight.shape) != (*hidden.shape, *visible.shape):
            raise InvalidData(
                f"{path}: expected weights of shape {(*hidden.shape, *visible.shape)}, found {tuple(weight.shape)}"
            )
        matrix = weight.reshape(hidden.size, visible.size).T.contiguous()
        if record == "StandardizedRBM":
            parts = (hdf5.tensor(file, name) for name in ("offset_v", "offset_h", "scale_v", "scale_h"))
            matrix = _plain(visible, hidden, matrix, *(part.flatten().to(matrix.dtype) for part in parts))
        return RBM(visible, hidden, Dense(tuple(visible.shape), tuple(hidden.shape), matrix))


def _plain(
    visible: Unit, hidden: Unit, weight: Tensor, offset_v: Tensor, offset_h: Tensor, scale_v: Tensor, scale_h: Tensor
) -> Tensor:
    """Return the weights of the same machine without standardization, and add the rest to the biases."""
    weight = weight / scale_v.unsqueeze(1) / scale_h
    visible.shift_bias(-(weight @ offset_h).reshape(visible.shape))
    hidden.shift_bias(-(offset_v @ weight).reshape(hidden.shape))
    return weight


def _layer(file: Any, side: str) -> Unit:
    kind, values = hdf5.text(file, f"{side}_type"), hdf5.tensor(file, f"{side}_par").movedim(-1, 0)
    if kind not in _LAYERS:
        raise InvalidData(f"{hdf5.place(file)}: expected layers {', '.join(sorted(_LAYERS))}, found {kind}")
    number, make = _LAYERS[kind]
    if len(values) != number:
        raise InvalidData(f"{hdf5.place(file)}: expected {number} parameters of each {kind} unit, found {len(values)}")
    return make(*values)


def _double_relu(theta_plus: Tensor, theta_minus: Tensor, gamma_plus: Tensor, gamma_minus: Tensor) -> Unit:
    return DoubleReLU(
        theta_plus.shape,
        bias=(theta_plus + theta_minus) / 2,
        tilt=(theta_plus - theta_minus) / 2,
        precision_plus=gamma_plus.abs(),
        precision_minus=gamma_minus.abs(),
    )


def _prelu(theta: Tensor, gamma: Tensor, delta: Tensor, eta: Tensor) -> Unit:
    up, down = 1 + eta, 1 - eta
    return _double_relu(theta + delta / up, theta - delta / down, gamma.abs() / up, gamma.abs() / down)


#: number of parameters of a unit, and the layer made from them
_LAYERS: dict[str, tuple[int, Callable[..., Unit]]] = {
    "Binary": (1, lambda theta: Bernoulli(theta.shape, bias=theta)),
    "Spin": (1, lambda theta: Spin(theta.shape, bias=theta)),
    "Potts": (1, lambda theta: Potts(theta.shape, bias=theta)),
    "PottsGumbel": (1, lambda theta: Potts(theta.shape, bias=theta)),
    "Gaussian": (2, lambda theta, gamma: Gaussian(theta.shape, bias=theta, precision=gamma.abs())),
    "ReLU": (2, lambda theta, gamma: ReLU(theta.shape, bias=theta, precision=gamma.abs())),
    "dReLU": (4, _double_relu),
    "pReLU": (4, _prelu),
    "xReLU": (4, lambda theta, gamma, delta, xi: _prelu(theta, gamma, delta, xi / (1 + torch.abs(xi)))),
}
