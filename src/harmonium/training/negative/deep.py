"""Persistent contrastive divergence for deep machines, with clamped mean field or Gibbs sampling for the data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from ...couplings import Coupling
from ...errors import Diverged, InvalidOption, unknown
from ...machines import BoltzmannMachine
from ...machines.kernel import State, half_sweep
from ...units import Unit
from .base import learned_couplings
from .signed import SPARE_ROWS, SignedRows, new_buffer

_POSITIVE = ("mean-field", "gibbs")


class DeepPCD(SignedRows):
    """PCD for deep machines: persistent chains for the model; clamped mean field or Gibbs sampling for the data.

    See Salakhutdinov & Hinton (2009). The moments of the model come from persistent Gibbs chains, with the odd layers
    averaged given the even layers. The hidden layers given the batch come from one of two methods:

    * ``positive="mean-field"``: naive mean field, which maximizes a lower bound of ln p*(v). It neglects correlations
      of the hidden layers given the data. This acts like a weight decay ½ W² ⟨c⟩⟨c'⟩ of the couplings between hidden
      layers, where c and c' are the variances of two hidden units given the data: a coupling is learned only if it
      gains more than that.
    * ``positive="gibbs"``: Gibbs sampling with the visible layer held. The gradient is that of the likelihood, as far
      as ``iterations`` sweeps reach the conditional distribution, with more noise.

    Both start with an upward pass in which the field from the layer above is the mean over the batch of the previous
    step. This is close to the result, so that few iterations suffice.

    Args:
        k: number of Gibbs sweeps of the chains per step.
        iterations: number of mean-field iterations or Gibbs sweeps of the hidden layers given the batch.
        chains: number of chains; the batch size if None.
        positive: method for the hidden layers given the batch, "mean-field" or "gibbs".

    >>> DeepPCD(1, iterations=5).config()
    {'method': 'deep-pcd', 'k': 1, 'iterations': 5}
    """

    _state: State
    #: mean field from the layer above on the hidden layers, by layer index
    _above: dict[int, Tensor]

    def __init__(
        self, k: int = 1, *, iterations: int = 10, chains: int | None = None, positive: str = "mean-field"
    ) -> None:
        if positive not in _POSITIVE:
            raise unknown("positive", positive, _POSITIVE)
        if k < 1 or iterations < 1 or (chains is not None and chains < 1):
            raise InvalidOption(f"k, iterations, chains: expected at least 1, found {k}, {iterations}, {chains}")
        self.k, self.iterations, self.chains, self.positive = k, iterations, chains, positive

    def config(self) -> dict[str, Any]:
        chains = {} if self.chains is None else {"chains": self.chains}
        positive = {} if self.positive == _POSITIVE[0] else {"positive": self.positive}
        return {**super().config(), "k": self.k, "iterations": self.iterations, **chains, **positive}

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        if machine.visible.conserving(start) is not machine.visible:
            raise InvalidOption(
                f"DeepPCD expects a fixed document length: pass total=… to the visible {machine.visible.name()} units"
            )
        rows = torch.arange(self.chains or batch_size, device=machine.device) % len(start)
        self._allocate(machine, batch_size, machine.initial_state(start[rows], generator))

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        rows = torch.arange(self.chains or batch_size, device=machine.device) % self._n_chains
        above = self._above
        self._allocate(machine, batch_size, [x[rows] for x in self._state])
        self._above = above

    def _allocate(self, machine: BoltzmannMachine, batch: int, state: State) -> None:
        units, chains = machine.layers, len(state[0])
        n = batch + chains
        # data: the batch and its mean field; chains: states of even layers, means of odd ones
        self._x = [new_buffer(machine, n + SPARE_ROWS, unit) for unit in units]
        self._set_rows(machine, self._x[0][:n], batch, chains)
        self._data, self._model = [x[:batch] for x in self._x], [x[batch:n] for x in self._x]
        self._fields, self._extra = ([new_buffer(machine, n, unit) for unit in units] for _ in range(2))
        self._held = new_buffer(machine, batch, units[1])  # the field of the batch on the first hidden layer
        self._state = [new_buffer(machine, chains, unit) if k % 2 else self._model[k] for k, unit in enumerate(units)]
        sampled = self.positive == "gibbs"  # then, as for the chains, odd layers have states besides their means
        self._clamped_state = [torch.zeros_like(x) if sampled and k % 2 else x for k, x in enumerate(self._data)]
        for buffer, x in zip(self._state, state, strict=True):
            buffer.copy_(x)
        self._above = self._fields_from_above(machine, self._state)
        self.coupling_gradients = learned_couplings(machine)
        # every coupling joins an even and an odd layer; the factor of the odd one has the signs
        self._signed = {k: torch.zeros_like(self._x[k + 1 - k % 2]) for k in self.coupling_gradients}

    @torch.no_grad()
    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        couplings = _rounded_once(machine.couplings)
        self._clamp(machine, couplings, generator)
        self._advance(machine, couplings, generator)
        for k, unit in enumerate(machine.layers):
            self._write(unit, self._x[k][: self._n], partial(self._statistics, k, unit))
        for k, link in self.coupling_gradients.items():
            n, odd, signed = self._n, k + 1 - k % 2, self._signed[k]
            torch.mul(self._x[odd][:n], self._signs_of(machine.layers[odd]), out=signed[:n])
            if k % 2:
                link.set_factors(signed, self._x[k + 1], n)
            else:  # the spare rows of a layer between two couplings belong to the one below
                link.set_factors(self._x[k] if k == 0 else self._x[k][:n], signed, n)

    def _statistics(self, k: int, unit: Unit) -> dict[str, Tensor]:
        """Return the statistics of a layer for all rows: expected ones in mean field, observed ones of states."""
        if k == 0:
            return unit.statistics(self._x[0][: self._n])
        if k % 2:
            return unit.moments(self._fields[k], mean=self._x[k][: self._n])
        if self.positive == "gibbs":
            return unit.statistics(self._x[k][: self._n])
        data = unit.moments(self._fields[k][: self._n_batch], mean=self._data[k])
        model = unit.statistics(self._model[k])
        return {name: torch.cat([value, model[name]]) for name, value in data.items()}

    def _clamp(self, machine: BoltzmannMachine, couplings: Sequence[Coupling], generator: Generator | None) -> None:
        """Compute the mean field, or sample the hidden layers, with the visible layer clamped to the batch."""
        depth, x, sampled = machine.depth, self._clamped_state, self.positive == "gibbs"
        couplings[0].up_(self._data[0], self._held)
        # the first iteration begins with the even layers; that would repeat the upward pass to an even top layer
        for k in range(1, depth - 1 if depth % 2 else depth):
            field = self._field_of_data(couplings, k, above=False)
            if k in self._above:
                field += self._above[k]
            if sampled:
                machine.layers[k].sample_(field, x[k], generator)
            else:
                machine.layers[k].mean_(field, x[k])
        for iteration in range(self.iterations):
            for k in (*range(2, depth, 2), *range(1, depth, 2)):
                field = self._field_of_data(couplings, k)
                if sampled and (k % 2 == 0 or iteration < self.iterations - 1):
                    machine.layers[k].sample_(field, x[k], generator)
                else:
                    machine.layers[k].mean_(field, self._data[k])
        for k, mean in self._above.items():
            torch.mean(self._extra[k][: len(self.batch)], 0, out=mean)
        if not bool(torch.isfinite(self._data[-1].sum())):
            raise Diverged("the hidden layers given the batch are not finite")

    def _advance(self, machine: BoltzmannMachine, couplings: Sequence[Coupling], generator: Generator | None) -> None:
        """Update the chains, even layers first, and compute the means of the odd layers given the even layers."""
        chains = slice(self._n_batch, None)
        for sweep in range(self.k):
            for parity in (0, 1):
                layers = range(parity, machine.depth, 2)
                fields = {k: self._field(couplings, k, self._state, chains) for k in layers}
                means = {}
                if parity == 1 and sweep == self.k - 1:
                    means = {k: machine.layers[k].mean_(fields[k], self._model[k]) for k in layers}
                half_sweep(machine, self._state, parity, generator, fields=fields, means=means, in_place=True)

    def _field_of_data(self, couplings: Sequence[Coupling], k: int, above: bool = True) -> Tensor:
        """Write the field on hidden layer k of the batch into a buffer; without the layer above if not ``above``."""
        held = self._held if k == 1 else None
        return self._field(couplings, k, self._clamped_state, slice(self._n_batch), held, above)

    def _field(
        self,
        couplings: Sequence[Coupling],
        k: int,
        state: State,
        rows: slice,
        held: Tensor | None = None,
        above: bool = True,
    ) -> Tensor:
        """Write the field on layer k from its neighbors into a buffer; ``held`` is the part of the layer below."""
        field, extra = self._fields[k][rows], self._extra[k][rows]
        if held is not None:
            field.copy_(held)
        elif k > 0:
            couplings[k - 1].up_(state[k - 1], field)
        else:
            return couplings[0].down_(state[1], field)
        if above and k < len(couplings):
            field += couplings[k].down_(state[k + 1], extra)
        return field

    def _fields_from_above(self, machine: BoltzmannMachine, state: State) -> dict[int, Tensor]:
        """Return the mean field of the layer above on every hidden layer but the last."""
        return {k: machine.couplings[k].down(state[k + 1]).mean(0).detach() for k in range(1, machine.depth - 1)}

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return [hidden[: len(self.batch)].mean(0) for hidden in self._data[1:]]

    def chain_states(self) -> Tensor | None:
        return self._state[0]

    def state_dict(self) -> dict[str, Any]:
        above = [self._above[k].clone() for k in sorted(self._above)]
        return {"state": [x.clone() for x in self._state], "above": above}

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        for buffer, x in zip(self._state, state["state"], strict=True):
            buffer.copy_(x)
        self._above = self._fields_from_above(machine, self._state)  # older files have only the states
        for k, mean in enumerate(state.get("above", ()), start=1):
            self._above[k].copy_(mean)


def _rounded_once(couplings: Sequence[Coupling]) -> list[Coupling]:
    """Return the couplings with weights rounded to bfloat16 if products are; autocast would round them every time."""
    if not torch.is_autocast_enabled(couplings[0].weight.device.type):
        return list(couplings)
    return [coupling.with_weight(coupling.weight.detach().bfloat16()) for coupling in couplings]
