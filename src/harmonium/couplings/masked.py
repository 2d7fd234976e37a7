"""Sparse couplings, with a mask of the coupled pairs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import noise
from ..checks import whole
from ..errors import InvalidOption
from ..noise import Seed
from .base import Coupling
from .dense import Dense


class Masked(Dense):
    """Couplings only where ``mask`` (lower size, upper size) is nonzero.

    Alternatively, with ``degree``, each upper unit is coupled to that many randomly chosen lower units. ``weight`` is
    always zero outside the mask.

    >>> Masked((4,), (3,), degree=2, seed=0).mask.sum(0)
    tensor([2., 2., 2.])
    """

    outer_product = False
    mask: Tensor

    def __init__(
        self,
        lower: int | tuple[int, ...],
        upper: int | tuple[int, ...],
        weight: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        degree: int | None = None,
        seed: Seed = None,
    ) -> None:
        super().__init__(lower, upper, weight)
        shape = self.weight.shape
        if mask is None:
            mask = torch.ones(shape) if degree is None else _random_mask(shape[0], shape[1], degree, seed)
        mask = torch.as_tensor(mask)
        if mask.shape != shape:
            raise InvalidOption(f"mask: expected shape {tuple(shape)}, found {tuple(mask.shape)}")
        self.register_buffer("mask", (mask != 0).to(self.weight.dtype))
        self.project()

    @property
    def fan_in(self) -> float:
        return max(1.0, self.mask.sum().item() / self.upper.numel())

    def up(self, x: Tensor) -> Tensor:
        return (x.flatten(1) @ self.matrix()).reshape(-1, *self.upper)

    def down(self, y: Tensor) -> Tensor:
        return (y.flatten(1) @ self.matrix().T).reshape(-1, *self.lower)

    def correlate(
        self, x: Tensor, y: Tensor, out: Tensor | None = None, *, add: bool = False, scale: float = 1.0
    ) -> Tensor:
        return super().correlate(x, y, out, add=add, scale=scale).mul_(self.mask)  # ``out`` is already masked

    def to_modules(self, bias: Tensor) -> list[nn.Module]:
        return Coupling.to_modules(self, bias)  # keeps the mask

    def matrix(self) -> Tensor:
        return self.weight * self.mask

    def project(self) -> None:
        self.weight.data.mul_(self.mask)


def _random_mask(lower: int, upper: int, degree: int, seed: Seed) -> Tensor:
    degree = whole("degree", degree)
    if not 1 <= degree <= lower:
        raise InvalidOption(f"degree: expected 1 to {lower} lower units for each upper unit, found {degree}")
    scores = torch.rand(lower, upper, generator=noise.generator(seed))
    return torch.zeros(lower, upper).scatter_(0, scores.topk(degree, 0).indices, 1.0)
