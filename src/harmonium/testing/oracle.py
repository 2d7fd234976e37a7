"""A slow, independent reference: the joint distribution of a small machine on the nodes of every layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor

from ..machines import BoltzmannMachine
from .nodes import F64, Nodes

State = list[Tensor]


@dataclass(frozen=True)
class Joint:
    """Probabilities ``p`` (m_0, …, m_L) of all combinations of the layers' nodes."""

    points: list[Tensor]
    p: Tensor
    log_partition: float

    def marginal(self, *layers: int) -> Tensor:
        """Return p summed over all other layers."""
        others = [k for k in range(self.p.ndim) if k not in layers]
        return self.p.sum(others) if others else self.p

    def draw(self, n: int, source: Generator) -> State:
        """Draw states from p. They are quadrature nodes, so expectations of smooth functions are exact."""
        index = torch.multinomial(self.p.flatten(), n, replacement=True, generator=source)
        numbers = torch.unravel_index(index, self.p.shape)
        return [points[number] for points, number in zip(self.points, numbers, strict=True)]

    def expectations(self) -> tuple[Tensor, Tensor]:
        """Return the exact mean and standard deviation of each of :func:`statistics`, in the same order."""
        first: list[Tensor] = []
        second: list[Tensor] = []
        for power, values in ((1, first), (2, second)):
            for k, points in enumerate(self.points):
                p = self.marginal(k)
                values += [p @ value**power for value in _of_layer(points)]
            for k, (x, y) in enumerate(pairwise(self.points)):
                values.append((x.flatten(1).T ** power @ self.marginal(k, k + 1) @ y.flatten(1) ** power).flatten())
        mean = torch.cat(first)
        return mean, (torch.cat(second) - mean.square()).clamp_min(0.0).sqrt()


def joint(machine: BoltzmannMachine, nodes: list[Nodes]) -> Joint:
    """Compute the joint distribution from only the units' log-weights and the couplings' matrices."""
    depth = len(nodes)
    log_p = torch.zeros((), dtype=F64)
    with torch.no_grad():
        for k, (unit, (points, weights)) in enumerate(zip(machine.layers, nodes, strict=True)):
            own = unit.log_weight(points).flatten(1).sum(1) + weights
            log_p = log_p + own.view([-1 if axis == k else 1 for axis in range(depth)])
        for k, coupling in enumerate(machine.couplings):
            x, y = nodes[k][0].flatten(1), nodes[k + 1][0].flatten(1)
            bond = x @ coupling.matrix() @ y.T
            log_p = log_p + bond.view([len(nodes[axis][0]) if axis in (k, k + 1) else 1 for axis in range(depth)])
    log_z = torch.logsumexp(log_p.flatten(), 0).item()
    return Joint([points for points, _ in nodes], (log_p - log_z).exp(), log_z)


def _of_layer(x: Tensor) -> list[Tensor]:
    x = x.flatten(1)
    return [x, x.square(), torch.tanh(x)]


def statistics(state: State) -> Tensor:
    """Return x, x², tanh x of every unit and x_i y_j of every coupled pair, averaged over the chains."""
    values = [value.mean(0) for x in state for value in _of_layer(x)]
    values += [(x.flatten(1).T @ y.flatten(1)).flatten() / len(x) for x, y in pairwise(state)]
    return torch.cat(values)


def worst_deviation(state: State, exact: Joint) -> float:
    """Return the largest deviation of a statistic of independent chains from its exact value, in standard errors."""
    mean, deviation = exact.expectations()
    error = deviation / math.sqrt(len(state[0]))
    return ((statistics(state) - mean).abs() / (error + 1e-7)).max().item()
