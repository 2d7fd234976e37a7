"""Ladders: several machines on the same units, simulated side by side and exchanging states.

States are (rungs, chains, *shape). Parameters of the rungs are stacked in front, so that one pass moves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..units import Unit
from ..units.base import per_row
from .path import Path


class Ladder(Protocol):
    """What the exchange of states needs to know of its rungs; the last rung is the machine of interest."""

    @property
    def size(self) -> int:
        """The number of rungs."""
        ...

    @property
    def top(self) -> BoltzmannMachine:
        """The machine of the last rung."""
        ...

    def unit(self, layer: int, rungs: Tensor) -> Unit:
        """The units of a layer with the parameters of the given rungs stacked in front."""
        ...

    def fields(self, layer: int, state: list[Tensor], shifts: Sequence[int]) -> list[Tensor]:
        """The fields on a layer when the states of rung k are seen by rung k + shift (clamped to the ladder)."""
        ...


class PathLadder:
    """Rungs p_β on a path from an easy machine to the one of interest, for increasing β."""

    def __init__(self, path: Path, betas: Sequence[float]) -> None:
        if len(betas) < 2 or any(b <= a for a, b in pairwise(betas)) or betas[-1] != 1:
            raise InvalidOption("a ladder expects two or more increasing β, the last one 1")
        self.path = path
        self.betas = torch.tensor(betas, dtype=path.target.dtype, device=path.target.device)

    @property
    def size(self) -> int:
        """The number of rungs."""
        return len(self.betas)

    @property
    def top(self) -> BoltzmannMachine:
        """The machine of the last rung."""
        return self.path.target

    def unit(self, layer: int, rungs: Tensor) -> Unit:
        """The units of a layer with the parameters of the given rungs stacked in front."""
        return self.path.unit(layer, self.betas[rungs].unsqueeze(1))

    def fields(self, layer: int, state: list[Tensor], shifts: Sequence[int]) -> list[Tensor]:
        """The fields on a layer when the states of rung k are seen by rung k + shift (clamped to the ladder)."""
        flat = [x.flatten(0, 1) for x in state]
        found = self.path.responses(layer, flat)
        shape = (*state[0].shape[:2], *found.shape[1:])
        responses = found.map(lambda x: x.view(shape))
        rungs = torch.arange(self.size, device=self.betas.device)
        ones = (1,) * (len(found.shape) - 1)
        return [self.path.field(responses, self.betas[_clamp(rungs + shift)].view(-1, 1, *ones)) for shift in shifts]


class MachineLadder:
    """Rungs that are machines of their own, such as the checkpoints of one run, from early to late."""

    def __init__(self, machines: Sequence[BoltzmannMachine]) -> None:
        configs = [[unit.config() for unit in machine.layers] for machine in machines]
        if len(machines) < 2 or any(config != configs[0] for config in configs):
            raise InvalidOption("a ladder expects two or more machines on the same units")
        self.machines = list(machines)

    @property
    def size(self) -> int:
        """The number of rungs."""
        return len(self.machines)

    @property
    def top(self) -> BoltzmannMachine:
        """The machine of the last rung."""
        return self.machines[-1]

    def unit(self, layer: int, rungs: Tensor) -> Unit:
        """The units of a layer with the parameters of the given rungs stacked in front."""
        natural = [self.machines[k].units[layer].natural() for k in rungs.tolist()]
        stacked = {name: torch.stack([n[name] for n in natural]).unsqueeze(1) for name in natural[0]}
        return self.top.layers[layer].with_natural(stacked)

    def fields(self, layer: int, state: list[Tensor], shifts: Sequence[int]) -> list[Tensor]:
        """The fields on a layer when the states of rung k are seen by rung k + shift (clamped to the ladder)."""
        return [
            torch.stack(
                [
                    self.machines[min(max(k + shift, 0), self.size - 1)].field(layer, [x[k] for x in state])
                    for k in range(self.size)
                ]
            )
            for shift in shifts
        ]


def _clamp(rungs: Tensor) -> Tensor:
    return rungs.clamp(0, len(rungs) - 1)


@dataclass
class LadderState:
    """States of all rungs. ``layers`` are (rungs, chains, *shape); ``walker`` says whose each state is."""

    layers: list[Tensor]
    walker: Tensor
    moves: int = 0


@dataclass(frozen=True)
class Exchange:
    """What one exchange did: the acceptance probability of every neighboring pair, averaged over the chains."""

    probability: Tensor
    tried: Tensor


def start(ladder: Ladder, visible: Tensor, generator: Generator | None) -> LadderState:
    """All rungs at the visible states (chains, *visible) or (rungs, chains, *visible)."""
    top = ladder.top
    if visible.ndim == len(top.visible.shape) + 1:
        visible = visible.expand(ladder.size, *visible.shape)
    flat = top.initial_state(visible.flatten(0, 1).contiguous(), generator)
    layers = [x.view(ladder.size, -1, *x.shape[1:]) for x in flat]
    walker = torch.arange(ladder.size, device=visible.device).unsqueeze(1).expand(layers[0].shape[:2]).clone()
    return LadderState(layers, walker)


@torch.no_grad()
def sweep(ladder: Ladder, state: LadderState, generator: Generator | None) -> LadderState:
    """One Gibbs sweep of every rung: odd layers, then even ones."""
    layers = list(state.layers)
    rungs = torch.arange(ladder.size, device=layers[0].device)
    for parity in (1, 0):
        for layer in range(parity, len(layers), 2):
            (field,) = ladder.fields(layer, layers, (0,))
            layers[layer] = ladder.unit(layer, rungs).sample(field, generator=generator)
    return LadderState(layers, state.walker, state.moves)


@torch.no_grad()
def exchange(ladder: Ladder, state: LadderState, generator: Generator | None) -> tuple[LadderState, Exchange]:
    """Propose to every second neighboring pair to exchange the states of their even layers (odd ones summed out).

    Pairs (0,1), (2,3), … and (1,2), (3,4), … take turns. Accepted with min(1, e^r),
    r = ln w_k(x') + ln w_{k+1}(x) - ln w_k(x) - ln w_{k+1}(x'), which leaves the product of all rungs invariant.
    """
    here, above, below = log_weights(ladder, state.layers, (0, 1, -1))
    ratio = above[:-1] + below[1:] - here[:-1] - here[1:]
    probability = ratio.clamp(max=0).exp()
    tried = torch.arange(len(ratio), device=ratio.device) % 2 == state.moves % 2
    accept = (noise.uniform(probability, generator) < probability) & tried.unsqueeze(1)
    order = torch.arange(ladder.size, device=ratio.device).unsqueeze(1).expand_as(state.walker).clone()
    order[:-1] += accept.to(order.dtype)
    order[1:] -= accept.to(order.dtype)
    layers = [_take(x, order) if k % 2 == 0 else x for k, x in enumerate(state.layers)]
    moved = LadderState(layers, state.walker.gather(0, order), state.moves + 1)
    return moved, Exchange(probability.double().mean(1), tried)


def log_weights(ladder: Ladder, layers: list[Tensor], shifts: Sequence[int]) -> list[Tensor]:
    """ln w of the even layers of rung k as seen by rung k + shift, up to a constant: (rungs, chains) each."""
    rungs = torch.arange(ladder.size, device=layers[0].device)
    totals = [torch.zeros(layers[0].shape[:2], dtype=torch.float64, device=layers[0].device) for _ in shifts]
    for layer, x in enumerate(layers):
        if layer % 2 == 0:
            for total, shift in zip(totals, shifts, strict=True):
                total += _per_chain(ladder.unit(layer, _clamp(rungs + shift)).log_weight(x))
        else:
            for total, shift, field in zip(totals, shifts, ladder.fields(layer, layers, shifts), strict=True):
                total += _per_chain(ladder.unit(layer, _clamp(rungs + shift)).log_partition(field))
    return totals


def _per_chain(x: Tensor) -> Tensor:
    """The sum over all but the rungs and the chains."""
    return per_row(x.flatten(0, 1)).view(x.shape[:2])


def _take(x: Tensor, order: Tensor) -> Tensor:
    index = order.view(*order.shape, *(1,) * (x.ndim - 2)).expand_as(x)
    return x.gather(0, index)
