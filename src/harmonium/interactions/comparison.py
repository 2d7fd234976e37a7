"""Compare two sets of values of the same interactions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ..errors import InvalidData


@dataclass(frozen=True)
class InteractionComparison:
    """Agreement of ``number`` values x with reference values y.

    ``pearson`` is the correlation coefficient; ``slope`` is α in x ≈ α y, by least squares through the origin;
    ``relative_error`` is √(Σ (x - y)² / Σ y²). Undefined numbers, such as the correlation with a constant, are NaN.
    """

    number: int
    pearson: float
    slope: float
    relative_error: float

    @staticmethod
    def of(x: Tensor, y: Tensor) -> InteractionComparison:
        """Compare the values ``x`` with the reference ``y``, two tensors of the same shape.

        >>> import torch
        >>> InteractionComparison.of(torch.tensor([2.0, 4.0]), torch.tensor([1.0, 2.0])).slope
        2.0
        """
        if x.shape != y.shape:
            raise InvalidData(f"comparison: expected equal shapes, found {tuple(x.shape)} and {tuple(y.shape)}")
        x, y = x.detach().double().flatten().cpu(), y.detach().double().flatten().cpu()
        square = y.square().sum().item()
        error = math.sqrt(ratio((x - y).square().sum().item(), square))
        return InteractionComparison(len(x), _pearson(x, y), ratio((x * y).sum().item(), square), error)


def ratio(a: float, b: float) -> float:
    """Return a/b, or NaN if b is zero."""
    return a / b if b else math.nan


def rms(x: Tensor) -> float:
    """Root mean square of ``x``."""
    return x.detach().double().square().mean().sqrt().item()


def _pearson(x: Tensor, y: Tensor) -> float:
    if len(x) < 2:
        return math.nan
    x, y = x - x.mean(), y - y.mean()
    return ratio((x * y).sum().item(), math.sqrt((x.square().sum() * y.square().sum()).item()))
