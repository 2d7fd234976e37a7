"""Quadrature on the window in which the exponent is close to its maximum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Generator, Tensor

from ... import noise

_CELLS, _CELL_NODES, _NEWTON_STEPS = 10, 5, 4  # of the sampler; the CDF is then accurate to about 1e-8
_CHUNK = 4096  # number of elements processed at once


@dataclass(frozen=True)
class Window:
    """x = origin + s with s ∈ [left, right], where the weight is e^{height + slope·s - p s²/2} ≤ e^{height}."""

    origin: Tensor
    height: Tensor
    slope: Tensor
    p: Tensor
    left: Tensor
    right: Tensor

    def sums(self, orders: tuple[int, ...], offset: Tensor | float = 0.0) -> list[Tensor]:
        """∫ ds e^{slope·s - p s²/2} (s + offset)^k for each k of ``orders`` (increasing)."""
        offset = torch.as_tensor(offset, dtype=self.slope.dtype, device=self.slope.device).expand_as(self.slope)
        parts = [window._sums(orders, shift) for window, shift in self._chunks(offset)]
        return [torch.cat(totals) for totals in zip(*parts, strict=True)]

    def _sums(self, orders: tuple[int, ...], offset: Tensor) -> list[Tensor]:
        nodes, weights = _legendre(40 if self.slope.dtype == torch.float64 else 20, self.slope.dtype, self.slope.device)
        half = (self.right - self.left) / 2
        s = torch.addcmul((self.right + self.left) / 2, half, nodes)  # (nodes, n)
        term = torch.addcmul(self.slope, self.p / -2, s).mul_(s).exp_().mul_(weights)
        s += offset
        totals, done = [], 0
        for order in orders:
            for _ in range(done, order):
                term *= s
            done = order
            totals.append(term.sum(0).mul_(half))
        return totals

    def draw(self, generator: Generator | None) -> Tensor:
        """Draw x by inverting the CDF: a table of ten cells, then Newton's method within the cell."""
        uniform = noise.uniform(self.slope, generator)
        return torch.cat([window._invert(share) for window, share in self._chunks(uniform)])

    def _invert(self, share: Tensor) -> Tensor:
        """The x at which the CDF equals ``share``."""
        width = (self.right - self.left) / _CELLS
        cells = torch.arange(_CELLS, dtype=width.dtype, device=width.device).unsqueeze(1)
        cumulative = self._mass(torch.addcmul(self.left, width, cells), width).cumsum(0)
        target = share * cumulative[-1]
        cell = (target > cumulative[:-1]).sum(0)  # the last cell takes the remainder
        start = torch.addcmul(self.left, width, cell.to(width.dtype))
        before = torch.where(cell > 0, cumulative.gather(0, (cell - 1).clamp_min(0).unsqueeze(0))[0], 0.0)
        rest = target - before
        density, slope = self._density(start), self.slope - self.p * start
        flat = slope.abs() * width < 1e-3
        growth = torch.log1p((slope * rest / density).clamp_min(-1 + 1e-6)) / torch.where(flat, 1.0, slope)
        step = torch.where(flat, rest / density, growth)
        for _ in range(_NEWTON_STEPS):
            step = torch.minimum(step.clamp_min(0.0), width)
            step = step + (rest - self._mass(start, step)) / self._density(start + step)
        step = torch.minimum(step.clamp_min(0.0), width)
        return self.origin + torch.minimum(start + step, self.right)

    def _density(self, s: Tensor) -> Tensor:
        return (s * (self.slope - self.p * s / 2)).exp()

    def _mass(self, start: Tensor, width: Tensor) -> Tensor:
        """The integral of the density over [start, start + width]: the shape of ``start``, (n,) or (cells, n)."""
        nodes, weights = _legendre(_CELL_NODES, width.dtype, width.device)
        middle, half = start + width / 2, width / 2
        nodes, weights = (x.view(-1, *(1 for _ in start.shape)) for x in (nodes, weights))
        return self._density(middle + half * nodes).mul_(weights).sum(0).mul_(half)

    def _chunks(self, beside: Tensor) -> Iterator[tuple[Window, Tensor]]:
        """Chunks small enough for the CPU cache, each with the corresponding part of ``beside``."""
        if len(self.slope) <= _CHUNK:
            yield self, beside
            return
        own = (self.origin, self.height, self.slope, self.p, self.left, self.right)
        for *parts, other in zip(*(x.split(_CHUNK) for x in (*own, beside)), strict=True):
            yield Window(*parts), other


@cache
def _legendre(n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes and weights on [-1, 1]: (n, 1) each."""
    nodes, weights = (torch.from_numpy(x).to(dtype=dtype, device=device) for x in np.polynomial.legendre.leggauss(n))
    return nodes.unsqueeze(1), weights.unsqueeze(1)


def reach_of(slope: Tensor, p: Tensor, depth: float) -> Tensor:
    """The distance from a maximum at which the exponent has decreased by ``depth``; infinite if it never does."""
    fall = slope.square().add_(p, alpha=2 * depth)
    never = fall < 0
    return (2 * depth / (slope.abs() + fall.clamp_min_(0.0).sqrt_())).masked_fill_(never, math.inf)


def height(x: Tensor, h: Tensor, p: Tensor) -> Tensor:
    """The exponent hx - px²/2."""
    return x * (h - p * x / 2)
