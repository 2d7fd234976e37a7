"""Distributions with density ∝ e^{hx - px²/2} on the half line x ≥ 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.special import erfcx, log_ndtr, ndtri

from ... import noise
from .segment import Segment


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
