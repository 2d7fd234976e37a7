"""Every unit of the package, for tests that apply to all of them; add an entry for each new unit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harmonium import units
from harmonium.units import Unit

F64 = torch.float64


def t(*values: float) -> Tensor:
    return torch.tensor(values, dtype=F64)


#: layers whose parameters are exact in float32; each scalar layer has two units
EVERY: dict[str, Callable[[], Unit]] = {
    "bernoulli": lambda: units.Bernoulli(2, bias=t(0.25, -0.5)),
    "spin": lambda: units.Spin(2, bias=t(0.25, -0.5)),
    "gaussian": lambda: units.Gaussian(2, bias=t(0.25, -0.5), precision=t(1.0, 4.0)),
    "relu": lambda: units.ReLU(2, bias=t(0.25, -0.5), precision=t(1.0, 4.0)),
    "double-relu": lambda: units.DoubleReLU(
        2, bias=t(0.25, -0.5), tilt=t(1.0, -0.5), precision_plus=t(1.0, 4.0), precision_minus=t(4.0, 1.0)
    ),
    "truncated-gaussian": lambda: units.TruncatedGaussian(
        2, low=-1.0, high=2.0, bias=t(0.25, -0.5), precision=t(1.0, -2.0)
    ),
    "truncated-gaussian-flat": lambda: units.TruncatedGaussian(2, bias=t(0.25, -0.5), precision=t(0.0, 0.0)),
    "truncated-gauss-bernoulli": lambda: units.TruncatedGaussBernoulli(
        2, low=-1.0, high=2.0, rho=t(0.25, 0.5), bias=t(0.25, -0.5), precision=t(1.0, -2.0)
    ),
    "poisson": lambda: units.Poisson(2, bias=t(0.25, -0.5)),
    "binomial": lambda: units.Binomial(2, trials=5, bias=t(0.25, -0.5)),
    "binomial-1000": lambda: units.Binomial(2, trials=1000, bias=t(0.25, -0.5)),
    "multinary": lambda: units.Multinary(2, levels=4, scale=0.5, bias=t(0.25, -0.5)),
    "multinary-255": lambda: units.Multinary(2, levels=255, scale=0.25, bias=t(0.25, -0.5)),
    "multinary-integral": lambda: units.Multinary(2, levels=4, scale=0.5, bias=t(0.25, -0.5), form="integral"),
    "potts": lambda: units.Potts((2, 3), bias=torch.arange(6, dtype=F64).reshape(2, 3) / 4),
    "at-most-one": lambda: units.AtMostOne((2, 3), bias=torch.arange(6, dtype=F64).reshape(2, 3) / 4 - 0.5),
    "multinomial": lambda: units.Multinomial(3, total=4, bias=t(0.25, -0.5, 0.0)),
    "mixed": lambda: units.Mixed(
        units.Bernoulli(1, bias=t(0.25)), units.ReLU(1, bias=t(-0.5)), units.Potts((1, 3), bias=t(0.25, -0.5, 0.0))
    ),
}
VECTOR = ("potts", "at-most-one", "multinomial", "mixed")
SCALAR = [name for name in EVERY if name not in VECTOR]
