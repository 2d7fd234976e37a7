"""Reliability of the interactions of each order, measured by training on two halves of the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import noise
from ..arrays import as_tensor
from ..errors import InvalidData, InvalidOption
from ..machines import RBM
from ..noise import Seed
from ..shown import brief
from ..training import fit
from .comparison import InteractionComparison, ratio, rms
from .statistics import sampled


def relative_error(weight_error: float, order: int) -> float:
    """Relative error (1 + δw/w)^s - 1 of an interaction of order s, for weights with relative error δw/w.

    >>> round(relative_error(0.1, 2), 3)
    0.21
    """
    return math.expm1(order * math.log1p(weight_error))


def largest_order(weight_error: float) -> float:
    """Order ln 2 / ln(1 + δw/w) ≈ 0.7 w/δw at which the relative error of an interaction reaches 1.

    >>> round(largest_order(0.1), 1)
    7.3
    """
    if not weight_error > 0:
        raise InvalidOption(f"weight_error: expected a positive ratio δw/w, found {weight_error}")
    return math.log(2) / math.log1p(weight_error)


@dataclass(frozen=True)
class Halves:
    """Agreement between the interactions x and y of one order, estimated from two halves of the data.

    ``error`` is the relative error of one half: rms(x - y)/√2 divided by rms((x + y)/2).
    """

    order: int
    comparison: InteractionComparison
    error: float

    @property
    def reliability(self) -> float:
        """Pearson correlation between the two halves."""
        return self.comparison.pearson

    @property
    def weight_error(self) -> float:
        """Relative error δw/w of the weights that corresponds to ``error``: the inverse of :func:`relative_error`."""
        return math.expm1(math.log1p(self.error) / self.order)


@brief
@dataclass(frozen=True)
class SplitHalf:
    """Result of :func:`split_half`: the agreement for each order, and the machines trained on the two halves."""

    orders: dict[int, Halves]
    machines: tuple[RBM, RBM]

    @property
    def largest_order(self) -> float:
        """Order s ≈ 0.7 w/δw at which the error reaches 1, with δw/w estimated from the couplings (order 2)."""
        return largest_order(self.orders[2 if 2 in self.orders else max(self.orders)].weight_error)


def split_half(
    build: Callable[[], RBM],
    data: Any,
    orders: Sequence[int] = (1, 2, 3),
    *,
    n_tuples: int | None = 20_000,
    seed: Seed = None,
    method: str = "exact",
    **training: Any,
) -> SplitHalf:
    """Train two machines, each on a random half of the data, and compare their interactions.

    The interactions do not depend on the order of the hidden units, so these need not correspond between the machines.

    Args:
        build: function that returns a new, untrained machine.
        data: rows (n, *visible).
        orders: the orders to compare.
        n_tuples: number of random tuples of each order; None for all.
        seed: seed of the split, the training and the tuples.
        method: ``"exact"`` or ``"small"``; see :func:`n_body`.
        training: options of :func:`harmonium.fit`.

    >>> import harmonium as hm
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> build = lambda: hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(16))
    >>> result = split_half(build, data, epochs=20, batch_size=10)
    >>> result.orders[1].reliability > result.orders[2].reliability > result.orders[3].reliability
    True
    """
    data = as_tensor(data)
    if len(data) < 2:
        raise InvalidData(f"data: expected two or more rows, found {len(data)}")
    seed = noise.resolve_seed(seed)
    shuffled = torch.randperm(len(data), generator=noise.generator(seed))
    machines = (build(), build())
    for k, (machine, rows) in enumerate(zip(machines, shuffled.tensor_split(2), strict=True)):
        fit(machine, data[rows], seed=seed + k, **{"progress": False, **training})
    found = {order: _halves(machines, order, n_tuples, seed, method) for order in orders}
    return SplitHalf(found, machines)


def _halves(machines: tuple[RBM, RBM], order: int, n_tuples: int | None, seed: int, method: str) -> Halves:
    x, y = (sampled(machine, order, n_tuples, seed, method=method) for machine in machines)
    return Halves(order, InteractionComparison.of(x, y), ratio(rms(x - y) / math.sqrt(2), rms((x + y) / 2)))
