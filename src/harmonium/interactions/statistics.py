"""How strong interactions are, and how those of one machine follow those of another."""

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
from .comparison import InteractionComparison, rms
from .n_body_formula import n_body
from .sites import Sites
from .tuples import all_tuples, check_order, random_tuples

Key = TypeVar("Key")


@dataclass(frozen=True)
class Decay:
    """ln(strength) = intercept - rate · order: each further unit makes an interaction ``factor`` = e^{-rate} as strong.

    For small weights the factor is about the size of a weight (eq. 21).
    """

    intercept: float
    rate: float

    @property
    def factor(self) -> float:
        """e^{-rate}."""
        return math.exp(-self.rate)

    def at(self, order: float) -> float:
        """The strength on the line."""
        return math.exp(self.intercept - self.rate * order)


@dataclass(frozen=True)
class Strength:
    """The root mean square of the interactions of each order, from ``numbers`` of them."""

    orders: tuple[int, ...]
    values: tuple[float, ...]
    numbers: tuple[int, ...]

    def decay(self) -> Decay:
        """The exponential decay with the order, by least squares in the logarithm; orders without any are left out.

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
    seed: int | None = None,
    **options: Any,
) -> Strength:
    """The typical strength of interactions by order, from ``n_tuples`` random tuples of each (``None``: all).

    Order 1 is without the visible bias, so that all orders are what the hidden units bring about. Further options are
    those of :func:`interactions`.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(20), hm.units.Bernoulli(30))
    >>> rbm.initialize(weights="normal", scale=0.1, seed=0)
    >>> first, second, third = strength(rbm).values
    >>> first > 10 * second > 100 * third
    True
    """
    values = [sampled(rbm, order, n_tuples, seed, **{"bias": False, **options}) for order in orders]
    return Strength(tuple(orders), tuple(rms(part) for part in values), tuple(map(len, values)))


def sampled(rbm: RBM, order: int, n_tuples: int | None, seed: int | None, **options: Any) -> Tensor:
    """Interactions of ``n_tuples`` random tuples, the same for every machine of that size; ``None`` for all."""
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
    seed: int | None = None,
    **options: Any,
) -> InteractionComparison:
    """How the interactions of a machine follow those of another one on the same visible units.

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
    """α in I ≈ α I_reference for each machine, for example by its number of hidden units (paper, Figure 6b)."""
    if reference not in machines:
        raise InvalidOption(f"scaling: expected the reference among the machines, found {reference!r}")
    return {key: compare(rbm, machines[reference], order, **options).slope for key, rbm in machines.items()}


def agreement(
    machines: Mapping[Key, RBM], order: int = 2, **options: Any
) -> dict[tuple[Key, Key], InteractionComparison]:
    """Every machine against every other as the reference, for example by activation function (paper, Figure 7)."""
    n_tuples, seed = options.pop("n_tuples", 20_000), noise.resolve_seed(options.pop("seed", None))
    values = {key: sampled(rbm, order, n_tuples, seed, **options) for key, rbm in machines.items()}
    return {(a, b): InteractionComparison.of(values[a], values[b]) for a in machines for b in machines if a != b}


def exact_versus_small(
    rbm: RBM, order: int = 2, *, n_tuples: int | None = None, seed: int | None = None
) -> InteractionComparison:
    """How eqs. (19), (21) follow the exact interactions; ``relative_error`` is that of the paper's Figure 9."""
    seed = noise.resolve_seed(seed)
    small, exact = (sampled(rbm, order, n_tuples, seed, method=method, bias=False) for method in ("small", "exact"))
    return InteractionComparison.of(small, exact)
