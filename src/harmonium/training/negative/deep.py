"""Persistent contrastive divergence for deep machines, with clamped mean field for the data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from ...couplings import Coupling
from ...errors import Diverged, InvalidOption
from ...machines import BoltzmannMachine
from ...machines.kernel import State, half_sweep
from ...meanfield.chain import Chain
from ...meanfield.layers import Link, MeanFieldLayer
from ...meanfield.starts import upward
from .base import NegativePhase, learned_couplings, write_unit_gradient


class DeepPCD(NegativePhase):
    """PCD for deep machines: clamped mean field for the data, persistent chains for the model.

    See Salakhutdinov & Hinton (2009). The hidden layers given the batch come from naive mean field, which maximizes a
    lower bound of ln p*(v). The moments of the model come from persistent Gibbs chains, with the odd layers averaged
    given the even layers.

    Args:
        k: number of Gibbs sweeps per step.
        iterations: number of mean-field iterations per step.
        chains: number of chains; the batch size if None.

    >>> DeepPCD(1, iterations=5).config()
    {'method': 'deep-pcd', 'k': 1, 'iterations': 5}
    """

    _state: State
    _hidden: State

    def __init__(self, k: int = 1, *, iterations: int = 10, chains: int | None = None) -> None:
        if k < 1 or iterations < 1 or (chains is not None and chains < 1):
            raise InvalidOption(f"k, iterations, chains: expected at least 1, found {k}, {iterations}, {chains}")
        self.k, self.iterations, self.chains = k, iterations, chains

    def config(self) -> dict[str, Any]:
        chains = {} if self.chains is None else {"chains": self.chains}
        return {**super().config(), "k": self.k, "iterations": self.iterations, **chains}

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        if machine.visible.conserving(start) is not machine.visible:
            raise InvalidOption(
                f"DeepPCD expects a fixed document length: pass total=… to the visible {machine.visible.name()} units"
            )
        self._allocate(machine, batch_size)
        rows = torch.arange(self.chains or batch_size, device=machine.device) % len(start)
        self._state = machine.initial_state(start[rows].clone(), generator)

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        self._allocate(machine, batch_size)
        rows = torch.arange(self.chains or batch_size, device=machine.device) % len(self._state[0])
        self._state = [x[rows] for x in self._state]

    def _allocate(self, machine: BoltzmannMachine, batch: int) -> None:
        self.data_slot = torch.zeros(batch, *machine.visible.shape, dtype=machine.dtype, device=machine.device)
        self.use(batch)
        self.coupling_gradients = learned_couplings(machine)
        self._change = {k: torch.zeros_like(link.coupling.weight) for k, link in self.coupling_gradients.items()}

    @torch.no_grad()
    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        data = self._clamped(machine)
        self._hidden = data.a[1:]
        fields = self._advance(machine, generator)
        model = [machine.layers[k].mean(fields[k]) if k in fields else x for k, x in enumerate(self._state)]
        for k, unit in enumerate(machine.layers):
            ours = unit.moments(data.B[k], mean=data.a[k]) if k > 0 else unit.statistics(data.a[0])
            theirs = unit.moments(fields[k], mean=model[k]) if k in fields else unit.statistics(model[k])
            write_unit_gradient(unit, {name: theirs[name].mean(0) - value.mean(0) for name, value in ours.items()})
        for k, link in self.coupling_gradients.items():
            change = self._change[k]
            link.coupling.correlate(model[k], model[k + 1], out=change, scale=1 / len(model[0]))
            link.coupling.correlate(data.a[k], data.a[k + 1], out=change, add=True, scale=-1 / len(data.a[0]))
            link.set_dense(change)

    def _clamped(self, machine: BoltzmannMachine) -> Chain:
        """Return the mean field of the hidden layers with the visible layer clamped to the batch."""
        batch = self.batch
        layers = [MeanFieldLayer(unit) for unit in machine.layers]
        a, c = upward(machine, batch, torch.zeros_like(batch))
        chain = Chain(machine, layers, a, c, second_order=False, damping=0.0, clamped=True)
        chain.links[0] = _Held(machine.couplings[0], batch)
        for _ in range(self.iterations):
            chain.step(measure=False)
        if not bool(torch.isfinite(chain.a[-1].sum())):
            raise Diverged("the clamped mean field of the batch is not finite")
        return chain

    def _advance(self, machine: BoltzmannMachine, generator: Generator | None) -> dict[int, Tensor]:
        """Update the chains, even layers first; return the last fields of the odd layers given the even layers."""
        fields: dict[int, Tensor] = {}
        for _ in range(self.k):
            half_sweep(machine, self._state, 0, generator)
            fields = half_sweep(machine, self._state, 1, generator)
        return fields

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return [hidden.mean(0) for hidden in self._hidden]

    def chain_states(self) -> Tensor | None:
        return self._state[0]

    def state_dict(self) -> dict[str, Any]:
        return {"state": [x.clone() for x in self._state]}

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        self._state = [x.clone() for x in state["state"]]


class _Held(Link):
    """The coupling to a clamped layer, whose field is computed once."""

    def __init__(self, coupling: Coupling, lower: Tensor) -> None:
        super().__init__(coupling, second_order=False)
        self._field = coupling.up(lower)

    def field_(self, upward: bool, a: Tensor, out: Tensor) -> None:
        out.copy_(self._field)
