"""Distributions with density ∝ e^{hx - px²/2} on a bounded interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ... import noise
from .quadrature import Window, height, reach_of

_SAMPLING_DEPTH = 24.0  # values with a weight below e^-24 of the peak are never drawn


@dataclass(frozen=True)
class Segment:
    """The weights e^{hx - px²/2} on [low, high], for any real h and p (p > 0 if ``high`` is infinite).

    >>> Segment(0.0, 1.0).moment(2, torch.zeros(1), torch.zeros(1))  # 1/12 for the uniform distribution
    tensor([0.0833])
    """

    low: float
    high: float

    def peak(self, h: Tensor, p: Tensor) -> Tensor:
        """The most probable value."""
        inside = (h / p).clamp(self.low, self.high)
        if math.isinf(self.high):
            return inside
        return torch.where(p > 0, inside, self._end(h > p * ((self.low + self.high) / 2), h))

    def moment(self, k: int, h: Tensor, p: Tensor) -> Tensor:
        """See :class:`Family`."""
        shape = h.shape
        h, p = h.flatten(), p.flatten()
        first, second, where = self._windows(h, p, 40.0 if h.dtype == torch.float64 else 20.0)
        if k == 0:
            (mass,) = self._sums(first, second, where, (0,))
            value = first.height + mass.log()
        elif k == 1:
            mass, lever = self._sums(first, second, where, (0, 1))
            value = first.origin + lever / mass
        elif k == 2:  # about the window's origin, whose distance from the mean is at most the spread: no cancellation
            mass, lever, square = self._sums(first, second, where, (0, 1, 2))
            value = square / mass - (lever / mass).square()
        else:
            mass, lever = self._sums(first, second, where, (0, 1))
            (power,) = self._sums(first, second, where, (k,), -lever / mass)
            value = power / mass
        return value.reshape(shape)

    def moments(self, h: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """ln Z, mean and variance from one pass over the nodes (not differentiable): each the shape of h and p."""
        shape = h.shape
        h, p = h.flatten(), p.flatten()
        first, second, where = self._windows(h, p, 40.0 if h.dtype == torch.float64 else 20.0)
        mass, lever, square = self._sums(first, second, where, (0, 1, 2))
        shift = lever / mass
        values = first.height + mass.log(), first.origin + shift, square / mass - shift.square()
        return values[0].reshape(shape), values[1].reshape(shape), values[2].reshape(shape)

    def draw(self, h: Tensor, p: Tensor, generator: Generator | None) -> Tensor:
        """Draws that are exact to about 1e-8 in the CDF: the shape of h and p.

        Always computed in float64. In float32, rounding of the CDF would put a fraction of 1e-7 of the draws at an end
        of the window, and large exponents at the two ends of the interval could not be compared.
        """
        shape, dtype = h.shape, h.dtype
        h, p = h.flatten().to(torch.float64), p.flatten().to(torch.float64)
        first, second, where = self._windows(h, p, _SAMPLING_DEPTH)
        x = first.draw(generator)
        if second is not None:
            (near,), (far,) = first.sums((0,)), second.sums((0,))
            far = far * (second.height - first.height[where]).exp()
            other = noise.uniform(far, generator) * (near[where] + far) < far
            x[where] = torch.where(other, second.draw(generator), x[where])
        return x.to(dtype).clamp(self.low, self.high).reshape(shape)

    def _windows(self, h: Tensor, p: Tensor, depth: float) -> tuple[Window, Window | None, Tensor]:
        """The window around the maximum and, if p < 0 puts a deep minimum inside, a second window at the other end."""
        origin = self.peak(h, p)
        slope = h - p * origin
        slope.masked_fill_((origin > self.low) & (origin < self.high), 0.0)
        reach = reach_of(slope, p, depth)
        left, right = torch.minimum(origin - self.low, reach), torch.minimum(self.high - origin, reach)
        first = Window(origin, height(origin, h, p), slope, p, -left, right)
        if math.isinf(self.high):
            return first, None, torch.empty(0, dtype=torch.int64, device=h.device)
        (where,) = torch.nonzero((p < 0) & (left + right < self.high - self.low), as_tuple=True)
        if len(where) == 0:
            return first, None, where
        h, p = h[where], p[where]
        rightmost = origin[where] < (self.low + self.high) / 2
        end = self._end(rightmost, h)
        slope = h - p * end
        uphill = torch.where(rightmost, slope, -slope).clamp_min(0.0)  # no second maximum if it is not positive
        length = torch.minimum(reach_of(uphill, p, depth), uphill / -p)
        zero = torch.zeros_like(length)
        left, right = torch.where(rightmost, -length, zero), torch.where(rightmost, zero, length)
        return first, Window(end, height(end, h, p), slope, p, left, right), where

    def _end(self, upper: Tensor, like: Tensor) -> Tensor:
        return torch.full_like(like, self.low).masked_fill_(upper, self.high)

    @staticmethod
    def _sums(
        first: Window, second: Window | None, where: Tensor, orders: tuple[int, ...], offset: Tensor | float = 0.0
    ) -> list[Tensor]:
        totals = first.sums(orders, offset)
        if second is not None:
            shift = second.origin - first.origin[where]
            shift = shift + (offset[where] if isinstance(offset, Tensor) else offset)
            factor = (second.height - first.height[where]).exp()
            for total, extra in zip(totals, second.sums(orders, shift), strict=True):
                total[where] += factor * extra
        return totals
