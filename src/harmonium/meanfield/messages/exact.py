"""Exact messages, tables over the values of a unit: Tramel et al. (2018), Appendix A."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import NotEnumerable
from ...machines import BoltzmannMachine
from ...units import Unit
from ...units.base import per_row
from .graphs import Graph

CHUNK_ELEMENTS = 2**23


class Exact(Graph):
    """Messages as log-probabilities.

    For link k, message 2k goes upward, (rows, lower units, upper units, values of the lower unit), and message 2k + 1
    goes downward, (rows, lower units, upper units, values of the upper unit).
    """

    method = "bp-exact"

    def __init__(self, machine: BoltzmannMachine) -> None:
        self._machine, self.units = machine, machine.layers
        self.depth = len(self.units)
        self.values = [_values(unit) for unit in self.units]
        self.own = [_log_weights(unit, values) for unit, values in zip(self.units, self.values, strict=True)]
        self.bonds = []
        for k, coupling in enumerate(machine.couplings):
            lower, upper = self.units[k : k + 2]
            x, y = (values.reshape(len(values), -1) for values in self.values[k : k + 2])
            weight = coupling.matrix().reshape(lower.sites, x.shape[1], upper.sites, y.shape[1])
            self.bonds.append(torch.einsum("xe,iejf,yf->ijxy", x, weight, y))  # x·W·y of every pair of values
        self.width = sum(bond.shape[0] * bond.shape[1] * (bond.shape[2] + bond.shape[3]) for bond in self.bonds)

    def begin(self, a: list[Tensor], c: list[Tensor]) -> list[Tensor]:
        """Return the log-probabilities of every unit in the mean field of its neighbors."""
        found = []
        for k, bond in enumerate(self.bonds):
            for layer, along in ((k, 2), (k + 1, 1)):
                values = self.values[layer].flatten(1) if self.values[layer].ndim > 1 else self.values[layer][:, None]
                field = self._machine.field(layer, a).reshape(len(a[0]), self.units[layer].sites, -1)
                log_p = torch.log_softmax(self.own[layer] + field @ values.T, -1)
                found.append(log_p.unsqueeze(along).repeat_interleave(bond.shape[along - 1], along))
        return found

    def _incoming(self, layer: int, messages: list[Tensor]) -> list[tuple[int, int, Tensor]]:
        """Return for each neighbor layer the index of the message to it, its dimension, and the log-factors.

        The log-factors of its messages for the values of this layer have shape (rows, lower, upper, values).
        """
        found = []
        if layer > 0:
            k = layer - 1
            heard = torch.logsumexp(self.bonds[k] + messages[2 * k].unsqueeze(-1), -2)
            found.append((2 * k + 1, 1, heard))
        if layer < self.depth - 1:
            k = layer
            heard = torch.logsumexp(self.bonds[k] + messages[2 * k + 1].unsqueeze(-2), -1)
            found.append((2 * k, 2, heard))
        return found

    def _totals(self, layer: int, messages: list[Tensor]) -> tuple[Tensor, list[tuple[int, int, Tensor]]]:
        """Return the unnormalized log-belief of every value, (rows, units, values), and the incoming messages."""
        incoming = self._incoming(layer, messages)
        return self.own[layer] + sum(heard.sum(along) for _, along, heard in incoming), incoming

    def outgoing(self, layer: int, messages: list[Tensor]) -> tuple[dict[int, Tensor], Tensor]:
        total, incoming = self._totals(layer, messages)
        found = {number: torch.log_softmax(total.unsqueeze(along) - heard, -1) for number, along, heard in incoming}
        return found, torch.zeros(len(total), dtype=torch.bool, device=total.device)

    def renewed(self, layer: int, messages: list[Tensor]) -> dict[int, Tensor]:
        return self.outgoing(layer, messages)[0]

    def residual(self, number: int, new: Tensor, old: Tensor) -> tuple[Tensor | None, Tensor | None]:
        values = self.values[number // 2 + number % 2]
        x = values.reshape(len(values), -1)
        (mean, deviation), (other, other_deviation) = (_mean_and_deviation(p.exp(), x) for p in (new, old))
        return mean - other, deviation - other_deviation

    def beliefs(self, messages: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        means, variances = self._moments(messages)
        return means, variances, [], []

    def _moments(self, messages: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        means, variances = [], []
        for layer, unit in enumerate(self.units):
            p = torch.softmax(self._totals(layer, messages)[0], -1)
            x = self.values[layer].reshape(len(self.values[layer]), -1)
            mean, deviation = _mean_and_deviation(p, x)
            means.append(mean.reshape(-1, *unit.shape))
            variances.append(deviation.square().reshape(-1, *unit.shape))
        return means, variances

    def free_energy(self, messages: list[Tensor]) -> Tensor:
        """Return eq. (A5), with the sign of -ln Z."""
        value = torch.zeros(len(messages[0]), dtype=messages[0].dtype, device=messages[0].device)
        for layer in range(self.depth):
            total, incoming = self._totals(layer, messages)
            value = value + per_row(torch.logsumexp(total, -1))
            for number, along, heard in incoming:
                if along == 2:  # count each pair once, at its lower unit
                    value = value - per_row(torch.logsumexp(heard + messages[number], -1))
        return -value


def _mean_and_deviation(p: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and standard deviation, (..., size), of values x (values, size) with p (..., values)."""
    mean = p @ x
    return mean, (p.unsqueeze(-1) * (x - mean.unsqueeze(-2)).square()).sum(-2).sqrt()


def _values(unit: Unit) -> Tensor:
    """Return the values of one unit: (values,) or (values, size)."""
    values = unit.support.states()
    if values is None or unit.cardinality is None:
        raise NotEnumerable(
            f"exact messages expect layers of a single unit type with finitely many values, found {unit.name()} "
            f"({unit.support.description})"
        )
    return values.to(unit.bias)


def _log_weights(unit: Unit, values: Tensor) -> Tensor:
    """Return the logarithm of the base weight of every value of every unit, (units, values), differentiable."""
    return torch.stack([unit.log_weight(value.expand(unit.shape)).reshape(-1) for value in values], -1)
