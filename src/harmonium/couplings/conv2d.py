"""Convolutional couplings with weights shared over the image."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight
from torch.nn.utils import skip_init

from ..checks import as_shape, whole
from ..errors import InvalidOption
from .base import Coupling, Shift


class Conv2d(Coupling):
    """Strided convolution between layers of shape (channels, height, width).

    ``weight`` is (upper channels, lower channels, kernel, kernel).

    ``up`` is the cross-correlation of ``torch.nn.functional.conv2d`` and ``down`` its exact transpose.

    >>> import torch
    >>> Conv2d.output_shape((1, 28, 28), channels=8, kernel=4, stride=2)
    (8, 13, 13)
    >>> Conv2d((1, 28, 28), (8, 13, 13), kernel=4, stride=2).up(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 8, 13, 13])
    """

    incoming_dims = (1, 2, 3)

    def __init__(
        self,
        lower: tuple[int, ...],
        upper: tuple[int, ...],
        *,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        weight: Tensor | None = None,
    ) -> None:
        lower, upper = as_shape(lower), as_shape(upper)
        kernel, stride, padding = _whole(kernel=kernel, stride=stride, padding=padding)
        super().__init__(lower, upper, {"kernel": kernel, "stride": stride, "padding": padding})
        if len(upper) != 3:
            raise InvalidOption(f"conv2d: expected an upper layer (channels, height, width), found {tuple(upper)}")
        expected = self.output_shape(lower, upper[0], kernel, stride, padding)
        if tuple(upper) != expected:
            raise InvalidOption(f"conv2d: expected an upper layer of shape {expected}, found {tuple(upper)}")
        self.stride, self.padding = stride, padding
        self._lost = tuple((n + 2 * padding - kernel) % stride for n in lower[1:])  # rows that the stride skips
        self.weight = self.new_parameter(weight, (upper[0], lower[0], kernel, kernel))

    @staticmethod
    def output_shape(
        lower: tuple[int, ...], channels: int, kernel: int, stride: int = 1, padding: int = 0
    ) -> tuple[int, int, int]:
        """The shape of the upper layer for a given lower layer and these settings."""
        lower = as_shape(lower)
        channels, kernel, stride, padding = _whole(channels=channels, kernel=kernel, stride=stride, padding=padding)
        if len(lower) != 3 or min(*lower, channels, kernel, stride) < 1 or padding < 0:
            raise InvalidOption(
                "conv2d: expected a lower layer (channels, height, width), positive channels, kernel and stride, "
                f"padding ≥ 0; found {tuple(lower)}, {channels}, {kernel}, {stride}, {padding}"
            )
        height, width = ((n + 2 * padding - kernel) // stride + 1 for n in lower[1:])
        if min(height, width) < 1:
            raise InvalidOption(f"conv2d: a kernel of size {kernel} does not fit into {tuple(lower)}")
        return channels, height, width

    @property
    def fan_in(self) -> float:
        return self.weight.shape[1:].numel()

    def up(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, stride=self.stride, padding=self.padding)

    def down(self, y: Tensor) -> Tensor:
        return functional.conv_transpose2d(
            y, self.weight, stride=self.stride, padding=self.padding, output_padding=self._lost
        )

    def correlate(
        self, x: Tensor, y: Tensor, out: Tensor | None = None, *, add: bool = False, scale: float = 1.0
    ) -> Tensor:
        value = conv2d_weight(x, self.weight.shape, y.contiguous(), self.stride, self.padding).mul_(scale)
        if out is None:
            return value
        return out.add_(value) if add else out.copy_(value)

    def to_modules(self, bias: Tensor) -> list[nn.Module]:
        channels = bias.flatten(1)[:, 0]
        shared = bool((bias.flatten(1) == channels[:, None]).all())  # one bias for each channel
        sizes = (self.lower[0], self.upper[0], self.weight.shape[-1], self.stride, self.padding)
        layer = skip_init(nn.Conv2d, *sizes, bias=shared, dtype=self.weight.dtype, device=self.weight.device)
        with torch.no_grad():
            layer.weight.copy_(self.weight)
            if layer.bias is not None:
                layer.bias.copy_(channels)
        return [layer] if shared else [layer, Shift(bias)]


def _whole(**settings: int) -> tuple[int, ...]:
    return tuple(whole(f"conv2d: {name}", value) for name, value in settings.items())
