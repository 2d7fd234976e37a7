"""Gaussian units."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import NotNormalizable
from .base import Tail
from .quadratic import GaussianWeight
from .support import real


class Gaussian(GaussianWeight):
    """Gaussian units x ∈ ℝ with -U(x) = b x - γ x²/2 and a linear activation.

    Tramel et al. (2018), eqs. (C10)-(C18) without bounds.

    ``max_precision`` bounds a learned precision (:class:`~harmonium.units.positive.LearnedPrecision`).

    >>> Gaussian(1, precision=4.0).variance(torch.zeros(1, 1))
    tensor([[0.2500]])
    """

    support = real

    def tail(self) -> Tail:
        return Tail.normal(self.full(self.precision))

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        precision = self._precision(A)
        return ((self.bias + B).square() / precision + math.log(2 * math.pi) - precision.log()) / 2

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return (self.bias + B) / self._precision(A)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return self._precision(A).reciprocal().expand(B.shape)

    def mode(self, B: Tensor) -> Tensor:
        return self.mean(B)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        mean = self.mean(B, A).detach()
        return noise.normal(mean, generator).mul_(self._precision(A).detach().rsqrt()).add_(mean)

    def sample_(self, B: Tensor, out: Tensor, generator: Generator | None = None, mean: Tensor | None = None) -> Tensor:
        mean = self.mean(B) if mean is None else mean
        return out.normal_(generator=generator).mul_(self.precision.rsqrt()).add_(mean)

    def cumulant(self, n: int) -> Tensor:
        precision = self.precision.detach()
        if n == 1:
            return self.full(self.bias.detach() / precision)
        return self.full(precision.reciprocal() if n == 2 else torch.zeros_like(precision))

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Match the mean of the data and, if the precision is learned, its variance; set ``max_precision``.

        ``pseudocount`` (default 1) observations with the layer's typical variance are added.
        """
        extra = 1.0 if pseudocount is None else pseudocount
        mean, variance = self._resolved_variance(data, self.precision, extra)
        if "precision" in self.learn:
            self.log_precision.data.copy_(-variance.log())
        self.bias.data.copy_(mean * self.precision)

    def initialize_given(self, data: Tensor, context: Tensor, pseudocount: float | None = None) -> Tensor:
        """Match the linear regression of the data on the context, and the mean and variance of its residuals.

        ``pseudocount`` (default 1) is the number of observations of a prior with zero slopes.
        """
        slopes = _ridge(context.double(), data.flatten(1).double(), 1.0 if pseudocount is None else pseudocount)
        weights = slopes.to(data)
        self.initialize_from(data - (context @ weights).view_as(data), pseudocount)
        return weights.view(-1, *self.shape) * self.precision.detach()

    def _precision(self, A: Tensor | None) -> Tensor:
        if A is None:
            return self.precision
        total = self.precision + A
        if bool((total <= 0).any()):
            raise NotNormalizable(f"gaussian: expected γ + A > 0, found {total.min().item():g}; Z diverges")
        return total


def _ridge(x: Tensor, y: Tensor, pseudocount: float) -> Tensor:
    """The slopes of a linear regression of y (n, outputs) on x (n, inputs) with a quadratic penalty."""
    x, y = x - x.mean(0), y - y.mean(0)
    gram = x.T @ x
    penalty = (pseudocount / len(x)) * gram.diagonal()
    penalty = torch.where(penalty > 0, penalty, 1.0)  # a constant input has the slope zero
    return torch.linalg.solve(gram + penalty.diag(), x.T @ y)
