"""Poisson units, with an exponential activation."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import Diverged, NotNormalizable
from .base import Tail, Unit
from .special import expectation, smoothed
from .support import counts

_LARGEST_RATE = 2.0**62  # draws are 64-bit integers
_BELOW, _ABOVE = 46, 60  # numbers of terms of a sum below and above its largest term
_SPREAD = 2.2  # the standard deviation in units of the stride: the sum's error is then below e^-40


class Poisson(Unit):
    """Counts x = 0, 1, 2, … with -U(x) = b x - ln x!; the mean and the variance are e^{b+B}.

    Used for counts without a maximum, such as numbers of spikes or photons. ln Z = e^{b+B}. Machines with hidden
    Poisson units are trained by default with contrastive divergence (``cd:5``), because persistent chains may diverge.

    A quadratic term requires A ≥ 0: with A < 0 the sum diverges for every field, even if its first terms appear to
    converge. A mean above the largest float is infinite (from b + B = 88.7 in float32), never NaN.

    >>> Poisson(1, bias=math.log(2.5)).mode(torch.zeros(1))
    tensor([2.])
    """

    support = counts

    def tail(self) -> Tail:
        return Tail.poisson(self.size)

    def log_weight(self, x: Tensor) -> Tensor:
        return self.bias * x - torch.lgamma(x + 1)

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return self._moment(0, B, A)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return self._moment(1, B, A)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return self._moment(2, B, A)

    def mode(self, B: Tensor) -> Tensor:
        """⌊λ⌋; at an integer λ both λ and λ - 1 are modes."""
        return (self.bias + B).detach().to(torch.float64).exp().floor().to(B.dtype)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        h = (self.bias + B).detach()
        if A is not None:
            h, A = torch.broadcast_tensors(h, _nonnegative(A).detach())
            return _draw(h.to(torch.float64), A.to(torch.float64), generator).to(h.dtype)
        rate = h.to(torch.float64).exp()
        if not bool((rate < _LARGEST_RATE).all()):
            raise Diverged(f"poisson: expected rates below 2^62 for sampling, found {rate.max().item():g}")
        return torch.poisson(rate, generator).to(h.dtype)

    def cumulant(self, n: int) -> Tensor:
        return self.full(self.bias.detach().exp())

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """b = ln⟨x⟩, with ``pseudocount`` (default 1) observations of the layer's average unit added."""
        data = self.observations(data)
        average = data.to(torch.float64).mean()
        mean, _ = smoothed(data, 1.0 if pseudocount is None else pseudocount, average, average)
        self.bias.data.copy_(mean.clamp_min(1e-6 * float(average) or 1e-6).log())

    def _moment(self, k: int, B: Tensor, A: Tensor | None) -> Tensor:
        h = self.bias + B
        return h.exp() if A is None else expectation(_sums, k, h, _nonnegative(A))


def _nonnegative(A: Tensor) -> Tensor:
    if bool((A < 0).any()):
        raise NotNormalizable(f"poisson: expected A ≥ 0, found {A.min().item():g}; Z diverges")
    return A


class _Sums:
    """Sums of the weights e^{hx - Ax²/2}/x!, A ≥ 0, around their largest term, in float64."""

    def moment(self, k: int, h: Tensor, p: Tensor) -> Tensor:
        if k <= 2:
            closed = h.exp()
            return torch.where(p == 0, closed, self._sum(k, h.to(torch.float64), p.to(torch.float64)).to(h.dtype))
        return self._sum(k, h.to(torch.float64), p.to(torch.float64)).to(h.dtype)

    def _sum(self, k: int, h: Tensor, p: Tensor) -> Tensor:
        top = _largest_term(h, p)
        stride = ((p + 1 / (top + 1)).rsqrt() / _SPREAD).floor().clamp_min(1.0)
        # the sums exclude the largest term: if it is x = 0, ln Z and the mean may be as small as the other terms
        steps = [j for j in range(-_BELOW, _ABOVE + 1) if j]
        terms = [_log_ratio(top, stride * j, h, p).exp() for j in steps]
        rest = sum(terms, torch.zeros_like(top))
        if k == 0:
            return top * (h - p * top / 2) - torch.lgamma(top + 1) + stride.log() + torch.log1p(rest)
        shift = sum((term * j for term, j in zip(terms, steps, strict=True)), torch.zeros_like(top)) / (1 + rest)
        if k == 1:
            return top + stride * shift
        powers = (term * (j - shift) ** k for term, j in zip(terms, steps, strict=True))
        return stride**k * (sum(powers, torch.zeros_like(top)) + (-shift) ** k) / (1 + rest)


