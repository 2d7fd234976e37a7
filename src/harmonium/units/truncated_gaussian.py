"""Gaussian units on a bounded interval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Unpack

import torch
from torch import Generator, Tensor

from ..errors import InvalidOption
from .base import Unit, Value
from .layer import LayerOptions
from .quadratic import Quadratic
from .special import Segment, expectation, smoothed, solve_moments
from .support import Interval, Support, real


class SegmentOptions(LayerOptions, total=False):
    """Keyword arguments of units on an interval."""

    low: float
    high: float
    precision: Value


class OnSegment(Unit, named=False):
    """Base of the units with a Gaussian weight e^{bx - Vx²/2}, for any real V, on [low, high]."""

    naturals: ClassVar[tuple[str, ...]] = ("bias", "precision")

    def __init__(
        self,
        shape: int | Iterable[int],
        *,
        low: float = 0.0,
        high: float = 1.0,
        precision: Value = 1.0,
        **common: Unpack[LayerOptions],
    ) -> None:
        self.segment = segment(low, high)
        options = {"low": self.segment.low, "high": self.segment.high}
        super().__init__(shape, **common, options=options)
        self.support = self._support(self.segment.low, self.segment.high)
        self.precision = self.new_parameter("precision", precision)

    def _support(self, low: float, high: float) -> Support:
        return Interval(f"numbers from {low:g} to {high:g}", low=low, high=high)

    def _natural(self, B: Tensor, A: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.bias + B, self.precision if A is None else self.precision + A


class TruncatedGaussian(Quadratic, OnSegment):
    """Truncated Gaussian units x ∈ [low, high] with -U(x) = b x - V x²/2 for any real V.

    Tramel et al. (2018), eqs. (C3)-(C18), computed by quadrature, because the closed forms lose all precision if V + A
    is small or the field is large.

    >>> unit = TruncatedGaussian(1, low=0.0, high=1.0, precision=-3.0)
    >>> unit.mean(torch.tensor([-1.5]))  # symmetric about the middle
    tensor([0.5000], grad_fn=<_MomentBackward>)
    """

    support: Support = real

    def log_weight(self, x: Tensor) -> Tensor:
        return self.bias * x - self.precision * x.square() / 2

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return expectation(self.segment, 0, *self._natural(B, A))

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return expectation(self.segment, 1, *self._natural(B, A))

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return expectation(self.segment, 2, *self._natural(B, A))

    def mean_and_variance_(self, B: Tensor, A: Tensor | None, mean: Tensor, variance: Tensor) -> None:
        _, one, two = self.segment.moments(*torch.broadcast_tensors(*self._natural(B, A)))
        mean.copy_(one)
        variance.copy_(two)

    def mode(self, B: Tensor) -> Tensor:
        return self.segment.peak(*self._natural(B, None)).detach()

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        h, p = torch.broadcast_tensors(*self._natural(B, A))
        return self.segment.draw(h.detach(), p.detach(), generator)

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Match the mean of the data and, if the precision is learned, its variance.

        ``pseudocount`` (default 1) observations of the uniform distribution are added. A variance too large for the
        unit, close to that of values only at the two ends, is replaced by the nearest possible one.
        """
        extra = 1.0 if pseudocount is None else pseudocount
        mean, variance = uniform_smoothed(self.observations(data), self.segment, extra)
        h, p = solve_moments(
            lambda h, p: (self.segment.moment(1, h, p), self.segment.moment(2, h, p)),
            mean,
            self.precision.detach().to(torch.float64),
            variance if "precision" in self.learn else None,
        )
        self.bias.data.copy_(h)
        self.precision.data.copy_(p)


def segment(low: float, high: float) -> Segment:
    """The interval [low, high], after checking it.

    >>> segment(0, 1)
    Segment(low=0.0, high=1.0)
    """
    low, high = float(low), float(high)
    if not -float("inf") < low < high < float("inf"):
        raise InvalidOption(f"low, high: expected finite numbers with low < high, found {low:g}, {high:g}")
    return Segment(low, high)


def uniform_smoothed(data: Tensor, segment: Segment, pseudocount: float) -> tuple[Tensor, Tensor]:
    """The mean and variance per unit of ``data`` and ``pseudocount`` uniform draws, limited to possible values.

    >>> uniform_smoothed(torch.zeros(3, 1), Segment(0.0, 1.0), 1.0)[0]
    tensor([0.1250], dtype=torch.float64)
    """
    low, high = segment.low, segment.high
    middle, square = (low + high) / 2, (low * low + low * high + high * high) / 3
    mean, variance = smoothed(data, pseudocount, torch.tensor(middle), torch.tensor(square, dtype=torch.float64))
    margin = 1e-6 * (high - low)
    mean = mean.clamp(low + margin, high - margin)
    most = 0.98 * (mean - low) * (high - mean)
    return mean, torch.minimum(variance.clamp_min(margin**2), most)
