"""Relaxed messages, described by two moments: Tramel et al. (2018), Appendix B."""

from __future__ import annotations

import torch
from torch import Tensor

from ...machines import BoltzmannMachine
from ...units import Unit
from ...units.base import per_row
from ..chain import respond_, undefined_rows
from .graphs import Graph

_ADJOINT_STEPS, _ADJOINT_TOLERANCE = 100, 1e-10


class Relaxed(Graph):
    """Messages as means and variances.

    For link k, messages 4k and 4k + 1 are a and c in the upward direction, (rows, upper, *lower), and 4k + 2 and 4k + 3
    are a and c in the downward direction, (rows, lower, *upper).
    """

    method = "bp"

    def __init__(self, machine: BoltzmannMachine) -> None:
        self.units = machine.layers
        self.weights = [coupling.matrix() for coupling in machine.couplings]
        self.depth = len(self.units)
        self.width = 4 * sum(weight.numel() for weight in self.weights)

    def begin(self, a: list[Tensor], c: list[Tensor]) -> list[Tensor]:
        found = []
        for k in range(self.depth - 1):
            for source, target in ((k, k + 1), (k + 1, k)):
                size = self.units[target].size
                found += [x[source].unsqueeze(1).repeat_interleave(size, 1) for x in (a, c)]
        return found

    def _incoming(self, layer: int, messages: list[Tensor]) -> list[tuple[int, Tensor, Tensor]]:
        """Return for each neighbor layer the index of the messages to it, and W a and -W² c of the messages from it.

        Both have shape (rows, units of the neighbor, *shape of the layer).
        """
        found = []
        shape = self.units[layer].shape
        if layer > 0:
            k, weight = layer - 1, self.weights[layer - 1]
            a, c = (x.flatten(2) for x in messages[4 * k : 4 * k + 2])  # (rows, this layer, lower)
            found.append((4 * k + 2, (a * weight.T).transpose(1, 2), -(c * weight.T.square()).transpose(1, 2)))
        if layer < self.depth - 1:
            k, weight = layer, self.weights[layer]
            a, c = (x.flatten(2) for x in messages[4 * k + 2 : 4 * k + 4])  # (rows, this layer, upper)
            found.append((4 * k, (a * weight).transpose(1, 2), -(c * weight.square()).transpose(1, 2)))
        return [(number, b.unflatten(2, shape), q.unflatten(2, shape)) for number, b, q in found]

    def _fields(self, layer: int, messages: list[Tensor]) -> tuple[Tensor, Tensor, list[tuple[int, Tensor, Tensor]]]:
        incoming = self._incoming(layer, messages)
        B = torch.stack([b.sum(1) for _, b, _ in incoming]).sum(0)
        A = torch.stack([q.sum(1) for _, _, q in incoming]).sum(0)
        cavities = [(number, B.unsqueeze(1) - b, A.unsqueeze(1) - q) for number, b, q in incoming]
        return B, A, cavities

    def outgoing(self, layer: int, messages: list[Tensor]) -> tuple[dict[int, Tensor], Tensor]:
        unit = self.units[layer]
        _, _, cavities = self._fields(layer, messages)
        lost = torch.zeros(len(messages[0]), dtype=torch.bool, device=messages[0].device)
        found: dict[int, Tensor] = {}
        for number, B, A in cavities:
            mean, variance = torch.empty_like(B), torch.empty_like(B)
            undefined = respond_(unit, B, A, mean, variance)
            if undefined is not None:
                lost |= undefined
            found |= {number: mean, number + 1: variance}
        return found, lost

    def renewed(self, layer: int, messages: list[Tensor]) -> dict[int, Tensor]:
        unit, found = self.units[layer], dict[int, Tensor]()
        for number, B, A in self._fields(layer, messages)[2]:
            found |= {number: unit.mean(B, A), number + 1: unit.variance(B, A)}
        return found

    def residual(self, number: int, new: Tensor, old: Tensor) -> tuple[Tensor | None, Tensor | None]:
        if number % 2 == 0:
            return new - old, None
        return None, new.clamp_min(0.0).sqrt() - old.clamp_min(0.0).sqrt()

    def beliefs(self, messages: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        fields = [self._fields(layer, messages)[:2] for layer in range(self.depth)]
        means = [_or_nan(unit, B, A) for unit, (B, A) in zip(self.units, fields, strict=True)]
        variances = []
        for unit, mean, (B, A) in zip(self.units, means, fields, strict=True):
            good = ~torch.isnan(mean)
            variances.append(torch.where(good, unit.variance(B, torch.where(good, A, 0.0)), torch.nan))
        return means, variances, [B for B, _ in fields], [A for _, A in fields]

    def free_energy(self, messages: list[Tensor]) -> Tensor:
        """Return eq. (B13), with the sign of -ln Z.

        It is not stationary in the messages m. To get the total derivative, λ·(f(m) - m) is added. This is zero at a
        fixed point m = f(m), and λ is chosen so that its derivative is the contribution of the messages.
        """
        value = self._bethe(messages)
        if not value.requires_grad:
            return -value
        for pull, new, old in zip(self._adjoint(messages), self._renewed(messages), messages, strict=True):
            value = value + per_row(pull * (new - old))
        return -value

    def _bethe(self, messages: list[Tensor]) -> Tensor:
        value = torch.zeros(len(messages[0]), dtype=messages[0].dtype, device=messages[0].device)
        for layer, unit in enumerate(self.units):
            B, A, cavities = self._fields(layer, messages)
            bad = torch.isnan(_or_nan(unit, B, A).detach().flatten(1)).any(1)
            B, A = (torch.where(bad.view(-1, *(1 for _ in unit.shape)), 0.0, x) for x in (B, A))
            whole = unit.log_partition(B, A)
            value = torch.where(bad, torch.nan, value + per_row(whole))
            for _, b, q in cavities:
                value = value - per_row(whole.unsqueeze(1) - unit.log_partition(b, q)) / 2
        return value

    def _renewed(self, messages: list[Tensor]) -> list[Tensor]:
        """Return f(m): the parallel update of all messages, differentiable."""
        found: dict[int, Tensor] = {}
        for layer in range(self.depth):
            found |= self.renewed(layer, messages)
        return [found[number] for number in range(len(messages))]

    def _adjoint(self, messages: list[Tensor]) -> list[Tensor]:
        """Solve λ = ∂G/∂m + (∂f/∂m)ᵀ λ by damped iteration."""
        leaves = [x.detach().requires_grad_() for x in messages]
        with torch.enable_grad():
            slope = torch.autograd.grad(self._bethe(leaves).sum(), leaves, materialize_grads=True)
            renewed = self._renewed(leaves)
        pull = [x.clone() for x in slope]
        for _ in range(_ADJOINT_STEPS):
            along = torch.autograd.grad(renewed, leaves, pull, retain_graph=True, materialize_grads=True)
            largest = 0.0
            for x, y, z in zip(pull, slope, along, strict=True):
                residual = y + z - x
                x += residual / 2
                largest = max(largest, residual.abs().nan_to_num_().max().item())
            if largest < _ADJOINT_TOLERANCE:
                break
        return pull


def _or_nan(unit: Unit, B: Tensor, A: Tensor) -> Tensor:
    """Return the mean, with NaN in the rows where it does not exist."""
    lost = undefined_rows(unit, A)
    if lost is None:
        return unit.mean(B, A)
    lost = lost.view(-1, *(1 for _ in unit.shape))
    return torch.where(lost, torch.nan, unit.mean(torch.where(lost, 0.0, B), torch.where(lost, 0.0, A)))
