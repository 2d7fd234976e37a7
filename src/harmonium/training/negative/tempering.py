"""Negative phases with replica exchange: parallel tempering and trajectory tempering."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from ...errors import InvalidOption
from ...machines import RBM, BoltzmannMachine
from ...sampling import Ladder, LadderState, MachineLadder, Path, PathLadder
from ...sampling import ladder as rungs
from ...sampling.path import independent
from ...sampling.tempering import equal_rejection
from .base import State, as_rbm
from .gibbs import Sampled

_ADAPT_EVERY = 100  # exchanges between changes of the temperatures
_COPY_EVERY = 10  # exchanges between checks whether a copy of the machine is needed
_MEMORY = 0.05  # weight of one exchange in the mean acceptance


@dataclass(frozen=True)
class Exchanged(Sampled):
    """Base class: persistent chains on a ladder of distributions whose last rung is the trained machine.

    The state has the ``layers`` (rungs, chains, *shape), the number of the ``walker`` (rungs, chains) in each chain,
    the number of ``moves``, and the mean ``acceptance`` (rungs - 1,) of exchanges between neighbors.
    """

    def ladder(self, rbm: RBM, state: State) -> Ladder:
        """Return the current ladder."""
        raise NotImplementedError

    def advance(self, rbm: RBM, state: State, generator: Generator | None) -> State:
        ladder, acceptance = self.ladder(rbm, state), state["acceptance"]
        chains = LadderState(state["layers"], state["walker"], state["moves"])
        for _ in range(self.k):
            chains = rungs.sweep(ladder, chains, generator)
            chains, info = rungs.exchange(ladder, chains, generator)
            acceptance = torch.where(info.tried, torch.lerp(acceptance, info.probability, _MEMORY), acceptance)
        return {**_with_chains(state, chains, acceptance), "v": chains.layers[0][-1]}

    def _begun(self, rbm: RBM, state: State, generator: Generator | None) -> State:
        """Return the state with all rungs at the visible states ``v``."""
        ladder = self.ladder(rbm, state)
        chains = rungs.start(ladder, state["v"], generator)
        acceptance = torch.ones(ladder.size - 1, dtype=torch.float64, device=rbm.device)
        return _with_chains(state, chains, acceptance)


def _with_chains(state: State, chains: LadderState, acceptance: Tensor) -> State:
    new = {"layers": chains.layers, "walker": chains.walker, "moves": chains.moves}
    return {**state, **new, "acceptance": acceptance}


@dataclass(frozen=True)
class ParallelTempering(Exchanged):
    """Parallel tempering from independent units, fitted to the data, to the machine (Desjardins et al. 2010).

    A step makes ``k`` sweeps of all rungs, each followed by an exchange between neighboring rungs. The rungs have equal
    distances in β. With ``adapt`` they follow the machine: after every 100 exchanges they move such that
    those between all neighbors are rejected equally often.

    >>> ParallelTempering(rungs=20).rungs
    20
    """

    _: KW_ONLY
    rungs: int = 10
    adapt: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rungs < 2:
            raise InvalidOption(f"rungs: expected at least 2, found {self.rungs}")

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        rbm, state = as_rbm(machine, self), super().init(machine, rows, generator)
        base = independent(rbm, rows)
        base.layers[1].shift_bias(-base.layers[1].bias)  # the base must depend only on the data, also in a resumed run
        betas = torch.linspace(0, 1, self.rungs).double()
        return self._begun(rbm, {**state, "path": Path(rbm, base), "betas": betas}, generator)

    def ladder(self, rbm: RBM, state: State) -> Ladder:
        state["path"].refresh()
        return PathLadder(state["path"], state["betas"].tolist())

    def advance(self, rbm: RBM, state: State, generator: Generator | None) -> State:
        state = super().advance(rbm, state, generator)
        if self.adapt and state["moves"] % _ADAPT_EVERY < self.k:
            betas = equal_rejection(state["betas"].tolist(), 1 - state["acceptance"], self.rungs)
            state["betas"] = torch.tensor(betas, dtype=torch.float64)
        return state


@dataclass(frozen=True)
class TrajectoryTempering(Exchanged):
    """Replica exchange with earlier machines of the same training run (Béreux et al. 2024).

    When exchanges between the machine and the newest copy are accepted less often than ``acceptance``, a copy of the
    machine becomes a new rung. If there are more than ``rungs`` copies, the one with the largest acceptance to its two
    neighbors is removed.

    >>> TrajectoryTempering(acceptance=0.3).rungs
    30
    """

    _: KW_ONLY
    acceptance: float = 0.4
    rungs: int = 30
    grows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.acceptance < 1 or self.rungs < 2:
            raise InvalidOption(
                "acceptance, rungs: expected 0 < acceptance < 1 and rungs ≥ 2, "
                f"found {self.acceptance} and {self.rungs}"
            )

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        rbm, state = as_rbm(machine, self), super().init(machine, rows, generator)
        return self._begun(rbm, {**state, "copies": [copy.deepcopy(machine)]}, generator)

    def check_state(self, machine: BoltzmannMachine, state: State) -> None:
        rungs = len(state["copies"]) + 1
        sizes = [len(state["acceptance"]) + 1, len(state["walker"]), *(len(x) for x in state["layers"])]
        if any(size != rungs for size in sizes):
            raise ValueError(f"expected {rungs} rungs, found {sizes}")

    def ladder(self, rbm: RBM, state: State) -> Ladder:
        return MachineLadder([*state["copies"], rbm])

    def advance(self, rbm: RBM, state: State, generator: Generator | None) -> State:
        state = super().advance(rbm, state, generator)
        if state["moves"] % _COPY_EVERY == 0 and state["acceptance"][-1].item() < self.acceptance:
            state = _with_copy(state, rbm)
            if len(state["copies"]) > self.rungs:
                state = _without_easiest(state)
        return state


def _with_copy(state: State, rbm: RBM) -> State:
    """Add a copy of the machine below the top, with the states of the top."""
    copies = [*state["copies"], copy.deepcopy(rbm)]
    repeat = torch.tensor([*range(len(copies)), len(copies) - 1], device=rbm.device)
    walker = state["walker"][repeat].clone()
    walker[-1] = len(copies)
    return {
        **state,
        "copies": copies,
        "layers": [x[repeat] for x in state["layers"]],
        "walker": walker,
        "acceptance": torch.cat([state["acceptance"], torch.ones_like(state["acceptance"][:1])]),
    }


def _without_easiest(state: State) -> State:
    """Remove the inner rung with the largest product of acceptances to its neighbors, with its walkers."""
    acceptance = state["acceptance"]
    rung = int((acceptance[:-2] * acceptance[1:-1]).argmax().item()) + 1
    kept = [k for k in range(len(state["walker"])) if k != rung]
    return {
        **state,
        "copies": [one for k, one in enumerate(state["copies"]) if k != rung],
        "layers": [x[kept] for x in state["layers"]],
        "walker": state["walker"][kept].argsort(0).argsort(0),  # numbered again
        "acceptance": torch.cat([acceptance[:rung], acceptance[rung + 1 :]]),
    }
