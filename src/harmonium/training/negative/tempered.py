"""Negative phases with replica exchange: parallel tempering and trajectory tempering."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import torch
from torch import Generator, Tensor

from ...errors import InvalidOption
from ...machines import RBM, BoltzmannMachine
from ...sampling import Ladder, LadderState, MachineLadder, Path, PathLadder
from ...sampling import ladder as rungs
from ...sampling.path import independent
from ...sampling.tempering import equal_rejection
from ..state import restored, restored_number
from .sampled import Sampled

_ADAPT_EVERY = 100  # exchanges between changes of the temperatures


class Exchanged(Sampled):
    """Base class: persistent chains on a ladder of distributions whose last rung is the trained machine."""

    _state: LadderState
    _acceptance: Tensor

    def ladder(self, rbm: RBM) -> Ladder:
        """Return the current ladder."""
        raise NotImplementedError

    def advance(self, rbm: RBM, generator: Generator | None) -> None:
        ladder = self.ladder(rbm)
        for _ in range(self.k):
            self._state = rungs.sweep(ladder, self._state, generator)
            self._state, info = rungs.exchange(ladder, self._state, generator)
            self._acceptance = torch.where(
                info.tried, torch.lerp(self._acceptance, info.probability, 0.05), self._acceptance
            )
        self._chain_v.copy_(self._state.layers[0][-1])
        rbm.coupling.up_(self._v, self._field)
        rbm.hidden.mean_(self._field, self._mean)

    def _start(self, rbm: RBM, generator: Generator | None) -> None:
        ladder = self.ladder(rbm)
        self._state = rungs.start(ladder, self._chain_v, generator)
        self._acceptance = torch.ones(ladder.size - 1, dtype=torch.float64, device=rbm.device)

    def acceptances(self) -> Tensor:
        """Return the running mean of the acceptance probability of every neighboring pair of rungs."""
        return self._acceptance.clone()

    def state_dict(self) -> dict[str, Any]:
        return {
            "v": self._chain_v.clone(),
            "layers": list(self._state.layers),
            "walker": self._state.walker,
            "moves": self._state.moves,
            "acceptance": self._acceptance,
        }

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        size = self.ladder(cast("RBM", machine)).size
        pairs = zip(self._state.layers, state["layers"], strict=True)
        layers = [restored(kept, layer, (size, *layer.shape[1:])) for layer, kept in pairs]
        walker = restored(state["walker"], self._state.walker, (size, *self._state.walker.shape[1:]))
        self._state = LadderState(layers, walker, restored_number(state["moves"]))
        self._acceptance = restored(state["acceptance"], self._acceptance, (size - 1,))
        self._chain_v.copy_(restored(state["v"], self._chain_v))
        self._bound = machine.visible.conserving(self._chain_v)

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        before = self._n_chains
        super().resize(machine, batch_size)
        if self._n_chains != before:  # repeat or drop the same chains in every rung
            chain = torch.arange(self._n_chains, device=machine.device) % before
            self._state.layers = [x[:, chain] for x in self._state.layers]
            self._state.walker = self._state.walker[:, chain]


@dataclass
class ParallelTempering(Exchanged):
    """Parallel tempering from independent units, fitted to the data, to the machine (Desjardins et al. 2010).

    A step makes ``k`` sweeps of all rungs, each followed by an exchange between neighboring rungs. The rungs have equal
    distances in β. With ``adapt`` they follow the machine: after every 100 exchanges they move such that
    those between all neighbors are rejected equally often.

    >>> ParallelTempering(rungs=10)
    ParallelTempering(k=1, rungs=10, adapt=False, chains=None)
    """

    k: int = 1
    _: KW_ONLY
    rungs: int = 10
    adapt: bool = False
    chains: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rungs < 2:
            raise InvalidOption(f"rungs: expected at least 2, found {self.rungs}")
        self.betas = torch.linspace(0, 1, self.rungs).double()

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        super().begin(machine, batch_size, start, generator)
        assert isinstance(machine, RBM)
        base = independent(machine, start)
        base.layers[1].shift_bias(-base.layers[1].bias)  # the base must depend only on the data, also in a resumed run
        self._path = Path(machine, base)
        self.betas = torch.linspace(0, 1, self.rungs).double()
        self._start(machine, generator)

    def ladder(self, rbm: RBM) -> Ladder:
        self._path.refresh()
        return PathLadder(self._path, self.betas.tolist())

    def advance(self, rbm: RBM, generator: Generator | None) -> None:
        super().advance(rbm, generator)
        if self.adapt and self._state.moves % _ADAPT_EVERY < self.k:
            self.betas = equal_rejection(self.betas, 1 - self._acceptance, self.rungs)

    def state_dict(self) -> dict[str, Any]:
        adapted = {"betas": self.betas.clone()} if self.adapt else {}
        return {**super().state_dict(), **adapted}

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        if self.adapt:
            self.betas = restored(state["betas"], self.betas)
        super().load_state_dict(state, machine)


@dataclass
class TrajectoryTempering(Exchanged):
    """Replica exchange with earlier machines of the same training run (Béreux et al. 2024).

    When exchanges between the machine and the newest copy are accepted less often than ``acceptance``, a copy of the
    machine becomes a new rung. If there are more than ``rungs`` copies, the one with the largest acceptance to its two
    neighbors is removed.

    >>> TrajectoryTempering()
    TrajectoryTempering(k=1, acceptance=0.4, rungs=30, chains=None)
    """

    k: int = 1
    _: KW_ONLY
    acceptance: float = 0.4
    rungs: int = 30
    chains: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.acceptance < 1 or self.rungs < 2:
            raise InvalidOption(
                f"acceptance, rungs: expected 0 < acceptance < 1 and rungs ≥ 2, "
                f"found {self.acceptance} and {self.rungs}"
            )
        self._copies: list[BoltzmannMachine] = []

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        super().begin(machine, batch_size, start, generator)
        assert isinstance(machine, RBM)
        self._copies = [copy.deepcopy(machine)]
        self._start(machine, generator)

    def ladder(self, rbm: RBM) -> Ladder:
        return MachineLadder([*self._copies, rbm])

    def advance(self, rbm: RBM, generator: Generator | None) -> None:
        super().advance(rbm, generator)
        if self._state.moves % 10 == 0 and self._acceptance[-1].item() < self.acceptance:
            self._add_rung(rbm)

    def _add_rung(self, rbm: RBM) -> None:
        self._copies.append(copy.deepcopy(rbm))
        repeat = torch.tensor([*range(len(self._copies)), len(self._copies) - 1], device=rbm.device)
        self._state.layers = [x[repeat].clone() for x in self._state.layers]
        walkers = self._state.walker[repeat].clone()
        walkers[-1] = len(self._copies)
        self._state.walker = walkers
        self._acceptance = torch.cat([self._acceptance, torch.ones_like(self._acceptance[:1])])
        if len(self._copies) > self.rungs:
            self._drop_rung()

    def _drop_rung(self) -> None:
        """Remove the inner rung with the largest product of acceptances to its neighbors, with its walkers."""
        ease = self._acceptance[:-2] * self._acceptance[1:-1]
        rung = int(ease.argmax().item()) + 1
        self._copies.pop(rung)
        kept = [k for k in range(len(self._state.layers[0])) if k != rung]
        self._state.layers = [x[kept] for x in self._state.layers]
        rank = self._state.walker[kept].argsort(0).argsort(0)  # renumber the walkers
        self._state.walker = rank
        self._acceptance = torch.cat([self._acceptance[:rung], self._acceptance[rung + 1 :]])

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "copies": [machine.state_dict() for machine in self._copies]}

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        self._copies = []
        for parameters in state["copies"]:
            earlier = copy.deepcopy(machine)
            own = earlier.state_dict()
            earlier.load_state_dict({name: restored(parameters[name], own[name]) for name in {**own, **parameters}})
            self._copies.append(earlier)
        super().load_state_dict(state, machine)
