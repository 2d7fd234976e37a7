"""Functions of a unit as torch modules."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from .base import Unit


class Activation(nn.Module):
    """The mean of the units in a field that includes their bias; other natural parameters keep their values."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self.unit = copy.deepcopy(unit)
        self.unit.shift_bias(-unit.bias.detach())
        for bias in self.unit.biases():
            bias.requires_grad_(False)

    def forward(self, field: Tensor) -> Tensor:
        """The mean: (batch, *shape) -> (batch, *shape)."""
        return self.unit.mean(field)


class Pool(nn.Module):
    """The pooled state of a layer, which the machine above has as its data."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self.unit = copy.deepcopy(unit).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Pool: (batch, *shape) -> (batch, *pooled_shape)."""
        return self.unit.pool(x)
