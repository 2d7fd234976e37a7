"""Convolutional couplings with weights shared over the image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

    With ``pool`` > 1, the units of each map are arranged in blocks of pool × pool units, and the upper layer has the
    shape (channels, height/pool, width/pool, pool²). With :class:`harmonium.units.AtMostOne` units, this is
    probabilistic max-pooling (Lee et al. 2009).

    A stride that leaves pixels out, which no unit of the upper layer would depend on, is rejected unless
    ``skip_pixels``.

    >>> import torch
    >>> Conv2d.output_shape((1, 28, 28), channels=8, kernel=4, stride=2)
    (8, 13, 13)
    >>> Conv2d((1, 28, 28), (8, 13, 13), kernel=4, stride=2).up(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 8, 13, 13])
    >>> Conv2d.output_shape((1, 28, 28), channels=8, kernel=5, pool=2)
    (8, 12, 12, 4)
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
        pool: int = 1,
        skip_pixels: bool = False,
        weight: Tensor | None = None,
    ) -> None:
        lower, upper = as_shape(lower), as_shape(upper)
        kernel, stride, padding, pool = _whole(kernel=kernel, stride=stride, padding=padding, pool=pool)
        # older versions read files without the options that they do not know
        more = {**({"pool": pool} if pool != 1 else {}), **({"skip_pixels": True} if skip_pixels else {})}
        super().__init__(lower, upper, {"kernel": kernel, "stride": stride, "padding": padding, **more})
        expected = self.output_shape(lower, upper[0], kernel, stride, padding, pool, skip_pixels=skip_pixels)
        if tuple(upper) != expected:
            raise InvalidOption(f"conv2d: expected an upper layer of shape {expected}, found {tuple(upper)}")
        self.stride, self.padding, self.pool = stride, padding, pool
        self._lost = tuple((n + 2 * padding - kernel) % stride for n in lower[1:])  # rows of the padded image
        self.weight = self.new_parameter(weight, (upper[0], lower[0], kernel, kernel))

    @staticmethod
    def output_shape(
        lower: tuple[int, ...],
        channels: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        pool: int = 1,
        *,
        skip_pixels: bool = False,
    ) -> tuple[int, ...]:
        """The shape of the upper layer for a given lower layer and these settings."""
        lower = as_shape(lower)
        channels, kernel, stride, padding, pool = _whole(
            channels=channels, kernel=kernel, stride=stride, padding=padding, pool=pool
        )
        if len(lower) != 3 or min(*lower, channels, kernel, stride, pool) < 1 or padding < 0:
            raise InvalidOption(
                "conv2d: expected a lower layer (channels, height, width), positive channels, kernel, stride and pool, "
                f"padding ≥ 0; found {tuple(lower)}, {channels}, {kernel}, {stride}, {pool}, {padding}"
            )
        height, width = ((n + 2 * padding - kernel) // stride + 1 for n in lower[1:])
        if min(height, width) < 1:
            raise InvalidOption(f"conv2d: a kernel of size {kernel} does not fit into {tuple(lower)}")
        if not skip_pixels:
            _check_coverage(lower[1:], kernel, stride, padding)
        if pool == 1:
            return channels, height, width
        if height % pool or width % pool:
            raise InvalidOption(
                f"conv2d: pool={pool}: expected a height and width that are multiples of {pool}, found maps of "
                f"{height}×{width} for an image of {lower[1]}×{lower[2]} pixels; change kernel, stride or padding"
            )
        return channels, height // pool, width // pool, pool * pool

    @classmethod
    def build(cls, config: Mapping[str, Any]) -> Coupling:
        # files of earlier versions may have couplings that skip pixels
        settings = {key: config[key] for key in ("kernel", "stride", "padding")}
        skipped = any(_skipped(n, **settings) for n in config["lower"][1:])
        return super().build({**config, "skip_pixels": True} if skipped else config)

    @property
    def fan_in(self) -> float:
        return self.weight.shape[1:].numel()

    def kernels(self) -> Tensor | None:
        return self.weight.detach()

    def up(self, x: Tensor) -> Tensor:
        return self._blocks(functional.conv2d(x, self.weight, stride=self.stride, padding=self.padding))

    def down(self, y: Tensor) -> Tensor:
        return functional.conv_transpose2d(
            self._maps(y), self.weight, stride=self.stride, padding=self.padding, output_padding=self._lost
        )

    def correlate(
        self, x: Tensor, y: Tensor, out: Tensor | None = None, *, add: bool = False, scale: float = 1.0
    ) -> Tensor:
        y = self._maps(y).contiguous()
        value = conv2d_weight(x, self.weight.shape, y, self.stride, self.padding).mul_(scale)
        if out is None:
            return value
        return out.add_(value) if add else out.copy_(value)

    def _blocks(self, maps: Tensor) -> Tensor:
        """Arrange feature maps in blocks: (batch, channels, height, width) -> (batch, *upper)."""
        if self.pool == 1:
            return maps
        channels, height, width, _ = self.upper
        blocks = maps.view(-1, channels, height, self.pool, width, self.pool)
        return blocks.transpose(3, 4).reshape(-1, *self.upper)

    def _maps(self, blocks: Tensor) -> Tensor:
        """The inverse of :meth:`_blocks`."""
        if self.pool == 1:
            return blocks
        channels, height, width, _ = self.upper
        maps = blocks.reshape(-1, channels, height, width, self.pool, self.pool).transpose(3, 4)
        return maps.reshape(-1, channels, height * self.pool, width * self.pool)

    def to_modules(self, bias: Tensor) -> list[nn.Module]:
        if self.pool > 1:  # blocks are not the layout of nn.Conv2d
            return super().to_modules(bias)
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


def _skipped(n: int, kernel: int, stride: int, padding: int) -> int:
    """The number of pixels in a row of n that no kernel covers; n if the kernel does not fit."""
    starts = range(-padding, n + padding - kernel + 1, stride)
    return n - len({pixel for start in starts for pixel in range(start, start + kernel) if 0 <= pixel < n})


def _check_coverage(size: tuple[int, ...], kernel: int, stride: int, padding: int) -> None:
    height, width = (_skipped(n, kernel, stride, padding) for n in size)
    if not (height or width):
        return

    def fits(kernel: int, padding: int) -> bool:
        return not any(_skipped(n, kernel, stride, padding) for n in size)

    paddings = [f"padding={p}" for p in range(padding + 1, kernel) if fits(kernel, p)]
    kernels = [f"kernel={k}" for k in range(kernel + 1, min(size) + 2 * padding + 1) if fits(k, padding)]
    fixes = " or ".join([*paddings[:1], *kernels[:1]] or ["a smaller stride"])
    raise InvalidOption(
        f"conv2d: expected kernels that cover the image of {size[0]}×{size[1]} pixels, found {height} rows and {width} "
        f"columns that kernel={kernel}, stride={stride}, padding={padding} leave out; use {fixes}"
    )
