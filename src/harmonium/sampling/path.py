"""Paths of machines: from an easy one to the one of interest, all natural parameters moving on straight lines."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InvalidData, InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..units import Unit
from ..units.base import per_row


class Path:
    """p_β ∝ p_0^{1-β} p_1^β between two machines on the same units; hidden layers of p_β are again such units.

    Layers of odd number are summed out and those of even number are kept (for an RBM: the visible one), so the weight
    of a state is w_β(x) = Π_even e^{-U_β(x)} · Π_odd Z_β(field). By default the base is
    :func:`free`, which makes β the inverse temperature of bounded units.
    """

    def __init__(self, target: BoltzmannMachine, base: BoltzmannMachine | None = None) -> None:
        self.target, self.base = target, free(target) if base is None else base
        if [u.config() for u in self.base.units] != [u.config() for u in target.units]:
            raise InvalidOption("a path expects two machines on the same units, found different ones")
        self.even = range(0, len(target.units), 2)
        self.odd = range(1, len(target.units), 2)
        self._flat = [not bool(c.weight.any()) for c in self.base.links]
        self.refresh()

    def refresh(self) -> None:
        """Look at the parameters of both ends again, after training has changed them."""
        self._ends = [
            ({k: v.detach() for k, v in a.natural().items()}, {k: v.detach() for k, v in b.natural().items()})
            for a, b in zip(self.base.units, self.target.units, strict=True)
        ]
        self._same = [all(torch.equal(a[name], b[name]) for name in a) for a, b in self._ends]

    def reversed(self) -> Path:
        """The same path from the target back to the base."""
        return Path(self.base, self.target)

    def unit(self, layer: int, beta: float | Tensor) -> Unit:
        """The units of a layer at β; a tensor β of shape (K, 1, …) gives parameters with that leading shape."""
        start, end = self._ends[layer]
        unit = self.target.units[layer]
        if self._same[layer]:
            return unit
        return unit.with_natural({name: _mix(start[name], end[name], _beside(beta, start[name])) for name in start})

    def responses(self, layer: int, state: Sequence[Tensor | None]) -> tuple[Tensor | None, Tensor]:
        """The fields on a layer at the two ends of the path: what :meth:`field` mixes."""
        low = None if all(self._flat[max(layer - 1, 0) : layer + 1]) else self.base.field(layer, state)
        return low, self.target.field(layer, state)

    def field(self, responses: tuple[Tensor | None, Tensor], beta: float | Tensor, *, last: bool = False) -> Tensor:
        """The field at β from the responses at the ends; ``last`` when they are not needed any more."""
        low, high = responses
        if low is not None:
            return _mix(low, high, beta)
        return high.mul_(beta) if last else high * beta

    def tilt(self, state: Sequence[Tensor | None]) -> Tensor:
        """∂_β of the kept layers' log-weight, which is linear in β: (batch,)."""
        total = None
        for layer in self.even:
            x = state[layer]
            assert x is not None
            if self._same[layer]:
                continue
            start, end = self._ends[layer]
            if set(start) == {"bias"}:
                part = x.flatten(1) @ (end["bias"] - start["bias"]).flatten()
            else:
                a, b = self.base.units[layer], self.target.units[layer]
                part = per_row(b.log_weight(x) - a.log_weight(x))
            total = part if total is None else total + part
        first = state[0]
        assert first is not None
        return torch.zeros(len(first), dtype=first.dtype, device=first.device) if total is None else total

    def machine(self, beta: float) -> BoltzmannMachine:
        """The machine at β, as a machine of its own."""
        machine = copy.deepcopy(self.target)
        with torch.no_grad():
            for layer, unit in enumerate(machine.units):
                mixed = self.unit(layer, beta)
                for name, parameter in unit.named_parameters():
                    parameter.copy_(_get(mixed, name))
            for coupling, low, high in zip(machine.links, self.base.links, self.target.links, strict=True):
                coupling.weight.copy_(torch.lerp(low.weight, high.weight, beta))
        return machine


def uncoupled(machine: BoltzmannMachine) -> BoltzmannMachine:
    """A copy without couplings: every unit on its own, so ln Z is a sum over units."""
    apart = copy.deepcopy(machine)
    with torch.no_grad():
        for coupling in apart.links:
            coupling.weight.zero_()
    return apart


def free(machine: BoltzmannMachine) -> BoltzmannMachine:
    """A copy without couplings and biases."""
    empty = uncoupled(machine)
    for unit in empty.units:
        unit.shift_bias(-unit.bias)
    return empty


def independent(machine: BoltzmannMachine, data: ArrayLike) -> BoltzmannMachine:
    """An uncoupled copy whose visible units have the single-site statistics of ``data`` (n, *visible)."""
    apart = uncoupled(machine)
    rows = machine.as_states(data)
    if len(rows) == 0:
        raise InvalidData("base: expected at least one row of data, found none")
    apart.visible.initialise_from(rows)
    return apart


@torch.no_grad()
def uncoupled_log_partition(machine: BoltzmannMachine) -> float:
    """ln Z of a machine without couplings."""
    total = 0.0
    for unit in machine.units:
        zero = torch.zeros(1, *unit.shape, dtype=machine.dtype, device=machine.device)
        total += unit.log_partition(zero).double().sum().item()
    return total


def _beside(beta: float | Tensor, parameter: Tensor) -> float | Tensor:
    """β with its own dimensions in front of those of a parameter."""
    return beta.view(*beta.shape, *(1 for _ in parameter.shape)) if isinstance(beta, Tensor) else beta


def _mix(low: Tensor, high: Tensor, beta: float | Tensor) -> Tensor:
    return torch.lerp(low, high, beta)


def _get(unit: Unit, name: str) -> Tensor:
    value: object = unit
    for part in name.split("."):
        value = value[int(part)] if part.isdigit() else getattr(value, part)  # type: ignore[index]
    assert isinstance(value, Tensor)
    return value
