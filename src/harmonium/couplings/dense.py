"""All-to-all couplings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import InvalidOption
from .base import Coupling, as_shape


class Dense(Coupling):
    """Every lower unit coupled to every upper unit: ``weight`` is (lower size, upper size).

    >>> coupling = Dense((3,), (2,), weight=torch.ones(3, 2))
    >>> coupling.up(torch.ones(1, 3)).tolist()
    [[3.0, 3.0]]
    """

    def __init__(
        self, lower: int | tuple[int, ...], upper: int | tuple[int, ...], weight: Tensor | None = None
    ) -> None:
        super().__init__(as_shape(lower), as_shape(upper))
        shape = (self.lower.numel(), self.upper.numel())
        weight = torch.zeros(shape) if weight is None else torch.as_tensor(weight).detach().clone()
        if weight.shape != shape:
            raise InvalidOption(f"weight: expected shape {shape}, found {tuple(weight.shape)}")
        self.weight = nn.Parameter(weight)

    def up(self, x: Tensor) -> Tensor:
        return (x.reshape(len(x), -1) @ self.weight).reshape(-1, *self.upper)

    def down(self, y: Tensor) -> Tensor:
        return (y.reshape(len(y), -1) @ self.weight.T).reshape(-1, *self.lower)

    def correlate(self, x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.mm(x.reshape(len(x), -1).T, y.reshape(len(y), -1), out=out)

    def matrix(self) -> Tensor:
        return self.weight

    def up_(self, x: Tensor, out: Tensor) -> Tensor:
        torch.mm(x.view(len(x), -1), self.weight, out=out.view(len(x), -1))
        return out

    def down_(self, y: Tensor, out: Tensor) -> Tensor:
        torch.mm(y.view(len(y), -1), self.weight.T, out=out.view(len(y), -1))
        return out
