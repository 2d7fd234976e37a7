"""Double rectified linear units: one half of a Gaussian on either side of zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import NotNormalizable
from .base import Tail, Unit, Value
from .layer import LayerOptions
from .positive import LearnedPrecision, log_of_positive
from .special import HalfLine, expectation, solve_moments
from .support import real

_half_line = HalfLine()


class DoubleReLU(LearnedPrecision, Unit):
    """Double ReLU units x ∈ ℝ with -U(x) = b x + t |x| - γ₊ x₊²/2 - γ₋ x₋²/2: a ReLU and a mirrored ReLU.

    With t > 0 the unit is bimodal; with t < 0 it has a soft threshold on both sides.

    ``max_precision`` bounds learned precisions; by default ``initialize_from`` sets it from the data
    (:class:`~harmonium.units.positive.LearnedPrecision`).

    >>> DoubleReLU(1, tilt=2.0).mode(torch.tensor([0.5]))
    tensor([2.5000], grad_fn=<WhereBackward0>)
    """

    support = real
    naturals = ("bias", "tilt", "precision_plus", "precision_minus")

    def __init__(
        self,
        shape: int | Iterable[int],
        *,
        tilt: Value = 0.0,
        precision_plus: Value = 1.0,
        precision_minus: Value = 1.0,
        max_precision: float | None = None,
        **common: Unpack[LayerOptions],
    ) -> None:
        super().__init__(shape, **common)
        self.tilt = self.new_parameter("tilt", tilt)
        plus, minus = "precision_plus", "precision_minus"
        self.log_precision_plus = self.new_parameter(plus, log_of_positive(plus, precision_plus))
        self.log_precision_minus = self.new_parameter(minus, log_of_positive(minus, precision_minus))
        self._bound_precision(max_precision, (plus, minus))

    @property
    def precision_plus(self) -> Tensor:
        """γ₊ > 0, stored as its logarithm: (*shape)."""
        return self._positive(self.log_precision_plus)

    @property
    def precision_minus(self) -> Tensor:
        """γ₋ > 0, stored as its logarithm: (*shape)."""
        return self._positive(self.log_precision_minus)

    def tail(self) -> Tail:
        return Tail.normal(self.full(torch.minimum(self.precision_plus, self.precision_minus)))

    def log_weight(self, x: Tensor) -> Tensor:
        return sum((value * self.statistics(x)[name] for name, value in self.natural().items()), torch.zeros_like(x))

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        plus, minus = (expectation(_half_line, 0, *side) for side in self._sides(B, A))
        return torch.logaddexp(plus, minus)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        plus, minus = self._sides(B, A)
        right, left = self._probabilities(B, A)
        return right * expectation(_half_line, 1, *plus) - left * expectation(_half_line, 1, *minus)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        plus, minus = self._sides(B, A)
        right, left = self._probabilities(B, A)
        within = right * expectation(_half_line, 2, *plus) + left * expectation(_half_line, 2, *minus)
        distance = expectation(_half_line, 1, *plus) + expectation(_half_line, 1, *minus)
        return within + right * left * distance.square()

    def mode(self, B: Tensor) -> Tensor:
        (h_plus, p_plus), (h_minus, p_minus) = self._sides(B, None)
        h_plus, h_minus = h_plus.clamp_min(0.0), h_minus.clamp_min(0.0)
        return torch.where(h_plus.square() / p_plus >= h_minus.square() / p_minus, h_plus / p_plus, -h_minus / p_minus)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        right = noise.bernoulli(self._probabilities(B, A)[0].detach(), generator) > 0
        (h_plus, p_plus), (h_minus, p_minus) = self._sides(B, A)
        h, p = torch.where(right, h_plus, h_minus), torch.where(right, p_plus, p_minus)
        size = _half_line.draw(h.detach(), p.detach(), generator)
        return torch.where(right, size, -size)

    def statistics(self, x: Tensor) -> dict[str, Tensor]:
        return {
            "bias": x,
            "tilt": x.abs(),
            "precision_plus": -x.clamp_min(0.0).square() / 2,
            "precision_minus": -x.clamp_max(0.0).square() / 2,
        }

    def moments(self, B: Tensor, A: Tensor | None = None, mean: Tensor | None = None) -> dict[str, Tensor]:
        sides = self._sides(B, A)
        probabilities = self._probabilities(B, A)
        first = [expectation(_half_line, 1, *side) for side in sides]
        second = [expectation(_half_line, 2, *side) + one.square() for side, one in zip(sides, first, strict=True)]
        plus, minus = (q * one for q, one in zip(probabilities, first, strict=True))
        return {
            "bias": plus - minus if mean is None else mean,
            "tilt": plus + minus,
            "precision_plus": -probabilities[0] * second[0] / 2,
            "precision_minus": -probabilities[1] * second[1] / 2,
        }

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Match the mean of the data and, if both precisions are learned, its variance; set ``max_precision``.

        Learned precisions are equal on both sides. ``pseudocount`` (default 1) observations with the layer's typical
        variance are added.
        """
        extra = 1.0 if pseudocount is None else pseudocount
        mean, variance = self._resolved_variance(data, self.precision_plus, extra)
        both = {"precision_plus", "precision_minus"} <= set(self.learn)
        tilt = self.tilt.detach().to(torch.float64)
        plus, minus = (x.detach().to(torch.float64) for x in (self.precision_plus, self.precision_minus))

        def moments(h: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
            unit = DoubleReLU(
                h.shape, bias=h, tilt=tilt, precision_plus=p if both else plus, precision_minus=p if both else minus
            )
            with torch.no_grad():
                zero = torch.zeros_like(h)
                return unit.mean(zero), unit.variance(zero)

        h, p = solve_moments(moments, mean, plus, variance if both else None, positive=True)
        self.bias.data.copy_(h)
        if both:
            self.log_precision_plus.data.copy_(p.log())
            self.log_precision_minus.data.copy_(p.log())

    def _sides(self, B: Tensor, A: Tensor | None) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """The field and precision of |x| for x > 0 and for x < 0."""
        h, plus, minus = self.bias + B, self.precision_plus, self.precision_minus
        if A is not None:
            plus, minus = plus + A, minus + A
            least = torch.minimum(plus.min(), minus.min())
            if bool(least <= 0):
                raise NotNormalizable(f"double-relu: expected γ + A > 0, found {least.item():g}; Z diverges")
        return (self.tilt + h, plus), (self.tilt - h, minus)

    def _probabilities(self, B: Tensor, A: Tensor | None) -> tuple[Tensor, Tensor]:
        """P[x > 0] and P[x < 0], each with full relative precision.

        Computed in float64, because the log-odds of a bimodal unit are a small difference of two large numbers.
        """
        wide = None if A is None else A.to(torch.float64)
        plus, minus = (expectation(_half_line, 0, *side) for side in self._sides(B.to(torch.float64), wide))
        odds = (plus - minus).to(B.dtype)
        return torch.sigmoid(odds), torch.sigmoid(-odds)
