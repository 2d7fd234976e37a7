"""Positive parameters are stored as logarithms, so that every stored value is a valid one; precisions have a bound."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InvalidOption
from .base import Value

#: a learned variance is at least this share of the layer's typical variance
RESOLUTION = 1e-6
#: ... but never above this share of the unit's own variance in the data, whatever the scales of the others
_OWN_RESOLUTION = 1e-2
#: standard deviations below this share of the mean are rounding: the data do not resolve them
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
    """min(x, top); at the bound only a gradient that leads back inside passes, as in projected gradient descent."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, top: Tensor) -> Tensor:
        ctx.save_for_backward(x >= top)
        return torch.minimum(x, top)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (outside,) = ctx.saved_tensors
        (gradient,) = gradients
        return torch.where(outside & (gradient < 0), 0.0, gradient), None


class LearnedPrecision:
    """An upper bound on learned precisions, mixed into a unit that stores them as logarithms.

    A unit that is constant in the data has a likelihood that grows without bound with its precision. So a *learned*
    precision is at most ``max_precision``, which ``initialize_from`` sets for each unit to 1/(1e-6 v), where v is the
    median of the variances of the layer's units in the data: a learned standard deviation is at least a thousandth of
    a typical one. A unit with a smaller scale than the others keeps a bound of at least 100/(its own variance). The
    gradient is exact below the bound; at it only the part that leads back inside is left. A machine that was not
    initialized from data has no bound, unless ``max_precision`` is given.
    """

    def _bound_precision(self: Any, max_precision: float | None, names: tuple[str, ...]) -> None:
        if max_precision is not None:
            log_of_positive("max_precision", max_precision)
            self.options["max_precision"] = max_precision
        if set(names) & set(self.learn):  # part of the state, so that a resumed run has the same bound
            top = math.inf if max_precision is None else math.log(max_precision)
            self.register_buffer("log_max_precision", torch.full_like(self.bias.data, top))

    @property
    def max_precision(self: Any) -> Tensor | None:
        """The bound on learned precisions (*shape); ``None`` where no precision is learned."""
        bound = self._buffers.get("log_max_precision")
        return None if bound is None else bound.exp()

    def _positive(self: Any, stored: Tensor) -> Tensor:
        """e^stored, at most ``max_precision`` where it is learned; values given by ``with_natural`` are kept."""
        bound = self._buffers.get("log_max_precision")
        if bound is None or not isinstance(stored, nn.Parameter) or not stored.requires_grad:
            return stored.exp()
        kept: Tensor = _AtMost.apply(stored, bound)
        return kept.exp()

    @torch.no_grad()
    def _resolved_variance(self: Any, data: Tensor, precision: Tensor, pseudocount: float) -> tuple[Tensor, Tensor]:
        """The mean and variance of each unit in ``data`` (n, *shape), and the bound on the precision from them.

        To the variance ``pseudocount`` observations of the layer's typical variance are added, as long as they do not
        double it: without them a constant unit would have none. ``precision`` gives the scale if all are constant.
        """
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
        extra = torch.where(resolved, torch.minimum(pseudocount * typical, n * variance), pseudocount * typical)
        return mean, torch.maximum((n * variance + extra) / (n + pseudocount), floor)
