"""Rectified linear units: a Gaussian on the half line."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from ..errors import NotNormalizable
from .base import Tail
from .quadratic import GaussianWeight
from .special import HalfLine, expectation, smoothed, solve_moments
from .support import nonnegative

_half_line = HalfLine()


class ReLU(GaussianWeight):
    """Rectified linear units x ∈ [0, ∞) with -U(x) = b x - γ x²/2; the activation is max(0, (b + B)/γ).

    Used for nonnegative data without an upper bound, and for sparse, graded hidden units (Nair & Hinton 2010).

    ``max_precision`` bounds a learned precision (:class:`~harmonium.units.positive.LearnedPrecision`).

    >>> unit = ReLU(1, bias=-1e3)
    >>> unit.mean(torch.zeros(1)) * 1e3  # far below threshold: an exponential of rate 1000
    tensor([1.0000], grad_fn=<MulBackward0>)
    """

    support = nonnegative

    def tail(self) -> Tail:
        return Tail.normal(self.full(self.precision), one_sided=True)

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return expectation(_half_line, 0, *self._natural(B, A))

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return expectation(_half_line, 1, *self._natural(B, A))

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return expectation(_half_line, 2, *self._natural(B, A))

    def mode(self, B: Tensor) -> Tensor:
        return ((self.bias + B) / self.precision).clamp_min(0.0)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        h, p = torch.broadcast_tensors(*self._natural(B, A))
        return _half_line.draw(h.detach(), p.detach(), generator)

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Match the mean of the data and, if the precision is learned, its variance; set ``max_precision``.

        ``pseudocount`` (default 1) observations of the layer's average unit are added. A variance above the square of
        the mean is impossible (the limit γ → 0 is an exponential distribution) and is replaced by the nearest value.
        """
        self._resolved_variance(data, self.precision, 0.0)
        data = self.observations(data).to(torch.float64)
        extra = 1.0 if pseudocount is None else pseudocount
        mean, variance = smoothed(data, extra, data.mean(), data.square().mean())
        mean = mean.clamp_min(1e-6 * float(data.mean()) or 1e-6)
        variance = torch.minimum(variance.clamp_min(1e-6 * mean.square()), 0.98 * mean.square())
        h, p = solve_moments(
            lambda h, p: (_half_line.moment(1, h, p), _half_line.moment(2, h, p)),
            mean,
            self.precision.detach().to(torch.float64),
            variance if "precision" in self.learn else None,
            positive=True,
        )
        self.bias.data.copy_(h)
        self.log_precision.data.copy_(p.log())

    def _natural(self, B: Tensor, A: Tensor | None) -> tuple[Tensor, Tensor]:
        if A is None:
            return self.bias + B, self.precision
        total = self.precision + A
        if bool((total <= 0).any()):
            raise NotNormalizable(f"relu: expected γ + A > 0, found {total.min().item():g}; Z diverges")
        return self.bias + B, total
