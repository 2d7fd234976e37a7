"""ln Z of a sum of binary units with offsets, Σ_n ln(1 + e^{B - o_n}): term by term, or by tabulated Taylor series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

#: f(B, order): a derivative of ln Z with respect to B
Derivatives = Callable[[Tensor, int], Tensor]

_FEW = 8  # offsets whose terms are computed one by one
_MARGIN = 40.0  # beyond the table, all terms but the leading one are below e^-40
_CELLS = 16  # cells per unit of the field
_ORDERS = 8  # largest order of a derivative, plus one
_TERMS = {4: 5, 8: 9}  # terms of the series by the size of a number in bytes: the error is below the rounding error
_LARGEST = 2**24  # largest number of softplus functions that are tabulated


def softplus_sum(offsets: Sequence[float]) -> Derivatives:
    """Σ_n ln(1 + e^{B - o_n}) and its derivatives: a function of B and of the order, differentiable in B.

    >>> softplus_sum([-1.0, 0.0, 1.0])(torch.zeros(2), 1)
    tensor([1.5000, 1.5000])
    """
    table = SoftplusSum.of(tuple(offsets)) if len(offsets) > _FEW else None
    return TermByTerm(tuple(offsets)) if table is None else table


@dataclass(frozen=True)
class TermByTerm:
    """The plain sum, up to the second derivative."""

    offsets: tuple[float, ...]

    def __call__(self, B: Tensor, order: int) -> Tensor:
        x = B.unsqueeze(-1) - torch.tensor(self.offsets, dtype=torch.float64).to(B)
        if order == 0:
            return softplus(x, threshold=50.0).sum(-1)
        return (torch.sigmoid(x) if order == 1 else torch.sigmoid(x) * torch.sigmoid(-x)).sum(-1)


@dataclass(frozen=True)
class SoftplusSum:
    """The function Σ_n ln(1 + e^{B - o_n}) and its derivatives, each with full relative precision.

    The function is analytic within a distance π of the real axis, so that a series about the center of a cell, whose
    half width is 1/32, converges by a factor of 100 with each term.

    >>> table = SoftplusSum.of((-1.0, 0.0, 1.0))
    >>> table(torch.zeros(2), 1)
    tensor([1.5000, 1.5000])
    """

    n: int
    low: float
    high: float
    #: coefficients of each power of the distance from the center of a cell: (powers, cells), in float64
    coefficients: Tensor
    _columns: dict[Any, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    @lru_cache(maxsize=32)
    def of(offsets: tuple[float, ...]) -> SoftplusSum | None:
        """The table; None if it would be too large."""
        low, high = math.floor(min(offsets) - _MARGIN), math.ceil(max(offsets) + _MARGIN)
        cells = (high - low) * _CELLS
        if cells * len(offsets) > _LARGEST:
            return None
        centers = low + (torch.arange(cells, dtype=torch.float64) + 0.5) / _CELLS
        x = centers[:, None] - torch.tensor(offsets, dtype=torch.float64)
        s = torch.sigmoid(x)
        # dσ/dx = σ(1-σ), so every higher derivative is σ(1-σ) times a polynomial of σ; sum the powers first
        power, sums = s * torch.sigmoid(-x), []
        polynomial, rows = torch.zeros(_ORDERS + max(_TERMS.values()) - 2, dtype=torch.float64), []
        polynomial[0] = 1.0
        index = torch.arange(len(polynomial), dtype=torch.float64)
        for order in range(2, 2 + len(polynomial)):
            sums.append(power.sum(1))
            power = power * s
            rows.append(polynomial / math.factorial(order))
            # d/dx [σ(1-σ) σ^a] = σ(1-σ) [(a+1) σ^a - (a+2) σ^{a+1}]
            raised = torch.roll((index + 2) * polynomial, 1)
            raised[0] = 0.0
            polynomial = (index + 1) * polynomial - raised
        first = [softplus(x, threshold=50.0).sum(1), s.sum(1)]
        coefficients = torch.cat([torch.stack(first), torch.stack(rows) @ torch.stack(sums)])
        return SoftplusSum(len(offsets), float(low), float(high), coefficients)

    def __call__(self, B: Tensor, order: int) -> Tensor:
        """The derivative of the given order at each field: the shape and dtype of ``B``; differentiable."""
        value: Tensor = _Derivative.apply(self, B, order)
        return value

    def __deepcopy__(self, memo: Any) -> SoftplusSum:
        return self  # never changed

    def evaluate(self, B: Tensor, order: int) -> Tensor:
        """The same without a graph."""
        inside = B.clamp(self.low, self.high)
        cell = (inside - self.low).mul_(_CELLS).floor_().clamp_max_(self.coefficients.shape[1] - 1)
        index = torch.fmax(cell, cell.new_zeros(())).long().flatten()  # NaN has any cell, and stays NaN
        distance = inside - cell.add_(0.5).div_(_CELLS).add_(self.low)  # the center of a cell has no rounding error
        value = torch.zeros_like(distance)
        for power in reversed(range(order, order + _TERMS[max(B.dtype.itemsize, 4)])):
            value.mul_(distance).add_(self._column(power, order, B).index_select(0, index).view(B.shape))
        beyond = B - inside  # there the functions are exponential or linear
        if order == 0:
            value.add_(beyond.clamp_min(0.0), alpha=self.n)
        elif order > 1:
            value.mul_(beyond.clamp_min(0.0).neg_().exp_())
        return value.mul_(beyond.clamp_max_(0.0).exp_())

    def _column(self, power: int, order: int, like: Tensor) -> Tensor:
        """The coefficients of one power in the series of a derivative, with the dtype and device of ``like``."""
        key = power, order, like.dtype, like.device
        if key not in self._columns:
            self._columns[key] = (math.perm(power, order) * self.coefficients[power]).to(like)
        return self._columns[key]


class _Derivative(torch.autograd.Function):
    """The derivative of order m, whose derivative is that of order m + 1."""

    @staticmethod
    def forward(ctx: Any, table: SoftplusSum, B: Tensor, order: int) -> Tensor:
        ctx.table, ctx.order = table, order
        ctx.save_for_backward(B)
        return table.evaluate(B, order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        (B,) = ctx.saved_tensors
        return None, gradients[0] * ctx.table(B, ctx.order + 1), None
