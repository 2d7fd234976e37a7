"""Convolutional couplings with weights shared over the image."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight

from ..errors import InvalidOption
from .base import Coupling


class Conv2d(Coupling):
    """Strided convolution: lower (channels, height, width), ``weight`` (upper channels, lower channels, kernel, kernel).

    ``up`` is the cross-correlation of ``torch.nn.functional.conv2d`` and ``down`` its exact transpose.

    >>> Conv2d.output_shape((1, 28, 28), channels=8, kernel=4, stride=2)
    (8, 13, 13)
    >>> Conv2d((1, 28, 28), (8, 13, 13), kernel=4, stride=2).up(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 8, 13, 13])
    """

    incoming_dims = (1, 2, 3)

    def __init__(
        self,
        lower: tuple[int, int, int],
        upper: tuple[int, int, int],
        *,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        weight: Tensor | None = None,
    ) -> None:
        super().__init__(lower, upper, {"kernel": kernel, "stride": stride, "padding": padding})
        expected = self.output_shape(lower, upper[0], kernel, stride, padding)
        if tuple(upper) != expected:
            raise InvalidOption(f"conv2d: expected an upper layer of shape {expected}, found {tuple(upper)}")
        self.stride, self.padding = stride, padding
        self._lost = tuple((n + 2 * padding - kernel) % stride for n in lower[1:])  # rows that the stride skips
        shape = (upper[0], lower[0], kernel, kernel)
        weight = torch.zeros(shape) if weight is None else torch.as_tensor(weight).detach().clone()
        if weight.shape != shape:
            raise InvalidOption(f"weight: expected shape {shape}, found {tuple(weight.shape)}")
        self.weight = nn.Parameter(weight)

    @staticmethod
    def output_shape(
        lower: tuple[int, int, int], channels: int, kernel: int, stride: int = 1, padding: int = 0
    ) -> tuple[int, int, int]:
        """The upper layer's shape that fits a lower layer and these settings."""
        height, width = ((n + 2 * padding - kernel) // stride + 1 for n in lower[1:])
        if min(height, width) < 1:
            raise InvalidOption(f"conv2d: a kernel of {kernel} does not fit into {tuple(lower)}")
        return channels, height, width

    def up(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, stride=self.stride, padding=self.padding)

    def down(self, y: Tensor) -> Tensor:
        return functional.conv_transpose2d(
            y, self.weight, stride=self.stride, padding=self.padding, output_padding=self._lost
        )

    def correlate(self, x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
        value = conv2d_weight(x, self.weight.shape, y.contiguous(), self.stride, self.padding)
        return value if out is None else out.copy_(value)
