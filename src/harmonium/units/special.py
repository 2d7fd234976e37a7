"""Distributions with density ∝ e^{hx - px²/2} on an interval or a half line: ln Z, moments, draws, derivatives.

The closed forms (error functions, Dawson's integral) suffer from cancellation if p ≈ 0 or if the weight is concentrated
at a boundary. Here every quantity is a sum of positive terms instead. The exponent is a parabola, so the *window* in
which it is within ``depth`` of its maximum is known in closed form, and Gauss-Legendre quadrature on that window gives
every moment to rounding error, for any sign of p and arbitrarily far in the tail. Error functions are used where they
are well conditioned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch
from torch import Generator, Tensor
from torch.special import erfcx, log_ndtr, ndtri

from .. import noise

_CELLS, _CELL_NODES, _NEWTON_STEPS = 10, 5, 4  # of the sampler; the CDF is then accurate to about 1e-8
_CHUNK = 4096  # number of elements processed at once
_SAMPLING_DEPTH = 24.0  # values with a weight below e^-24 of the peak are never drawn


class Family(Protocol):
    """The moments of the weights e^{hx - px²/2} with respect to some measure."""

    def moment(self, k: int, h: Tensor, p: Tensor) -> Tensor:
        """ln Z for k = 0, the mean for k = 1, the k-th central moment for k ≥ 2: the shape of h and p."""
        ...


def expectation(family: Family, k: int, h: Tensor, p: Tensor) -> Tensor:
    """``family.moment(k, h, p)``, differentiable in h and p to any order.

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


# -- windows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Window:
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

    def _chunks(self, beside: Tensor) -> Iterator[tuple[_Window, Tensor]]:
        """Chunks small enough for the CPU cache, each with the corresponding part of ``beside``."""
        if len(self.slope) <= _CHUNK:
            yield self, beside
            return
        own = (self.origin, self.height, self.slope, self.p, self.left, self.right)
        for *parts, other in zip(*(x.split(_CHUNK) for x in (*own, beside)), strict=True):
            yield _Window(*parts), other


