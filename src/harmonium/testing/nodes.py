"""Quadrature nodes of units: points and the logarithms of their weights, so that ∫ f = Σ e^{weight} f(point)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ..units import Unit
from ..units.support import Integers, Interval

#: points (m, *event shape) and logarithms of their weights (m,)
Nodes = tuple[Tensor, Tensor]
F64 = torch.float64


def states(values: Sequence[float] | Tensor) -> Nodes:
    """Return the nodes of a plain sum over values."""
    points = torch.as_tensor(values, dtype=F64)
    return points, torch.zeros(len(points), dtype=F64)


def line(reach: float = 12.0, step: float = 0.4) -> Nodes:
    """Return the trapezoidal rule, which converges geometrically for functions with Gaussian tails."""
    points = torch.arange(-reach, reach + step / 2, step, dtype=F64)
    return points, torch.full_like(points, math.log(step))


def segment(low: float, high: float, n: int) -> Nodes:
    """Return Gauss-Legendre quadrature from ``low`` to ``high``."""
    nodes, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(n))
    return (low + high) / 2 + (high - low) / 2 * nodes, (weights * (high - low) / 2).log()


def union(*parts: Nodes) -> Nodes:
    """Concatenate the nodes of disjoint sets."""
    return torch.cat([points for points, _ in parts]), torch.cat([weights for _, weights in parts])


def product(*parts: Nodes) -> Nodes:
    """Return every combination of the parts' points, flattened and concatenated."""
    points, weights = torch.zeros(1, 0, dtype=F64), torch.zeros(1, dtype=F64)
    for x, w in parts:
        x = x.reshape(len(x), -1)
        left = points.repeat_interleave(len(x), 0)
        points, weights = torch.cat([left, x.repeat(len(points), 1)], 1), (weights[:, None] + w).flatten()
    return points, weights


@torch.no_grad()
def of_unit(unit: Unit, reach: float = 40.0) -> Nodes:
    """Return the nodes of one unit of a layer that is not mixed, from its support.

    An unbounded support is truncated at ``reach`` standard deviations from the mean of the free unit.
    """
    support = unit.support
    values = support.states()
    if values is not None:
        return states(values)
    zero = torch.zeros(unit.shape, dtype=F64)
    mean, spread = unit.mean(zero).double(), unit.variance(zero).double().sqrt()
    if isinstance(support, Integers):
        return states(range(int((mean + reach * spread).max().item()) + 50))
    if not isinstance(support, Interval):
        raise AssertionError(f"{unit.name()}: expected a finite, integer or interval support, found {support}")
    # panels that grow with the distance from the mean of any of the units; a weight may have a kink at zero
    steps = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, reach], dtype=F64)
    middle, width = mean.mean(), spread.max() + (mean.max() - mean.min())
    ends = {0.0, support.low, support.high, *(middle + width * torch.cat([steps, -steps])).tolist()}
    borders = sorted(x for x in ends if math.isfinite(x) and support.low <= x <= support.high)
    pieces = [segment(a, b, 30) for a, b in pairwise(borders) if b > a]
    return union(*([states(support.atoms)] if support.atoms else []), *pieces)
