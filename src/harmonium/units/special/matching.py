"""Parameters of a distribution with given moments."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def solve_increasing(
    function: Callable[[Tensor], tuple[Tensor, Tensor]], start: Tensor, span: float = 1e16, steps: int = 100
) -> Tensor:
    """The root within ±span of an increasing elementwise ``function`` -> (value, slope), by bracketed Newton steps.

    If a Newton step leaves the bracket or the slope is NaN, the bracket is bisected on an asinh scale, which covers
    many orders of magnitude in few steps.

    >>> solve_increasing(lambda x: (x.exp() - 2, x.exp()), torch.zeros(1, dtype=torch.float64), span=10.0).exp()
    tensor([2.], dtype=torch.float64)
    """
    low, high = torch.full_like(start, -span), torch.full_like(start, span)
    x = start
    for _ in range(steps):
        value, slope = function(x)
        low, high = torch.where(value <= 0, x, low), torch.where(value >= 0, x, high)
        newton = x - value / slope
        good = (newton >= low) & (newton <= high)  # false for NaN too
        last, x = x, torch.where(good, newton, ((low.asinh() + high.asinh()) / 2).sinh())
        if bool(((x - last).abs() <= 1e-13 * (1 + x.abs())).all()):
            break
    return x


def solve_moments(
    moments: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    mean: Tensor,
    precision: Tensor,
    variance: Tensor | None = None,
    positive: bool = False,
) -> tuple[Tensor, Tensor]:
    """Find (h, p) such that ``moments(h, p)`` -> (mean, variance) equal the given ones, in float64.

    Without ``variance``, p is ``precision``. Otherwise p is found by bisection, on a logarithmic scale if ``positive``:
    at fixed mean, the variance of an exponential family decreases with p.
    """
    value = torch.exp if positive else torch.clone
    last = precision * mean  # each search starts at the result of the previous one

    def field(p: Tensor) -> Tensor:
        def excess(h: Tensor) -> tuple[Tensor, Tensor]:
            m, v = moments(h, p)
            return m - mean, v

        nonlocal last
        last = solve_increasing(excess, last)
        return last

    if variance is not None:

        def shortfall(y: Tensor) -> tuple[Tensor, Tensor]:
            p = value(y)
            return variance - moments(field(p), p)[1], torch.full_like(y, math.nan)

        precision = value(solve_increasing(shortfall, torch.zeros_like(mean), span=30.0 if positive else 1e12))
    return field(precision), precision


def smoothed(data: Tensor, pseudocount: float, mean: Tensor, square: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and variance per unit of ``data`` (n, ...) and of ``pseudocount`` observations with the given moments.

    >>> smoothed(torch.ones(3, 1), 1.0, torch.tensor(0.0), torch.tensor(0.0))
    (tensor([0.7500], dtype=torch.float64), tensor([0.1875], dtype=torch.float64))
    """
    data = data.to(torch.float64)
    total = len(data) + pseudocount
    first = (data.sum(0) + pseudocount * mean) / total
    second = (data - first).square().sum(0) + pseudocount * (square - 2 * first * mean + first.square())
    return first, second / total
