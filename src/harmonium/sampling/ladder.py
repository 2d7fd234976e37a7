"""Ladders: several machines on the same units that are simulated in parallel and exchange states.

States are (rungs, chains, *shape). Unit parameters have a leading dimension for the rungs, so that one operation
updates all rungs.
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
from ..machines import BoltzmannMachine, kernel
from ..machines.kernel import Layers
from ..shown import brief
from ..units import Unit
from .path import Path, Point


class Ladder(Layers, Protocol):
    """All rungs at once as a chain of layers; the last rung is the target machine.

    Unit parameters have the shape (rungs, 1, *shape).
    """

    @property
    def size(self) -> int:
        """The number of rungs."""
        ...

    @property
    def top(self) -> BoltzmannMachine:
        """The machine of the last rung."""
        ...

    def shifted(self, shifts: Sequence[int], state: Sequence[Tensor | None]) -> Sequence[Layers]:
        """For each shift, the chain with the parameters of rung k + shift (clamped to the ladder) at rung k.

        Valid only for log-weights of ``state``: products with its even layers may be computed once for all shifts.
        """
        ...


class PathLadder:
    """A ladder of machines p_β on a path from a base to the target machine (β = 1), for increasing β."""

    def __init__(self, path: Path, betas: Sequence[float]) -> None:
        if len(betas) < 2 or any(b <= a for a, b in pairwise(betas)):
            raise InvalidOption(f"betas: expected two or more increasing values, found {list(betas)}")
        self.path = path
        self.betas = torch.tensor(betas, dtype=path.target.dtype, device=path.target.device)
        self._here = path.at(self.betas.unsqueeze(1))

    @property
    def size(self) -> int:
        """The number of rungs."""
        return len(self.betas)

    @property
    def top(self) -> BoltzmannMachine:
        """The machine of the last rung."""
        return self.path.target

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self._here.depth

    def layer(self, layer: int) -> Unit:
        """The units of a layer, with parameters (rungs, 1, *shape)."""
        return self._here.layer(layer)

    def field(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        """The field on a layer of every rung: (rungs, chains, *shape)."""
        return self._here.field(layer, state)

    def shifted(self, shifts: Sequence[int], state: Sequence[Tensor | None]) -> list[Point]:
        """For each shift, the chain with the parameters of rung k + shift (clamped to the ladder) at rung k."""
        seen = self.path.seen(state)
        rungs = torch.arange(self.size, device=self.betas.device)
        return [self.path.at(self.betas[(rungs + k).clamp(0, self.size - 1)].unsqueeze(1), seen) for k in shifts]


class Stack:
    """Several machines on the same units as one chain of layers, with states (machines, chains, *shape)."""

    def __init__(self, machines: Sequence[BoltzmannMachine]) -> None:
        self.machines = list(machines)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.machines[0].depth

    def layer(self, layer: int) -> Unit:
        """The units of a layer, with parameters (machines, 1, *shape)."""
        natural = [machine.layer(layer).natural() for machine in self.machines]
        stacked = {name: torch.stack([n[name] for n in natural]).unsqueeze(1) for name in natural[0]}
        return self.machines[-1].layer(layer).with_natural(stacked)

    def field(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        """The field on a layer of every machine: (machines, chains, *shape)."""
        rows = [[None if x is None else x[k] for x in state] for k in range(len(self.machines))]
        return torch.stack([machine.field(layer, x) for machine, x in zip(self.machines, rows, strict=True)])


class MachineLadder(Stack):
    """A ladder of given machines, such as the checkpoints of one run from early to late."""

    def __init__(self, machines: Sequence[BoltzmannMachine]) -> None:
        configs = [[unit.config() for unit in machine.layers] for machine in machines]
        if len(machines) < 2 or any(config != configs[0] for config in configs):
            raise InvalidOption("machines: expected two or more machines on the same units")
        super().__init__(machines)

    @property
    def size(self) -> int:
        """The number of rungs."""
        return len(self.machines)

    @property
    def top(self) -> BoltzmannMachine:
        """The machine of the last rung."""
        return self.machines[-1]

    def shifted(self, shifts: Sequence[int], state: Sequence[Tensor | None]) -> list[Stack]:
        """For each shift, the chain with the parameters of rung k + shift (clamped to the ladder) at rung k."""
        last = self.size - 1
        return [Stack([self.machines[min(max(k + shift, 0), last)] for k in range(self.size)]) for shift in shifts]


@brief
@dataclass
class LadderState:
    """States of all rungs.

    ``layers``: a tensor (rungs, chains, *shape) for each layer. ``walker`` (rungs, chains): the initial rung of each
    state. ``moves``: number of rounds of exchanges so far.
    """

    layers: list[Tensor]
    walker: Tensor
    moves: int = 0


@dataclass(frozen=True)
class Exchange:
    """The result of one round of exchanges, for every neighboring pair of rungs.

    ``probability``: the acceptance probability, averaged over the chains. ``tried``: whether an exchange was proposed.
    """

    probability: Tensor
    tried: Tensor


def start(ladder: Ladder, visible: Tensor, generator: Generator | None) -> LadderState:
    """Initialize all rungs at the visible states (chains, *visible) or (rungs, chains, *visible)."""
    top = ladder.top
    if visible.ndim == len(top.visible.shape) + 1:
        visible = visible.expand(ladder.size, *visible.shape)
    flat = top.initial_state(visible.flatten(0, 1).contiguous(), generator)
    layers = [x.view(ladder.size, -1, *x.shape[1:]) for x in flat]
    walker = torch.arange(ladder.size, device=visible.device).unsqueeze(1).expand(layers[0].shape[:2]).clone()
    return LadderState(layers, walker)


def sweep(ladder: Ladder, state: LadderState, generator: Generator | None) -> LadderState:
    """One Gibbs sweep of every rung: odd layers, then even ones."""
    return LadderState(kernel.sweep(ladder, state.layers, generator), state.walker, state.moves)


@torch.no_grad()
def exchange(ladder: Ladder, state: LadderState, generator: Generator | None) -> tuple[LadderState, Exchange]:
    """Propose exchanges of the even layers, with odd layers summed out, between every second pair of neighbors.

    Pairs (0,1), (2,3), … and (1,2), (3,4), … alternate. A proposal is accepted with probability min(1, e^r),
    r = ln w_k(x') + ln w_{k+1}(x) - ln w_k(x) - ln w_{k+1}(x'), which leaves the product of all rungs invariant
    (Hukushima & Nemoto 1996).
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
    """ln w of the even layers of rung k with parameters of rung k + shift, up to a constant: (rungs, chains) each."""
    views = ladder.shifted(shifts, layers)
    return [kernel.log_weight(view, layers, dtype=torch.float64) for view in views]


def _take(x: Tensor, order: Tensor) -> Tensor:
    index = order.view(*order.shape, *(1,) * (x.ndim - 2)).expand_as(x)
    return x.gather(0, index)