_sums = _Sums()


def _largest_term(h: Tensor, p: Tensor) -> Tensor:
    """An integer within 1 of the largest weight, ln x + p x = h, by Newton's method on w + ln w = ln p + h."""
    level = h + p.clamp_min(1e-200).log()
    w = torch.where(level > 1, level - level.clamp_min(1.0).log(), level.clamp_max(1.0).exp())
    for _ in range(5):
        w = w * (1 + level - w.clamp_min(1e-300).log()) / (1 + w)
    rate = torch.where(level < -40, h.clamp_max(700.0).exp(), w / p.clamp_min(1e-200))
    return rate.floor()


def _log_ratio(top: Tensor, step: Tensor, h: Tensor, p: Tensor) -> Tensor:
    """ln of the weight at top + step divided by that at top; -∞ below zero. Avoids large factorials."""
    x = top + step
    near = torch.lgamma(x.clamp_min(0.0) + 1) - torch.lgamma(top + 1)
    base, point = top.clamp_min(16.0), x.clamp_min(16.0)
    r = (point - base) / base
    far = base * ((1 + r) * torch.log1p(r) - r) + torch.log1p(r) / 2 + _stirling(point) - _stirling(base)
    large = (top >= 16) & (x >= 16)
    factorial = torch.where(large, far, near)  # large values: without step · ln(top), which nearly cancels h
    slope = torch.where(large, h - base.log(), h) - p * top
    return torch.where(x < 0, -math.inf, step * (slope - p * step / 2) - factorial)


def _stirling(x: Tensor) -> Tensor:
    """ln x! minus its leading part (x + ½) ln x - x + ½ ln 2π, for x ≥ 16."""
    y = 1 / x.square()
    return (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x


def _draw(h: Tensor, p: Tensor, generator: Generator | None) -> Tensor:
    """Draw by rejection, with the envelope of Devroye (1986), X.2, for log-concave distributions with a given mode.

    The envelope needs a lower bound on the probability of the mode. For any distribution on the integers this
    probability is at least 1/√(1 + 12 variance). Here the variance is at most 1/A and at most the mean, which is within
    1 of the mode.
    """
    shape = h.shape
    h, p = h.flatten(), p.flatten()
    top = _largest_term(h, p)
    for one in (-torch.ones_like(top), torch.ones_like(top)):  # move to the largest term
        top = torch.where(_log_ratio(top, one, h, p) > 0, top + one, top)
    height = (1 + 12 * torch.minimum(1 / p, top + 2)).rsqrt()
    width = torch.full_like(height, 1.5)
    result, pending = top.clone(), torch.arange(len(top), device=h.device)
    while len(pending):
        top_, height_, width_ = top[pending], height[pending], width[pending]
        tail = noise.exponential(top_, generator)
        flat = noise.uniform(top_, generator) * (1 + width_) <= width_
        y = torch.where(flat, noise.uniform(top_, generator) * width_, width_ + tail) / height_
        sign = torch.where(noise.uniform(top_, generator) < 0.5, -1.0, 1.0).to(y)
        step = sign * y.round()
        hat = (width_ - height_ * y).clamp_max(0.0)
        ratio = _log_ratio(top_, step, h[pending], p[pending])
        accepted = hat - noise.exponential(top_, generator) <= ratio
        result[pending[accepted]] = (top_ + step)[accepted]
        pending = pending[~accepted]
    return result.reshape(shape)
