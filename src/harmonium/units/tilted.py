"""Exact draws from p(x) ∝ w(x) e^{θx} on 0, 1, …, n for any θ, from tables at a few values of θ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from .. import noise

_REJECTED = 0.03  # expected share of rejected proposals where the variance is largest
_WIDEST = 0.5  # largest spacing of the tabulated θ
_MARGIN = 18.0  # beyond the table, another value than the extreme one has a probability below e^-18 < 2^-25
_DEVIATIONS = 7.0  # half width of a table, in standard deviations
_ENTRIES = 2**21  # largest number of table entries
_CHUNK = 2**17  # draws at a time, which fit into the cache


@dataclass(frozen=True)
class Tilted:
    """Alias tables of p_i(x) ∝ w(x) e^{θ_i x} on an equidistant grid of θ, for log-concave weights w.

    For θ between two grid points, θ = (1-u) θ_i + u θ_{i+1}, convexity of the exponential function gives
    e^{θ(x-c)} ≤ (1-u) e^{θ_i (x-c)} + u e^{θ_{i+1} (x-c)}. With c such that both terms have the same sum over x, a draw
    from p_{i+1} with probability u, otherwise from p_i, is accepted with the ratio of the two sides. The draw is exact,
    and the share of rejections is at most about (θ_{i+1} - θ_i)² Var(x)/8. Probabilities below 2⁻²⁴ are not resolved.

    >>> fair = Tilted.of(torch.tensor([0.0, 0.0, 0.0]).double())
    >>> fair.draw(torch.tensor([-1e4, 1e4]))
    tensor([0., 2.])
    """

    low: float
    spacing: float
    #: the constants c of the intervals: (grid points - 1,)
    center: Tensor
    #: the smallest value in the table of each grid point: (grid points,)
    first: Tensor
    #: the probability to keep a column, and the value that replaces it otherwise: (grid points · columns,)
    keep: Tensor
    other: Tensor

    @classmethod
    def of(cls, log_weight: Tensor) -> Tilted | None:
        """Build the tables from ln w, (n + 1,) in float64; None if they would be too large."""
        steps = log_weight.diff()
        low, high = -steps[0].item() - _MARGIN, -steps[-1].item() + _MARGIN
        deviation = _largest_deviation(log_weight, low, high)
        spacing = min(math.sqrt(8 * _REJECTED) / deviation, _WIDEST)
        rows = math.ceil((high - low) / spacing) + 1
        half = math.ceil(_DEVIATIONS * (deviation + 1))
        columns = min(2 * half + 1, len(log_weight))
        if rows * columns > _ENTRIES:
            return None
        theta = low + spacing * torch.arange(rows, dtype=torch.float64, device=log_weight.device)
        mode = torch.bucketize(theta, -steps)  # the ratios of neighboring weights decrease
        first = (mode - half).clamp(0, len(log_weight) - columns)
        x = first[:, None] + torch.arange(columns, device=log_weight.device)
        exponents = log_weight[x] + theta[:, None] * x
        log_sum = torch.logsumexp(exponents, 1)
        p = (exponents - log_sum[:, None]).exp()
        for row, column in ((0, 0), (-1, -1)):  # far outside, only the extreme value
            p[row] = 0.0
            p[row, column] = 1.0
        keep, other = _alias(p)
        other = other + first[:, None]
        center = log_sum.diff() / spacing
        return cls(low, spacing, center, first.double(), keep.flatten(), other.double().flatten())

    def to(self, like: Tensor) -> Tilted:
        """The tables with the dtype and device of ``like``."""
        tables = (table.to(like) for table in (self.center, self.first, self.keep, self.other))
        return Tilted(self.low, self.spacing, *tables)

    def __deepcopy__(self, memo: Any) -> Tilted:
        return self  # never changed

    def draw(self, theta: Tensor, generator: Generator | None = None) -> Tensor:
        """A draw for each θ: the shape and dtype of ``theta``. The tables must have its dtype and device."""
        flat = theta.reshape(-1)
        x, rejected = torch.empty_like(flat), torch.empty(flat.shape, dtype=torch.bool, device=flat.device)
        for start in range(0, len(flat), _CHUNK):
            part = slice(start, start + _CHUNK)
            x[part], rejected[part] = self._propose(flat[part], generator)
        pending = rejected.nonzero().squeeze(1)
        while len(pending):
            again, rejected = self._propose(flat[pending], generator)
            x[pending] = again
            pending = pending[rejected]
        return x.view(theta.shape)

    def _propose(self, theta: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """Proposals, and a mask of those that are rejected."""
        columns = len(self.keep) // len(self.first)
        position = theta.sub(self.low).div_(self.spacing)
        position = torch.fmax(position, position.new_zeros(())).clamp_max_(len(self.first) - 1)  # NaN is the lowest
        interval = position.floor().clamp_max_(len(self.first) - 2)
        share = position - interval
        row = noise.uniform(theta, generator).lt(share).to(theta.dtype).add_(interval).long()
        place = noise.uniform(theta, generator).mul_(columns)
        column = place.floor().clamp_max_(columns - 1)  # in float32, columns times a number below one may round up
        entry = (row * columns).add_(column.long())
        own = self.first.index_select(0, row).add_(column)
        kept = place.sub_(column) < self.keep.index_select(0, entry)
        x = torch.where(kept, own, self.other.index_select(0, entry))
        tilt = (x - self.center.index_select(0, interval.long())).mul_(self.spacing)
        rest = 1 - share
        bound = torch.exp(rest * tilt).mul_(share).add_(torch.exp(tilt.mul_(share).neg_()).mul_(rest))
        return x, bound.mul_(noise.uniform(theta, generator)) >= 1.0


def _largest_deviation(log_weight: Tensor, low: float, high: float) -> float:
    """The largest standard deviation of x at any θ."""
    theta = torch.linspace(low, high, 200, dtype=torch.float64, device=log_weight.device)
    x = torch.arange(len(log_weight), dtype=torch.float64, device=log_weight.device)
    p = torch.softmax(log_weight + theta[:, None] * x, 1)
    mean = p @ x
    return float((p @ x.square() - mean.square()).max().clamp_min(0.0).sqrt())


def _alias(p: Tensor) -> tuple[Tensor, Tensor]:
    """Walker's alias tables of many distributions at once: the shape of ``p`` (rows, columns), which sums to one.

    Column j of a row keeps its own value with probability ``keep`` and otherwise takes ``other``. The columns that are
    too light are filled from the first heavy column, until it is light itself and filled from the next heavy one.
    """
    rows, columns = p.shape
    mass = p * columns
    order = (mass >= 1).to(torch.int8).sort(dim=1, stable=True).indices  # light columns first
    mass = mass.gather(1, order)
    keep, other = torch.ones_like(mass), torch.arange(columns, device=p.device).repeat(rows, 1)
    heavy = (mass < 1).sum(1, keepdim=True).clamp_max(columns - 1)
    lights, light = heavy.clone(), torch.zeros_like(heavy)
    left = mass.gather(1, heavy)
    for _ in range(columns):
        following = (heavy + 1).clamp_max(columns - 1)
        spent = (left < 1) & (heavy < columns - 1)
        active = spent | (light < lights)
        column = torch.where(spent, heavy, light.clamp_max(columns - 1))
        has = torch.where(spent, left, mass.gather(1, column))
        giver = torch.where(spent, following, heavy)
        here, source = order.gather(1, column), order.gather(1, giver)
        keep.scatter_(1, here, torch.where(active, has, keep.gather(1, here)))
        other.scatter_(1, here, torch.where(active, source, other.gather(1, here)))
        before = torch.where(spent, mass.gather(1, following), left)
        left = torch.where(active, before - (1 - has), left)
        heavy, light = torch.where(spent, following, heavy), torch.where(spent | ~active, light, light + 1)
    return keep, other
