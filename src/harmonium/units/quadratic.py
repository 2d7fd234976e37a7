"""Sufficient statistics of units with -U(x) = b x - γ x²/2 on any support."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from torch import Tensor

from .base import Unit, Value
from .layer import BiasOptions, LayerOptions
from .positive import LearnedPrecision, log_of_positive


class Quadratic:
    """Mixin for units with natural parameters ``bias`` and ``precision``, whose statistics are x and -x²/2.

    With an ``origin`` o, -U(x) = b x - γ x²/2 is written as (b - γ o) x - γ (x - o)²/2, up to a constant. The
    statistic of γ is then -(x - o)²/2: the derivative by γ at fixed b - γ o. Training sets o to the mean of the data
    while it computes a gradient (:class:`harmonium.training.Centered`).
    """

    #: o, of the shape of the parameters; None: 0
    origin: Tensor | None = None

    def _deviation(self, x: Tensor) -> Tensor:
        return x if self.origin is None else x - self.origin

    def statistics(self, x: Tensor) -> dict[str, Tensor]:
        """x and -x²/2."""
        return {"bias": x, "precision": -self._deviation(x).square() / 2}

    def moments(self: Any, B: Tensor, A: Tensor | None = None, mean: Tensor | None = None) -> dict[str, Tensor]:
        """⟨x⟩ and -⟨x²⟩/2 in the field B."""
        mean = self.mean(B, A) if mean is None else mean
        return {"bias": mean, "precision": -(self._deviation(mean).square() + self.variance(B, A)) / 2}


class PrecisionOptions(BiasOptions, total=False):
    """Keyword arguments of units with a precision, except ``learn``."""

    precision: Value
    max_precision: float | None


class GaussianWeight(LearnedPrecision, Quadratic, Unit, named=False):
    """Base of the units with -U(x) = b x - γ x²/2 and γ > 0 on an unbounded support.

    ``max_precision`` bounds a learned precision; by default ``initialize_from`` sets it from the data
    (:class:`~harmonium.units.positive.LearnedPrecision`).
    """

    naturals = ("bias", "precision")

    def __init__(
        self,
        shape: int | Iterable[int],
        *,
        precision: Value = 1.0,
        max_precision: float | None = None,
        **common: Unpack[LayerOptions],
    ) -> None:
        super().__init__(shape, **common)
        self.log_precision = self.new_parameter("precision", log_of_positive("precision", precision))
        self._bound_precision(max_precision, ("precision",))

    @property
    def precision(self) -> Tensor:
        """γ > 0, stored as its logarithm: (*shape)."""
        return self._positive(self.log_precision)

    def log_weight(self, x: Tensor) -> Tensor:
        return self.bias * x - self.precision * x.square() / 2
