"""All-to-all couplings."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from .. import kernels
from ..checks import as_shape
from .base import Coupling


class Dense(Coupling):
    """Couplings between all lower and all upper units: ``weight`` is (lower size, upper size).

    >>> coupling = Dense((3,), (2,), weight=torch.ones(3, 2))
    >>> coupling.up(torch.ones(1, 3)).tolist()
    [[3.0, 3.0]]
    """

    outer_product = True

    def __init__(
        self, lower: int | tuple[int, ...], upper: int | tuple[int, ...], weight: Tensor | None = None
    ) -> None:
        super().__init__(as_shape(lower), as_shape(upper))
        self.weight = self.new_parameter(weight, (self.lower.numel(), self.upper.numel()))

    def up(self, x: Tensor) -> Tensor:
        return _field(kernels.up, x.flatten(1), self.weight, self.weight).reshape(-1, *self.upper)

    def down(self, y: Tensor) -> Tensor:
        return _field(kernels.down, y.flatten(1), self.weight, self.weight.T).reshape(-1, *self.lower)

    def correlate(
        self, x: Tensor, y: Tensor, out: Tensor | None = None, *, add: bool = False, scale: float = 1.0
    ) -> Tensor:
        x, y = x.flatten(1), y.flatten(1)
        if add and out is not None:
            if _rounded(x):
                return out.add_(x.T @ y, alpha=scale)
            return out if kernels.correlate(x, y, out, scale) else out.addmm_(x.T, y, alpha=scale)
        product = (x.T @ y).to(x.dtype) if out is None else _product(x.T, y, out)
        return product if scale == 1.0 else product.mul_(scale)

    def matrix(self) -> Tensor:
        return self.weight

    def lower_factors(self, scale: Tensor) -> Tensor:
        return scale.flatten()[:, None]

    def to_modules(self, bias: Tensor) -> list[nn.Module]:
        # without torch's random initial weights, which would change the state of its default generator
        linear = skip_init(nn.Linear, *self.weight.shape, dtype=self.weight.dtype, device=self.weight.device)
        with torch.no_grad():
            linear.weight.copy_(self.weight.T)
            linear.bias.copy_(bias.flatten())
        below = [nn.Flatten()] if len(self.lower) > 1 else []
        above = [nn.Unflatten(1, self.upper)] if len(self.upper) > 1 else []
        return [*below, linear, *above]

    def up_(self, x: Tensor, out: Tensor) -> Tensor:
        states, found, weight = _matrix(x), _matrix(out), self.weight.detach()
        if _rounded(x) or not kernels.up(states, weight, found):
            _product(states, weight, found)
        return out

    def down_(self, y: Tensor, out: Tensor) -> Tensor:
        states, found, weight = _matrix(y), _matrix(out), self.weight.detach()
        if _rounded(y) or not kernels.down(states, weight, found):
            _product(states, weight.T, found)
        return out


def _field(kernel: Callable[[Tensor, Tensor, Tensor], bool], x: Tensor, weight: Tensor, matrix: Tensor) -> Tensor:
    """x times ``matrix``, which is ``weight`` or its transpose; by the kernel if no gradient is needed."""
    tracked = torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    if not tracked and not _rounded(x) and not torch.compiler.is_compiling():
        out = x.new_empty(len(x), matrix.shape[1])
        if kernel(x, weight, out):
            return out
    return x @ matrix


def _matrix(x: Tensor) -> Tensor:
    """States (n, *shape) as a view (n, size)."""
    return x if x.ndim == 2 else x.view(len(x), -1)


def _rounded(x: Tensor) -> bool:
    """Whether ``torch.autocast`` is active; it does not support in-place products."""
    return torch.is_autocast_enabled(x.device.type)


def _product(x: Tensor, y: Tensor, out: Tensor) -> Tensor:
    """Write x·y into ``out``. Parameters must be detached, otherwise autocast would reuse outdated copies of them."""
    return out.copy_(x @ y) if _rounded(x) else torch.mm(x, y, out=out)
