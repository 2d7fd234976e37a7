"""Moments of a family of distributions, with their derivatives."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor


class Family(Protocol):
    """The moments of the weights e^{hx - px²/2} with respect to some measure."""

    def moment(self, k: int, h: Tensor, p: Tensor) -> Tensor:
        """ln Z for k = 0, the mean for k = 1, the k-th central moment for k ≥ 2: the shape of h and p."""
        ...


def expectation(family: Family, k: int, h: Tensor, p: Tensor) -> Tensor:
    """``family.moment(k, h, p)``, differentiable in h and p to any order.

    >>> from harmonium.units.special import HalfLine
    >>> h = torch.tensor([0.5], requires_grad=True)
    >>> slope, = torch.autograd.grad(expectation(HalfLine(), 0, h, torch.ones(1)), h)
    >>> bool(torch.isclose(slope, expectation(HalfLine(), 1, h, torch.ones(1))))
    True
    """
    value: Tensor = _Moment.apply(family, k, *torch.broadcast_tensors(h, p))
    return value


class _Moment(torch.autograd.Function):
    """In an exponential family the derivative of a moment is a covariance, that is, other moments."""

    @staticmethod
    def forward(ctx: Any, family: Family, k: int, h: Tensor, p: Tensor) -> Tensor:
        ctx.family, ctx.k = family, k
        ctx.save_for_backward(h, p)
        return family.moment(k, h, p)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor | None, Tensor | None]:
        k = ctx.k
        h, p = ctx.saved_tensors

        def moment(n: int) -> Tensor:
            return expectation(ctx.family, n, h, p)

        along_h = along_p = None
        if ctx.needs_input_grad[2]:  # Cov(·, x)
            slope = moment(k + 1)
            if k > 2:
                slope = slope - k * moment(2) * moment(k - 1)
            along_h = gradients[0] * slope
        if ctx.needs_input_grad[3]:  # Cov(·, -x²/2), with x² = m² + 2m(x-m) + (x-m)²
            mean, variance = moment(1), moment(2)
            if k == 0:
                slope = mean.square() + variance
            elif k == 1:
                slope = 2 * mean * variance + moment(3)
            else:
                slope = 2 * mean * moment(k + 1) + moment(k + 2) - variance * moment(k)
                if k > 2:
                    slope = slope - k * moment(k - 1) * (2 * mean * variance + moment(3))
            along_p = gradients[0] * slope / -2
        return None, None, along_h, along_p
