"""Gaussian units."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Unpack

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import NotNormalizable
from .base import Tail
from .quadratic import GaussianWeight, PrecisionOptions
from .support import real


class Gaussian(GaussianWeight):
    """Gaussian units x ∈ ℝ with -U(x) = b x - γ x²/2 and a linear activation.

    Used for real-valued data, standardized or not (docs/gaussian.md); a hidden Gaussian layer gives a machine with pair
    interactions only. ln Z = (b + B)²/2γ + ln(2π/γ)/2, the mean is (b + B)/γ and the variance 1/γ.

    Tramel et al. (2018), eqs. (C10)-(C18) without bounds.

    ``max_precision`` bounds a learned precision (:class:`~harmonium.units.positive.LearnedPrecision`). ``learn`` is by
    default the bias; a visible layer of a machine with bounded hidden units also learns its precision.

    >>> Gaussian(1, precision=4.0).variance(torch.zeros(1, 1))
    tensor([[0.2500]])
    >>> from harmonium import RBM
    >>> RBM(Gaussian(3), 2).visible.learn
    ('bias', 'precision')
    """

    support = real
    affine = True
    learn_as_visible = ("bias", "precision")

    def __init__(
        self, shape: int | Iterable[int], *, learn: Iterable[str] | None = None, **options: Unpack[PrecisionOptions]
    ) -> None:
        super().__init__(shape, **options, learn=("bias",) if learn is None else learn)
        self._learns_by_place = learn is None

    def become_visible(self) -> None:
        if self._learns_by_place and "log_precision" in self._parameters:
            self._learns_by_place, self.learn = False, self.learn_as_visible
            self.log_precision.requires_grad_()
            self._bound_precision(self.options.get("max_precision"), ("precision",))

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

    def relax(self, B: Tensor, *, temperature: float = 2 / 3, generator: Generator | None = None) -> Tensor:
        return self.mean(B) + noise.normal(B, generator) * self.precision.rsqrt()  # an exact draw

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

        ``pseudocount`` (default 1) observations with large deviations are added: units that differ in a few rows only
        get a larger variance, and constant units a positive one.
        """
        extra = 1.0 if pseudocount is None else pseudocount
        mean, variance = self._resolved_variance(data, self.precision, extra)
        if "precision" in self.learn:
            self.log_precision.data.copy_(-variance.log())
        self.bias.data.copy_(mean * self.precision)

    @torch.no_grad()
    def standardized(self, location: Tensor, scale: Tensor) -> Gaussian:
        """A copy with the parameters of z = (x - location)/scale: bias s (b - γ m), precision γ s².

        >>> unit = Gaussian(1, bias=8.0, precision=4.0).standardized(torch.tensor([2.0]), torch.tensor([0.5]))
        >>> unit.mean(torch.zeros(1)).tolist(), unit.precision.tolist()
        ([0.0], [1.0])
        """
        other = copy.deepcopy(self)
        other.bias.copy_(scale * (self.bias - self.precision * location))
        other.log_precision.add_(2 * scale.log())
        if other.max_precision is not None:
            other.get_buffer("log_max_precision").add_(2 * scale.log())
        return other

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
