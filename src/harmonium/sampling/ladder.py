"""Ladders: several machines on the same units that are simulated in parallel and exchange states.

States are (rungs, chains, *shape). Unit parameters have a leading dimension for the rungs, so that one operation
updates all rungs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from .path import Path, Point, Responses

#: a shift of all rungs, or one for each of them (rungs,)
Shift = int | Tensor
Seen = Mapping[int, Responses]


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

    def seen(self, state: Sequence[Tensor]) -> Seen:
        """What all rungs compute of the even layers in the same way, by odd layer; empty if they share nothing."""
        ...

    def fields(self, seen: Seen) -> Mapping[int, Tensor]:
        """The fields on odd layers, of every rung, that follow from what :meth:`seen` has computed."""
        ...

    def shifted(self, shifts: Sequence[Shift], seen: Seen) -> Sequence[Layers]:
        """For each shift, the chain with the parameters of rung k + shift (clamped to the ladder) at rung k.

        Valid only for log-weights of the state from which ``seen`` was computed.
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

    def seen(self, state: Sequence[Tensor]) -> Seen:
        """The responses of the odd layers at both ends of the path, from which the fields at any β follow."""
        return self.path.seen(state)

    def fields(self, seen: Seen) -> dict[int, Tensor]:
        """The fields on odd layers of every rung: (rungs, chains, *shape)."""
        return {layer: self.path.mixed(layer, responses, self._here.beta) for layer, responses in seen.items()}

    def shifted(self, shifts: Sequence[Shift], seen: Seen) -> list[Point]:
        """For each shift, the chain with the parameters of rung k + shift (clamped to the ladder) at rung k."""
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

    def seen(self, state: Sequence[Tensor]) -> Seen:
        """Nothing: every machine has its own couplings."""
        return {}

    def fields(self, seen: Seen) -> dict[int, Tensor]:
        """Nothing, as in :meth:`seen`."""
        return {}

    def shifted(self, shifts: Sequence[Shift], seen: Seen) -> list[Stack]:
        """For each shift, the chain with the parameters of rung k + shift (clamped to the ladder) at rung k."""
        rungs = torch.arange(self.size)
        moved = [(rungs + torch.as_tensor(k).cpu()).clamp(0, self.size - 1).tolist() for k in shifts]
        return [Stack([self.machines[k] for k in index]) for index in moved]


@brief
@dataclass
class LadderState:
    """States of all rungs.

    ``layers``: a tensor (rungs, chains, *shape) for each layer. ``walker`` (rungs, chains): the initial rung of each
    state. ``moves``: number of rounds of exchanges so far. ``known``: the ladder of the last exchange and what its
    rungs see of the even layers, which saves the next sweep of this ladder a product.
    """

    layers: list[Tensor]
    walker: Tensor
    moves: int = 0
    known: tuple[Ladder, Seen] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Exchange:
    """The result of one round of exchanges, for every neighboring pair of rungs.

    ``probability``: the acceptance probability, averaged over the chains; 0 where no exchange was proposed. ``tried``:
    whether an exchange was proposed. ``gain`` (rungs, chains): ln w of each state with the parameters of its partner
    minus that with its own, before the exchange.
    """

    probability: Tensor
    tried: Tensor
    gain: Tensor


def start(ladder: Ladder, visible: Tensor, generator: Generator | None) -> LadderState:
    """Initialize all rungs at the visible states (chains, *visible) or (rungs, chains, *visible)."""
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
    owner, seen = state.known or (None, {})
    fields = ladder.fields(seen) if owner is ladder else {}
    layers = [torch.empty_like(x) if k % 2 else x for k, x in enumerate(state.layers)]
    kernel.half_sweep(ladder, layers, 1, generator, fields=fields, in_place=True)
    layers = [x if k % 2 else torch.empty_like(x) for k, x in enumerate(layers)]
    kernel.half_sweep(ladder, layers, 0, generator, in_place=True)
    return LadderState(layers, state.walker, state.moves)


@torch.no_grad()
def exchange(ladder: Ladder, state: LadderState, generator: Generator | None) -> tuple[LadderState, Exchange]:
    """Propose exchanges of the even layers, with odd layers summed out, between every second pair of neighbors.

    Pairs (0,1), (2,3), … and (1,2), (3,4), … alternate. A proposal is accepted with probability min(1, e^r),
    r = ln w_k(x') + ln w_{k+1}(x) - ln w_k(x) - ln w_{k+1}(x'), which leaves the product of all rungs invariant
    (Hukushima & Nemoto 1996).
    """
    rungs = torch.arange(ladder.size, device=state.walker.device)
    lower = rungs % 2 == state.moves % 2  # the lower one of its pair
    seen = ladder.seen(state.layers)
    here, there = log_weights(ladder, state.layers, (0, torch.where(lower, 1, -1)), seen)
    gain = there - here
    tried = lower[:-1]
    probability = (gain[:-1] + gain[1:]).clamp(max=0).exp().mul_(tried.unsqueeze(1))
    accept = noise.uniform(probability, generator) < probability
    order = rungs.unsqueeze(1).expand_as(state.walker).clone()
    order[:-1] += accept.to(order.dtype)
    order[1:] -= accept.to(order.dtype)
    layers = [_take(x, order) if k % 2 == 0 else x for k, x in enumerate(state.layers)]
    known = ladder, {k: responses.map(lambda x: _take(x, order)) for k, responses in seen.items()}
    moved = LadderState(layers, state.walker.gather(0, order), state.moves + 1, known)
    return moved, Exchange(probability.double().mean(1), tried, gain)


def exchange_sweeps(
    ladder: Ladder, state: LadderState, sweeps: int, generator: Generator | None
) -> Iterator[tuple[LadderState, LadderState, Exchange]]:
    """Sweep all rungs and propose exchanges, ``sweeps`` times: the state before the exchanges, after them, and these.

    Only even layers are exchanged, so that all layers of the state before the exchanges belong together.
    """
    for _ in range(sweeps):
        swept = sweep(ladder, state, generator)
        state, info = exchange(ladder, swept, generator)
        yield swept, state, info


class Acceptance:
    """Acceptance rates of exchanges between neighboring rungs, over several rounds."""

    def __init__(self, ladder: Ladder) -> None:
        self._total, self._tried = torch.zeros(2, ladder.size - 1, dtype=torch.float64)

    def add(self, info: Exchange) -> None:
        """Include a round of exchanges."""
        self._total += torch.where(info.tried, info.probability, 0.0).cpu()
        self._tried += info.tried.cpu()

    @property
    def rates(self) -> Tensor:
        """The rate of each pair of neighbors (rungs - 1,); 0 for a pair that was not tried."""
        return self._total / self._tried.clamp_min(1)


def log_weights(ladder: Ladder, layers: list[Tensor], shifts: Sequence[Shift], seen: Seen) -> list[Tensor]:
    """ln w of the even layers of rung k with parameters of rung k + shift, up to a constant: (rungs, chains) each."""
    views = ladder.shifted(shifts, seen)
    return [kernel.log_weight(view, layers, dtype=torch.float64) for view in views]


def _take(x: Tensor, order: Tensor) -> Tensor:
    index = order.view(*order.shape, *(1,) * (x.ndim - 2)).expand_as(x)
    return x.gather(0, index)
