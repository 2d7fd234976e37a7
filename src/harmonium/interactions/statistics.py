"""Strength of the interactions of each order, and comparisons between machines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from .. import noise
from ..errors import InvalidData, InvalidOption
from ..machines import RBM
from ..noise import Seed
from ..shown import brief
from .comparison import InteractionComparison, rms
from .n_body_formula import n_body
from .sites import Sites
from .tuples import all_tuples, check_order, random_tuples

Key = TypeVar("Key")


@dataclass(frozen=True)
class Decay:
    """Exponential decay of the strength with the order: ln(strength) = intercept - rate · order.

    For small weights ``factor`` = e^{-rate} is about the size of a weight: Bulso & Roudi (2021), eq. (21).
    """

    intercept: float
    rate: float

    @property
    def factor(self) -> float:
        """Ratio e^{-rate} of the strengths of successive orders."""
        return math.exp(-self.rate)

    def at(self, order: float) -> float:
        """Strength of an order according to the fit."""
        return math.exp(self.intercept - self.rate * order)


@brief
@dataclass(frozen=True)
class Strength:
    """Root mean square of the interactions of each order; ``numbers`` says how many were used."""

    orders: tuple[int, ...]
    values: tuple[float, ...]
    numbers: tuple[int, ...]

    def decay(self) -> Decay:
        """Fit an exponential decay by least squares in ln(strength); orders with zero strength are ignored.

        >>> round(Strength((1, 2, 3), (0.5, 0.05, 0.005), (9, 9, 9)).decay().factor, 10)
        0.1
        """
        points = [(order, math.log(value)) for order, value in zip(self.orders, self.values, strict=True) if value > 0]
        if len(points) < 2:
            raise InvalidData(f"decay: expected two or more orders with interactions, found {len(points)}")
        orders, logarithms = np.array(points).T
        slope, intercept = np.polyfit(orders, logarithms, 1)
        return Decay(float(intercept), -float(slope))


def strength(
    rbm: RBM,
    orders: Sequence[int] = (1, 2, 3),
    *,
    n_tuples: int | None = 20_000,
    seed: Seed = None,
    **options: Any,
) -> Strength:
    """Root mean square of the interactions of each order, from ``n_tuples`` random tuples (None: all tuples).

    Order 1 excludes the visible bias, so that all orders measure the effect of the hidden units. Further options are
    those of :func:`n_body`.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(20), hm.units.Bernoulli(30))
    >>> rbm.initialize(weights="normal", scale=0.1, seed=0)
    >>> first, second, third = strength(rbm).values
    >>> first > 10 * second > 100 * third
    True
    """
    values = [sampled(rbm, order, n_tuples, seed, **{"bias": False, **options}) for order in orders]
    return Strength(tuple(orders), tuple(rms(part) for part in values), tuple(map(len, values)))


def sampled(rbm: RBM, order: int, n_tuples: int | None, seed: Seed, **options: Any) -> Tensor:
    """Interactions of ``n_tuples`` random tuples (None: all); the tuples depend only on ``seed`` and the size."""
    n = Sites.of(rbm).number
    check_order(order, n)
    if n_tuples is None or math.comb(n, order) <= n_tuples:
        tuples = all_tuples(n, order)
        if order == 2:  # all pairs at once are much faster than one by one
            return n_body(rbm, order, **options)[tuple(tuples.T)]
        return n_body(rbm, order, tuples, **options)
    return n_body(rbm, order, random_tuples(n, order, n_tuples, seed=seed), **options)


def compare(
    rbm: RBM,
    reference: RBM,
    order: int = 2,
    *,
    n_tuples: int | None = 20_000,
    seed: Seed = None,
    **options: Any,
) -> InteractionComparison:
    """Compare the interactions of two machines with visible layers of the same shape.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(4))
    >>> rbm.initialize(weights="normal", scale=1.0, seed=0)
    >>> round(compare(rbm, rbm, order=2).pearson, 9)
    1.0
    """
    if rbm.visible.shape != reference.visible.shape:
        raise InvalidOption(
            f"compare: expected equal visible layers, found {tuple(rbm.visible.shape)} "
            f"and {tuple(reference.visible.shape)}"
        )
    seed = noise.resolve_seed(seed)  # the same tuples of both
    return InteractionComparison.of(
        *(sampled(machine, order, n_tuples, seed, **options) for machine in (rbm, reference))
    )


def scaling(machines: Mapping[Key, RBM], reference: Key, order: int = 2, **options: Any) -> dict[Key, float]:
    """Fit α in I ≈ α I_reference for each machine, as in Bulso & Roudi (2021), figure 6b."""
    if reference not in machines:
        raise InvalidOption(f"reference: expected the key of a machine, found {reference!r}")
    return {key: compare(rbm, machines[reference], order, **options).slope for key, rbm in machines.items()}


def agreement(
    machines: Mapping[Key, RBM], order: int = 2, **options: Any
) -> dict[tuple[Key, Key], InteractionComparison]:
    """Compare every pair of machines; keys are (machine, reference). As in Bulso & Roudi (2021), figure 7."""
    n_tuples, seed = options.pop("n_tuples", 20_000), noise.resolve_seed(options.pop("seed", 0))
    values = {key: sampled(rbm, order, n_tuples, seed, **options) for key, rbm in machines.items()}
    return {(a, b): InteractionComparison.of(values[a], values[b]) for a in machines for b in machines if a != b}


def exact_versus_small(
    rbm: RBM, order: int = 2, *, n_tuples: int | None = None, seed: Seed = None
) -> InteractionComparison:
    """Compare the small-weight limit, Bulso & Roudi (2021), eqs. (19) and (21), with the exact interactions.

    ``relative_error`` of the result is the quantity shown in figure 9 of the paper.
    """
    seed = noise.resolve_seed(seed)
    small, exact = (sampled(rbm, order, n_tuples, seed, method=method, bias=False) for method in ("small", "exact"))
    return InteractionComparison.of(small, exact)
