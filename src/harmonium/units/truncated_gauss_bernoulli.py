"""Spike-and-slab units: a point mass at zero and a Gaussian on a bounded interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Unpack

import torch
from torch import Generator, Tensor
from torch.nn.functional import logsigmoid

from .. import noise
from ..errors import InvalidOption
from .base import Value
from .special import expectation, smoothed, solve_moments
from .support import Interval, Support, real
from .truncated_gaussian import OnSegment, SegmentOptions, uniform_smoothed


@dataclass(frozen=True)
class SpikeAndSlab(Interval):
    """Zero, and the numbers between ``low`` and ``high``."""

    atoms: ClassVar[tuple[float, ...]] = (0.0,)

    def contains(self, x: Tensor) -> Tensor:
        return super().contains(x) | (x == 0)


class TruncatedGaussBernoulli(OnSegment):
    """Spike-and-slab units: x = 0 with weight 1-ρ, or x ∈ [low, high] with weight ρ e^{bx - Vx²/2}.

    This is eq. (C21) of Tramel et al. (2018), not the inconsistent eq. (C20).

    Densities are with respect to δ₀ + the Lebesgue measure: x = 0 is the spike, all other values the slab. The slab is
    not normalized, so P[x ≠ 0] is ρ Z/(1 - ρ + ρ Z), where Z is the partition function of the slab. The natural
    parameter ``log_odds`` is ln ρ/(1-ρ); its statistic is 1 if x ≠ 0 and 0 otherwise.

    >>> unit = TruncatedGaussBernoulli(1, rho=0.25, precision=0.0)
    >>> unit.mean(torch.zeros(1)) # the slab is uniform on [0, 1]
    tensor([0.1250], grad_fn=<MulBackward0>)
    """

    support: Support = real
    naturals = ("bias", "precision", "log_odds")

    def __init__(self, shape: int | Iterable[int], *, rho: Value = 0.5, **segment: Unpack[SegmentOptions]) -> None:
        super().__init__(shape, **segment)
        rho = torch.as_tensor(rho)
        if not bool(((rho > 0) & (rho < 1)).all()):
            found = f"{rho.min().item():g} to {rho.max().item():g}"
            raise InvalidOption(f"rho: expected values above 0 and below 1, found {found}")
        self.log_odds = self.new_parameter("log_odds", torch.logit(rho))

    def _support(self, low: float, high: float) -> Support:
        return SpikeAndSlab(f"0 or numbers from {low:g} to {high:g}", low=low, high=high)

    @property
    def rho(self) -> Tensor:
        """ρ, stored as its log-odds: (*shape)."""
        return torch.sigmoid(self.log_odds)

    def log_weight(self, x: Tensor) -> Tensor:
        slab = logsigmoid(self.log_odds) + self.bias * x - self.precision * x.square() / 2
        return torch.where(x == 0, logsigmoid(-self.log_odds), slab)

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        slab = expectation(self.segment, 0, *self._natural(B, A))
        return torch.logaddexp(logsigmoid(-self.log_odds), logsigmoid(self.log_odds) + slab)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return torch.sigmoid(self._slab_odds(B, A)) * expectation(self.segment, 1, *self._natural(B, A))

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        odds, natural = self._slab_odds(B, A), self._natural(B, A)
        between = torch.sigmoid(-odds) * expectation(self.segment, 1, *natural).square()
        return torch.sigmoid(odds) * (expectation(self.segment, 2, *natural) + between)

    def mean_and_variance_(self, B: Tensor, A: Tensor | None, mean: Tensor, variance: Tensor) -> None:
        slab, one, two = self.segment.moments(*torch.broadcast_tensors(*self._natural(B, A)))
        odds = self.log_odds + slab
        on = torch.sigmoid(odds)
        torch.mul(on, one, out=mean)
        torch.mul(on, two.add_(torch.sigmoid(-odds).mul_(one.square_())), out=variance)

    def mode(self, B: Tensor) -> Tensor:
        """The more probable of the spike and the slab's peak, as densities with respect to δ₀ + Lebesgue."""
        h, p = self._natural(B, None)
        peak = self.segment.peak(h, p)
        return torch.where(self.log_odds + peak * (h - p * peak / 2) > 0, peak, 0.0).detach()

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        on = noise.bernoulli(torch.sigmoid(self._slab_odds(B, A)).detach(), generator)
        h, p = torch.broadcast_tensors(*self._natural(B, A))
        return on * self.segment.draw(h.detach(), p.detach(), generator)

    def statistics(self, x: Tensor) -> dict[str, Tensor]:
        return {"bias": x, "precision": -x.square() / 2, "log_odds": (x != 0).to(x.dtype)}

    def moments(self, B: Tensor, A: Tensor | None = None, mean: Tensor | None = None) -> dict[str, Tensor]:
        slab, natural = torch.sigmoid(self._slab_odds(B, A)), self._natural(B, A)
        one, spread = expectation(self.segment, 1, *natural), expectation(self.segment, 2, *natural)
        return {
            "bias": slab * one if mean is None else mean,
            "precision": -slab * (one.square() + spread) / 2,
            "log_odds": slab,
        }

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Match the mean of the data and, if the precision is learned, its variance.

        If the log-odds are learned, match the fraction of zeros, and the mean and variance of the other values.
        ``pseudocount`` (default 1) zeros are added and, if the log-odds are learned, as many uniform draws of the slab.
        """
        extra = 1.0 if pseudocount is None else pseudocount
        data = self.observations(data).to(torch.float64)
        precision = self.precision.detach().to(torch.float64)
        odds = self.log_odds.detach().to(torch.float64)
        learned = "log_odds" in self.learn
        if learned:
            on = data != 0
            number = on.sum(0, dtype=torch.float64)
            share = ((number + extra) / (len(data) + 2 * extra)).clamp(1e-9, 1 - 1e-9)
            # replace zeros by the mean of the slab, and scale the other deviations to keep its variance
            scale = len(data) / number.clamp_min(1.0)
            middle = torch.where(number > 0, data.mean(0) * scale, (self.segment.low + self.segment.high) / 2)
            slab = middle + torch.where(on, data - middle, 0.0) * scale.sqrt()
            mean, variance = uniform_smoothed(slab, self.segment, extra)
        else:
            zero = torch.zeros((), dtype=torch.float64)
            mean, variance = smoothed(data, extra, zero, zero)
            low, high = min(self.segment.low, 0.0), max(self.segment.high, 0.0)
            mean = mean.clamp(low + 1e-6 * (high - low), high - 1e-6 * (high - low))

        def moments(h: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
            one, two = self.segment.moment(1, h, p), self.segment.moment(2, h, p)
            if learned:
                return one, two
            slab = odds + self.segment.moment(0, h, p)
            return torch.sigmoid(slab) * one, torch.sigmoid(slab) * (two + torch.sigmoid(-slab) * one.square())

        h, p = solve_moments(moments, mean, precision, variance if "precision" in self.learn else None)
        self.bias.data.copy_(h)
        self.precision.data.copy_(p)
        if learned:
            self.log_odds.data.copy_(torch.logit(share) - self.segment.moment(0, h, p))

    def _slab_odds(self, B: Tensor, A: Tensor | None) -> Tensor:
        """ln P[x ≠ 0]/P[x = 0]."""
        return self.log_odds + expectation(self.segment, 0, *self._natural(B, A))
