"""Compare the masses of modes between two sets of states."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..machines import BoltzmannMachine
from ..sampling.population import effective

_CLUSTERS = (2, 4, 8)
_ITERATIONS = 20


@torch.no_grad()
def disagreement(machine: BoltzmannMachine, states: Tensor, log_weights: Tensor, samples: Tensor) -> float:
    """Return the largest difference of cluster masses between weighted states and samples, in standard errors.

    ``states`` (n, *visible) have ``log_weights`` (n,); ``samples`` (m, *visible) have equal weights. All rows are
    mapped to the mean activities of the first hidden layer and divided into 2, 4 and 8 clusters by k-means. For every
    cluster, the two masses are compared as two proportions, with n_eff = (Σw)²/Σw² and m draws.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(4), hm.units.Spin(1))
    >>> _ = torch.nn.init.constant_(rbm.coupling.weight, 2.0)
    >>> up, down = torch.ones(50, 4), -torch.ones(50, 4)
    >>> both, weights = torch.cat([up, down]), torch.zeros(100)
    >>> disagreement(rbm, both, weights, both) < 0.1, disagreement(rbm, both, weights, up) > 5
    (True, True)
    """
    usable = torch.isfinite(log_weights)
    states, log_weights = states[usable], log_weights[usable]
    if len(states) < 2 or len(samples) < 2:
        return 0.0
    p = torch.softmax(log_weights.double(), 0)
    points = _activities(machine, torch.cat([states, samples]))
    n, m = effective(log_weights), len(samples)
    largest = 0.0
    for number in _CLUSTERS:
        label = _clusters(points, number)
        here = torch.zeros(number, dtype=torch.float64, device=p.device).index_add_(0, label[: len(p)], p)
        there = torch.bincount(label[len(p) :], minlength=number).double() / m
        pooled = (n * here + m * there) / (n + m)
        error = (pooled * (1 - pooled) * (1 / n + 1 / m)).sqrt().clamp_min(1e-9)
        # continuity correction of half a draw, because small counts are not normally distributed
        beyond = ((here - there).abs() - 0.5 / min(n, m)).clamp_min(0)
        largest = max(largest, (beyond / error).max().item())
    return largest


def _activities(machine: BoltzmannMachine, visible: Tensor) -> Tensor:
    """Return the mean activities of the first hidden layer given the visible layer, (n, hidden) in float64."""
    unit, coupling = machine.layers[1], machine.couplings[0]
    return unit.mean(coupling.up(visible)).flatten(1).double()


def _clusters(points: Tensor, number: int) -> Tensor:
    """Return the k-means cluster of every point (n,); the initial centers are points far from each other."""
    centers = points.mean(0, keepdim=True)
    distance = torch.full((len(points),), math.inf, dtype=points.dtype, device=points.device)
    for _ in range(number):
        distance = torch.minimum(distance, (points - centers[-1]).square().sum(1))
        centers = torch.cat([centers, points[distance.argmax()][None]])
    centers = centers[1:]
    label = torch.zeros(len(points), dtype=torch.long, device=points.device)
    for _ in range(_ITERATIONS):
        label = torch.cdist(points, centers).argmin(1)
        count = torch.bincount(label, minlength=number).clamp_min(1).unsqueeze(1)
        sums = torch.zeros_like(centers).index_add_(0, label, points)
        moved = torch.where(torch.bincount(label, minlength=number).unsqueeze(1) > 0, sums / count, centers)
        if torch.equal(moved, centers):
            break
        centers = moved
    return label
