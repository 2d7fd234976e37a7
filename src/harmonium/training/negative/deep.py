"""Persistent contrastive divergence for deep machines, with Gibbs sampling or clamped mean field for the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from ...checks import count
from ...couplings import Coupling
from ...errors import Diverged, InvalidOption, unknown
from ...machines import BoltzmannMachine
from ...machines.kernel import State, half_sweep
from ...units import Unit
from ..state import restored
from .base import learned_couplings
from .signed import SPARE_ROWS, SignedRows, new_buffer

_POSITIVE = ("gibbs", "mean-field")
_EXTRA = 2  # rows of the factors that reduce noise


@dataclass
class DeepPCD(SignedRows):
    """PCD for deep machines: persistent chains for the model; Gibbs sampling or clamped mean field for the data.

    See Salakhutdinov & Hinton (2009). The moments of the model come from persistent Gibbs chains. For every coupling,
    one of the two layers is averaged given the other: the first hidden layer given the visible one, and even layers
    given the hidden layers next to them. A layer that is hardly coupled yet then causes hardly any noise. The hidden
    layers given the batch come from one of two methods:

    * ``positive="gibbs"``: Gibbs sampling with the visible layer held. The gradient is that of the likelihood, as far
      as ``iterations`` sweeps reach the conditional distribution, with more noise.
    * ``positive="mean-field"``: naive mean field, which maximizes a lower bound of ln p*(v). It neglects correlations
      of the hidden layers given the data. This acts like a weight decay ½ W² ⟨c⟩⟨c'⟩ of the couplings between hidden
      layers, where c and c' are the variances of two hidden units given the data: a coupling is learned only if it
      gains more than that.

    Both start with an upward pass in which the field from the layer above is the mean over the batch of the previous
    step. This is close to the result, so that few iterations suffice.

    Args:
        k: number of Gibbs sweeps of the chains per step.
        iterations: number of Gibbs sweeps or mean-field iterations of the hidden layers given the batch.
        chains: number of chains; the batch size if None.
        positive: method for the hidden layers given the batch, "gibbs" or "mean-field".

    >>> DeepPCD(1, positive="mean-field", iterations=10)
    DeepPCD(k=1, iterations=10, chains=None, positive='mean-field')
    """

    k: int = 1
    _: KW_ONLY
    iterations: int = 1
    chains: int | None = None
    positive: str = "gibbs"

    def __post_init__(self) -> None:
        k, iterations, chains = self.k, self.iterations, self.chains
        if self.positive not in _POSITIVE:
            raise unknown("positive", self.positive, _POSITIVE)
        if min(count("k", k), count("iterations", iterations), 1 if chains is None else count("chains", chains)) < 1:
            raise InvalidOption(f"k, iterations, chains: expected at least 1, found {k}, {iterations}, {chains}")
        #: mean field from the layer above on the hidden layers, by layer index
        self._above: dict[int, Tensor] = {}

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
        self._allocate(machine, batch_size, [x[rows] for x in self._chains])
        self._above = above

    def _allocate(self, machine: BoltzmannMachine, batch: int, state: State) -> None:
        units, n = machine.layers, batch + len(state[0])
        # states and conditional means of all rows; in mean field, the states of the batch are its means
        self._x, self._mean = ([new_buffer(machine, n + _EXTRA + SPARE_ROWS, unit) for unit in units] for _ in range(2))
        self._set_rows(machine, self._x[0][:n], batch, len(state[0]))
        self._batch = [x[:batch] for x in self._x]
        # the visible states in ``_x`` are those that the gradient uses, one half sweep before those of the chains
        self._chains = [new_buffer(machine, n - batch, units[0]), *(x[batch:n] for x in self._x[1:])]
        self._fields, self._extra = ([new_buffer(machine, n, unit) for unit in units] for _ in range(2))
        self._held = new_buffer(machine, batch, units[1])  # the field of the batch on the first hidden layer
        self._set_chains(machine, state)
        self.coupling_gradients = learned_couplings(machine)
        self._signed = {k: torch.zeros_like(self._x[_odd(k)]) for k in self.coupling_gradients}

    def _set_chains(self, machine: BoltzmannMachine, state: State) -> None:
        for buffer, x in zip(self._chains, state, strict=True):
            buffer.copy_(restored(x, buffer))
        self._x[0][self._n_batch : self._n].copy_(state[0])
        self._above = self._fields_from_above(machine, self._chains)

    @torch.no_grad()
    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        couplings, n = _rounded_once(machine.couplings), self._n
        self._clamp(machine, couplings, generator)
        self._advance(machine, couplings, generator)
        for k, unit in enumerate(machine.layers):
            self._write(unit, (self._mean if k else self._x)[k][:n], partial(self._statistics, k, unit))
        for k, link in self.coupling_gradients.items():
            odd, signed = _odd(k), self._signed[k]
            states = self._mean[odd] if k == 0 else self._x[odd]
            torch.mul(states[:n], self._signs_of(machine.layers[odd]), out=signed[:n])
            if k == 0:
                link.set_factors(self._x[0], signed, n)
                continue
            even = self._reduce_noise(k, odd, signed)
            if k % 2:
                link.set_factors(signed, even, n + _EXTRA)
            else:  # the spare rows of a layer between two couplings belong to the one below
                link.set_factors(even[: n + _EXTRA], signed, n + _EXTRA)

    def _reduce_noise(self, k: int, odd: int, signed: Tensor) -> Tensor:
        """Add rows to the factors of a coupling, such that the even layer acts by its deviation from a mean λ.

        That is Σ s (⟨x⟩ λᵀ + x (⟨y⟩ - λ)ᵀ) for states x of the odd layer with means ⟨x⟩, instead of Σ s x ⟨y⟩ᵀ. The
        expected value is the same for a λ that is independent of x - ⟨x⟩, here the mean of the other rows (batch or
        chains). Centering then leaves no noise of x if ⟨y⟩ is nearly constant.
        """
        n, batch, even = self._n, self._n_batch, self._mean[2 * k + 1 - odd]
        difference = torch.sub(self._mean[odd][:n], self._x[odd][:n], out=self._extra[odd]).flatten(1)
        for row, rows in ((n, slice(batch)), (n + 1, slice(batch, n))):
            signed[row] = torch.mv(difference[rows].T, self._signs[rows]).view(signed[row].shape)
        even[n], even[n + 1] = even[batch:n].mean(0), even[: len(self.batch)].mean(0)
        return even

    def _statistics(self, k: int, unit: Unit) -> dict[str, Tensor]:
        """Return the statistics of a layer for all rows, expected ones for hidden layers."""
        if k == 0:
            return unit.statistics(self._x[0][: self._n])
        return unit.moments(self._fields[k], mean=self._mean[k][: self._n])

    def _clamp(self, machine: BoltzmannMachine, couplings: Sequence[Coupling], generator: Generator | None) -> None:
        """Compute the mean field, or sample the hidden layers, with the visible layer clamped to the batch."""
        batch, layers = slice(self._n_batch), machine.layers
        even, odd = range(2, machine.depth, 2), range(1, machine.depth, 2)
        couplings[0].up_(self._batch[0], self._held)
        # an even top layer is the first to be updated after this upward pass, so it needs no initial state
        for k in range(1, machine.depth - (machine.depth - 1 in even)):
            field = self._field(couplings, k, batch, from_above=False)
            if k in self._above:
                field += self._above[k]
            self._respond(layers[k], k, batch, generator)
        for _ in range(self.iterations):
            for k in (*even, *odd):
                self._field(couplings, k, batch)
                self._respond(layers[k], k, batch, generator)
        if self.positive == "gibbs":  # the means of the even layers given the last states of the odd ones
            for k in even:
                layers[k].mean_(self._field(couplings, k, batch), self._mean[k][batch])
        for k, mean in self._above.items():
            torch.mean(self._extra[k][: len(self.batch)], 0, out=mean)
        if not bool(torch.isfinite(self._mean[-1][batch].sum())):
            raise Diverged("the hidden layers given the batch are not finite")

    def _respond(self, unit: Unit, k: int, batch: slice, generator: Generator | None) -> None:
        """Write the means of a layer in its field, and its states: a sample, or in mean field the means."""
        mean = unit.mean_(self._fields[k][batch], self._mean[k][batch])
        if self.positive == "gibbs":
            unit.sample_(self._fields[k][batch], self._batch[k], generator, mean=mean)
        else:
            self._batch[k].copy_(mean)

    def _advance(self, machine: BoltzmannMachine, couplings: Sequence[Coupling], generator: Generator | None) -> None:
        """Update the chains: the odd layers given the even layers, then the even layers given the odd layers."""
        chains = slice(self._n_batch, self._n)
        for _ in range(self.k):
            self._x[0][chains].copy_(self._chains[0])
            for parity in (1, 0):
                layers = range(parity, machine.depth, 2)
                fields = {k: self._field(couplings, k, chains) for k in layers}
                means = {k: machine.layers[k].mean_(fields[k], self._mean[k][chains]) for k in layers if k > 0}
                half_sweep(machine, self._chains, parity, generator, fields=fields, means=means, in_place=True)

    def _field(self, couplings: Sequence[Coupling], k: int, rows: slice, from_above: bool = True) -> Tensor:
        """Write the field of the neighbors on layer k into a buffer and return it."""
        field, extra = self._fields[k][rows], self._extra[k][rows]
        if k == 0:
            return couplings[0].down_(self._x[1][rows], field)
        if k == 1 and rows.start is None:
            field.copy_(self._held)
        else:
            couplings[k - 1].up_(self._x[k - 1][rows], field)
        if from_above and k < len(couplings):
            field += couplings[k].down_(self._x[k + 1][rows], extra)
        return field

    def _fields_from_above(self, machine: BoltzmannMachine, state: State) -> dict[int, Tensor]:
        """Return the mean field of the layer above on every hidden layer but the last."""
        return {k: machine.couplings[k].down(state[k + 1]).mean(0).detach() for k in range(1, machine.depth - 1)}

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return [mean[: len(self.batch)].mean(0) for mean in self._mean[1:]]

    def chain_states(self) -> Tensor | None:
        return self._x[0][self._n_batch : self._n]  # those of the gradient

    def state_dict(self) -> dict[str, Any]:
        above = [self._above[k].clone() for k in sorted(self._above)]
        return {"state": [x.clone() for x in self._chains], "above": above}

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        self._set_chains(machine, state["state"])
        for k, mean in enumerate(state.get("above", ()), start=1):
            self._above[k].copy_(restored(mean, self._above[k]))


def _odd(coupling: int) -> int:
    """Return the odd one of the two layers of a coupling."""
    return coupling + 1 - coupling % 2


def _rounded_once(couplings: Sequence[Coupling]) -> list[Coupling]:
    """Return the couplings with weights rounded to bfloat16 if products are; autocast would round them every time."""
    if not torch.is_autocast_enabled(couplings[0].weight.device.type):
        return list(couplings)
    return [coupling.with_weight(coupling.weight.detach().bfloat16()) for coupling in couplings]
