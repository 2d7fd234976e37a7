"""Positive parameters, stored as logarithms so that every stored value is valid, and a bound on precisions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InvalidOption
from .base import Value

#: a learned variance is at least this fraction of the layer's typical variance
RESOLUTION = 1e-6
#: ... but this minimum is at most this fraction of the unit's own variance in the data
_OWN_RESOLUTION = 1e-2
#: standard deviations below this fraction of the mean are treated as rounding errors
_ROUNDING = 1e-6


def log_of_positive(name: str, value: Value) -> Value:
    """ln of a parameter that must be positive and finite.

    >>> log_of_positive("precision", 1.0)
    0.0
    """
    smallest = value.min().item() if isinstance(value, Tensor) else value
    if not smallest > 0:
        raise InvalidOption(f"{name}: expected positive values, found {smallest:g}")
    return value.log() if isinstance(value, Tensor) else math.log(value)


class _AtMost(torch.autograd.Function):
    """min(x, top). At the bound, a gradient that would increase x is set to zero, as in projected gradient descent."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, top: Tensor) -> Tensor:
        return torch.minimum(x, top)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0] >= inputs[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (outside,) = ctx.saved_tensors
        (gradient,) = gradients
        return torch.where(outside & (gradient < 0), 0.0, gradient), None


class LearnedPrecision:
    """Mixin for units that store precisions as logarithms: an upper bound on learned precisions.

    If a unit is constant in the data, the likelihood grows without bound with its precision. Therefore a *learned*
    precision is at most ``max_precision``. ``initialize_from`` sets this bound for each unit to 1/(1e-6 v), where v is
    the median variance of the layer's units in the data, so that a learned standard deviation is at least a thousandth
    of a typical one. For units with a smaller scale than the others, the bound is at least 100/(variance of the unit).
    The gradient is exact below the bound; at the bound, a gradient that would increase the precision is set to zero.
    A machine that was not initialized from data has no bound unless ``max_precision`` is given.
    """

    def _bound_precision(self: Any, max_precision: float | None, names: tuple[str, ...]) -> None:
        if max_precision is not None:
            log_of_positive("max_precision", max_precision)
            self.options["max_precision"] = max_precision
        if set(names) & set(self.learn):  # a buffer, so that a resumed run has the same bound
            top = math.inf if max_precision is None else math.log(max_precision)
            self.register_buffer("log_max_precision", torch.full_like(self.bias.data, top))

    @property
    def max_precision(self: Any) -> Tensor | None:
        """The bound on learned precisions (*shape); ``None`` if no precision is learned."""
        bound = self._buffers.get("log_max_precision")
        return None if bound is None else bound.exp()

    def _positive(self: Any, stored: Tensor) -> Tensor:
        """e^stored, at most ``max_precision`` if it is learned; values set by ``with_natural`` are not bounded."""
        bound = self._buffers.get("log_max_precision")
        if bound is None or not isinstance(stored, nn.Parameter) or not stored.requires_grad:
            return stored.exp()
        kept: Tensor = _AtMost.apply(stored, bound)
        return kept.exp()

    @torch.no_grad()
    def _resolved_variance(self: Any, data: Tensor, precision: Tensor, pseudocount: float) -> tuple[Tensor, Tensor]:
        """Compute the mean and variance of each unit in ``data`` (n, *shape), and set the bound on the precision.

        ``pseudocount`` observations are added to each unit. The square of their deviation is ⟨d⁴⟩/⟨d²⟩ of the unit's
        deviations d: three times the variance of a normal unit, but as large as that of the only row in which a unit
        differs. For constant units it is the layer's typical variance, or that of ``precision`` if all are constant.
        """
        data = self.observations(data)
        variance, mean = torch.var_mean(data.to(torch.float64), 0, correction=0)
        resolved = variance > (_ROUNDING * mean).square()
        some = variance[resolved]
        typical = some.median() if len(some) else precision.detach().to(torch.float64).reciprocal().mean()
        floor = torch.where(
            resolved, torch.minimum(RESOLUTION * typical, _OWN_RESOLUTION * variance), RESOLUTION * typical
        )
        if "max_precision" not in self.options and "log_max_precision" in self._buffers:
            self.log_max_precision.copy_(-floor.log())
        n = len(data)
        fourth = (data.to(torch.float64) - mean).square_().square_().mean(0)
        square = torch.where(resolved, fourth / variance, typical)
        return mean, torch.maximum((n * variance + pseudocount * square) / (n + pseudocount), floor)