@cache
def _legendre(n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes and weights on [-1, 1]: (n, 1) each."""
    nodes, weights = (torch.from_numpy(x).to(dtype=dtype, device=device) for x in np.polynomial.legendre.leggauss(n))
    return nodes.unsqueeze(1), weights.unsqueeze(1)


def _reach(slope: Tensor, p: Tensor, depth: float) -> Tensor:
    """The distance from a maximum at which the exponent has decreased by ``depth``; infinite if it never does."""
    fall = slope.square().add_(p, alpha=2 * depth)
    never = fall < 0
    return (2 * depth / (slope.abs() + fall.clamp_min_(0.0).sqrt_())).masked_fill_(never, math.inf)


def _height(x: Tensor, h: Tensor, p: Tensor) -> Tensor:
    return x * (h - p * x / 2)


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

    def _windows(self, h: Tensor, p: Tensor, depth: float) -> tuple[_Window, _Window | None, Tensor]:
        """The window around the maximum and, if p < 0 puts a deep minimum inside, a second window at the other end."""
        origin = self.peak(h, p)
        slope = h - p * origin
        slope.masked_fill_((origin > self.low) & (origin < self.high), 0.0)
        reach = _reach(slope, p, depth)
        left, right = torch.minimum(origin - self.low, reach), torch.minimum(self.high - origin, reach)
        first = _Window(origin, _height(origin, h, p), slope, p, -left, right)
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
        length = torch.minimum(_reach(uphill, p, depth), uphill / -p)
        zero = torch.zeros_like(length)
        left, right = torch.where(rightmost, -length, zero), torch.where(rightmost, zero, length)
        return first, _Window(end, _height(end, h, p), slope, p, left, right), where

    def _end(self, upper: Tensor, like: Tensor) -> Tensor:
        return torch.full_like(like, self.low).masked_fill_(upper, self.high)

    @staticmethod
    def _sums(
        first: _Window, second: _Window | None, where: Tensor, orders: tuple[int, ...], offset: Tensor | float = 0.0
    ) -> list[Tensor]:
        totals = first.sums(orders, offset)
        if second is not None:
            shift = second.origin - first.origin[where]
            shift = shift + (offset[where] if isinstance(offset, Tensor) else offset)
            factor = (second.height - first.height[where]).exp()
            for total, extra in zip(totals, second.sums(orders, shift), strict=True):
                total[where] += factor * extra
        return totals


@dataclass(frozen=True)
class HalfLine:
    """The weights e^{hx - px²/2} on [0, ∞), p > 0: functions of u = h/√p alone, up to scale.

    >>> HalfLine().moment(1, torch.tensor([-1e3]), torch.ones(1)) * 1e3  # an exponential of rate 1000
    tensor([1.0000])
    """

    segment = Segment(0.0, math.inf)

    def moment(self, k: int, h: Tensor, p: Tensor) -> Tensor:
        """See :class:`Family`."""
        scale = p.rsqrt()
        u = h * scale
        if k == 0:
            tail = (math.log(math.pi / 2) / 2) + erfcx(-u.clamp_max(0.0) / math.sqrt(2)).log()
            bulk = u.square() / 2 + math.log(2 * math.pi) / 2 + log_ndtr(u.clamp_min(0.0))
            return scale.log() + torch.where(u < 0, tail, bulk)
        if k > 2:
            return self.segment.moment(k, h, p)
        hazard = (u.square() / -2 - math.log(2 * math.pi) / 2 - log_ndtr(u)).exp()
        value = scale * (u + hazard) if k == 1 else (1 - hazard * (u + hazard)) / p
        return _in_tail(value, u, h, p, lambda h, p: self.segment.moment(k, h, p))

    def draw(self, h: Tensor, p: Tensor, generator: Generator | None) -> Tensor:
        """Exact draws: the shape of h and p."""
        scale = p.rsqrt()
        u = h * scale
        positive = noise.bernoulli(_share_above_zero(u), generator) > 0
        z = normal_below(u.clamp_min(-2.0), positive, (-noise.exponential(u, generator)).exp())
        value = scale * (u - z).clamp_min(0.0)
        return _in_tail(value, u, h, p, lambda h, p: self.segment.draw(h, p, generator))


def _share_above_zero(u: Tensor) -> Tensor:
    """P[z > 0 | z < u] of a standard normal z; zero for u ≤ 0."""
    above = torch.erf(u.clamp_min(0.0) / math.sqrt(2)) / 2
    return above / (above + 0.5)


def normal_below(u: Tensor, positive: Tensor, uniform: Tensor) -> Tensor:
    """Standard normal z given z < u, from its sign (``positive``, never true for u ≤ 0) and a uniform in (0, 1].

    Each sign is inverted from its own tail, where probabilities are small and precise. A single CDF would round to 1 a
    few standard deviations above zero, and larger values could not be drawn correctly.

    >>> u = torch.tensor([100.0, 100.0])
    >>> normal_below(u, torch.tensor([True, False]), torch.tensor([0.05, 0.05]))
    tensor([ 1.9600, -1.9600])
    """
    root = u / math.sqrt(2)  # erfc is precise in the tail, torch's ndtr is not
    below, above = (torch.erfc(-root) / 2).clamp_max(0.5), torch.erf(root.clamp_min(0.0)) / 2
    share = torch.where(positive, torch.addcmul(torch.erfc(root) / 2, above, uniform), below * uniform)
    z = ndtri(share.clamp_min(1e-30))  # an infinite exponential draw would give an infinite z
    return torch.where(positive, -z, z)


def _in_tail(value: Tensor, u: Tensor, h: Tensor, p: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """``value``, replaced by ``function(h, p)`` where u < -2, because error functions cancel there."""
    where = torch.nonzero(u < -2, as_tuple=True)
    value[where] = function(h[where], p[where])
    return value


# -- parameters from statistics ---------------------------------------------------------------------------------


def solve_increasing(
    function: Callable[[Tensor], tuple[Tensor, Tensor]], start: Tensor, span: float = 1e16, steps: int = 100
) -> Tensor:
    """The root within ±span of an increasing elementwise ``function`` -> (value, slope), by bracketed Newton steps.

    If a Newton step leaves the bracket or the slope is NaN, the bracket is bisected on an asinh scale, which covers
    many orders of magnitude in few steps.

    >>> solve_increasing(lambda x: (x.exp() - 2, x.exp()), torch.zeros(1, dtype=torch.float64), span=10.0).exp()
    tensor([2.], dtype=torch.float64)
    """
    low, high = torch.full_like(start, -span), torch.full_like(start, span)
    x = start
    for _ in range(steps):
        value, slope = function(x)
        low, high = torch.where(value <= 0, x, low), torch.where(value >= 0, x, high)
        newton = x - value / slope
        good = (newton >= low) & (newton <= high)  # false for NaN too
        last, x = x, torch.where(good, newton, ((low.asinh() + high.asinh()) / 2).sinh())
        if bool(((x - last).abs() <= 1e-13 * (1 + x.abs())).all()):
            break
    return x


def solve_moments(
    moments: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    mean: Tensor,
    precision: Tensor,
    variance: Tensor | None = None,
    positive: bool = False,
) -> tuple[Tensor, Tensor]:
    """Find (h, p) such that ``moments(h, p)`` -> (mean, variance) equal the given ones, in float64.

    Without ``variance``, p is ``precision``. Otherwise p is found by bisection, on a logarithmic scale if ``positive``:
    at fixed mean, the variance of an exponential family decreases with p.
    """
    value = torch.exp if positive else torch.clone
    last = precision * mean  # each search starts at the result of the previous one

    def field(p: Tensor) -> Tensor:
        def excess(h: Tensor) -> tuple[Tensor, Tensor]:
            m, v = moments(h, p)
            return m - mean, v

        nonlocal last
        last = solve_increasing(excess, last)
        return last

    if variance is not None:

        def shortfall(y: Tensor) -> tuple[Tensor, Tensor]:
            p = value(y)
            return variance - moments(field(p), p)[1], torch.full_like(y, math.nan)

        precision = value(solve_increasing(shortfall, torch.zeros_like(mean), span=30.0 if positive else 1e12))
    return field(precision), precision


def smoothed(data: Tensor, pseudocount: float, mean: Tensor, square: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and variance per unit of ``data`` (n, ...) and of ``pseudocount`` observations with the given moments.

    >>> smoothed(torch.ones(3, 1), 1.0, torch.tensor(0.0), torch.tensor(0.0))
    (tensor([0.7500], dtype=torch.float64), tensor([0.1875], dtype=torch.float64))
    """
    data = data.to(torch.float64)
    total = len(data) + pseudocount
    first = (data.sum(0) + pseudocount * mean) / total
    second = (data - first).square().sum(0) + pseudocount * (square - 2 * first * mean + first.square())
    return first, second / total
