"""Persistent contrastive divergence for deep machines, with Gibbs sampling or clamped mean field for the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from ...checks import count
from ...couplings import Coupling
from ...errors import Diverged, InvalidOption, unknown
from ...machines import RBM, BoltzmannMachine
from ...machines.kernel import half_sweep
from ...units import Unit
from ..gradient import SPARE_ROWS, CouplingGradient, Gradient, contract, only_bias, unit_gradient
from ..sample import Memory, buffer, per_row
from .base import Batch, NegativePhase, State, cycled

_POSITIVE = ("gibbs", "mean-field")
_EXTRA = 2  # rows of the factors that reduce noise


@dataclass(frozen=True)
class DeepPCD(NegativePhase):
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
    supports_bfloat16: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positive not in _POSITIVE:
            raise unknown("positive", self.positive, _POSITIVE)
        if count("iterations", self.iterations) < 1:
            raise InvalidOption(f"iterations: expected at least 1, found {self.iterations}")

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        if machine.visible.conserving(rows) is not machine.visible:
            raise InvalidOption(
                f"DeepPCD expects a fixed document length: pass total=… to the visible {machine.visible.name()} units"
            )
        chains = machine.initial_state(cycled(rows, self.chains or len(rows)), generator)
        # the mean over the batch of the field from the layer above, on every hidden layer but the last
        above = [machine.couplings[k].down(chains[k + 1]).mean(0) for k in range(1, machine.depth - 1)]
        return {"chains": chains, "above": [mean.detach() for mean in above], "memory": Memory()}

    @torch.no_grad()
    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        n_data, n_model = len(batch.visible), len(state["chains"][0])
        rows: _Rows = state["memory"].get((n_data, n_model), lambda: _Rows(machine, n_data, n_model))
        couplings = _rounded_once(machine.couplings)
        rows.take(batch.visible, state["chains"])
        above = rows.clamp(self, couplings, state["above"], generator)
        rows.advance(self.k, couplings, generator)
        after = {**state, "chains": [x.clone() for x in rows.chains], "above": above}
        return rows.gradient(), after

    def by_statistics(self, batch: Batch) -> bool:
        return True

    def visible_chains(self, machine: BoltzmannMachine, state: State, generator: Generator | None) -> Tensor | None:
        return state["chains"][0]


class _Rows:
    """Batch and chains as the first and last rows of the same buffers, one for each layer."""

    def __init__(self, machine: BoltzmannMachine, n_data: int, n_model: int) -> None:
        units, n = machine.layers, n_data + n_model
        self._machine, self._n_batch, self._n = machine, n_data, n
        # states and conditional means of all rows; in mean field, the states of the batch are its means
        self._x, self._mean = ([buffer(machine, n + _EXTRA + SPARE_ROWS, unit) for unit in units] for _ in range(2))
        self._signs = self._x[0].new_full((n,), 1.0 / n_model)
        self._signs[:n_data] = -1.0 / n_data
        self._batch = [x[:n_data] for x in self._x]
        # the visible states in ``_x`` are those that the gradient uses, one half sweep before those of the chains
        self.chains = [buffer(machine, n_model, units[0]), *(x[n_data:n] for x in self._x[1:])]
        self._fields, self._extra = ([buffer(machine, n, unit) for unit in units] for _ in range(2))
        self._held = buffer(machine, n_data, units[1])  # the field of the batch on the first hidden layer
        self._signed = [torch.zeros_like(self._x[_odd(k)]) for k in range(len(machine.couplings))]

    def take(self, batch: Tensor, chains: Sequence[Tensor]) -> None:
        """Take the states of a batch and of the chains."""
        self._batch[0].copy_(batch)
        for own, x in zip(self.chains, chains, strict=True):
            own.copy_(x)

    def gradient(self) -> Gradient:
        """Return the gradient of the current states."""
        machine, n = self._machine, self._n
        units: dict[Tensor, Tensor] = {}
        for k, unit in enumerate(machine.layers):
            mean = (self._mean if k else self._x)[k][:n]
            values = {"bias": mean} if only_bias(unit) else self._statistics(k, unit)
            units |= unit_gradient(unit, {name: contract(self._signs, value) for name, value in values.items()})
        links = {k: self._link(k) for k, one in enumerate(machine.couplings) if one.weight.requires_grad}
        loss = self._loss if isinstance(machine, RBM) else None
        return Gradient(units, links, [mean[: self._n_batch].mean(0) for mean in self._mean[1:]], loss=loss)

    def _loss(self) -> Tensor:
        free_energy = self._machine.free_energy(self._x[0][: self._n].clone(), check=False)
        return -(self._signs * free_energy).sum()

    def _link(self, k: int) -> CouplingGradient:
        coupling, n, odd, signed = self._machine.couplings[k], self._n, _odd(k), self._signed[k]
        states = self._mean[odd] if k == 0 else self._x[odd]
        torch.mul(states[:n], per_row(self._signs, self._machine.layers[odd]), out=signed[:n])
        if k == 0:
            return CouplingGradient(coupling, self._x[0], signed, n)
        even = self._reduce_noise(k, odd, signed)
        if k % 2:
            return CouplingGradient(coupling, signed, even, n + _EXTRA)
        # the spare rows of a layer between two couplings belong to the one below
        return CouplingGradient(coupling, even[: n + _EXTRA], signed, n + _EXTRA)

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
        even[n], even[n + 1] = even[batch:n].mean(0), even[:batch].mean(0)
        return even

    def _statistics(self, k: int, unit: Unit) -> dict[str, Tensor]:
        """Return the statistics of a layer for all rows, expected ones for hidden layers."""
        if k == 0:
            return unit.statistics(self._x[0][: self._n])
        return unit.moments(self._fields[k], mean=self._mean[k][: self._n])

    def clamp(
        self, phase: DeepPCD, couplings: Sequence[Coupling], above: Sequence[Tensor], generator: Generator | None
    ) -> list[Tensor]:
        """Compute the mean field, or sample the hidden layers, with the visible layer clamped to the batch.

        ``above`` are mean fields from the layer above on the hidden layers but the last; returns those of this batch.
        """
        machine, batch, layers = self._machine, slice(self._n_batch), self._machine.layers
        even, odd = range(2, machine.depth, 2), range(1, machine.depth, 2)
        draws = phase.positive == "gibbs"
        couplings[0].up_(self._batch[0], self._held)
        # an even top layer is the first to be updated after this upward pass, so it needs no initial state
        for k in range(1, machine.depth - (machine.depth - 1 in even)):
            field = self._field(couplings, k, batch, from_above=False)
            if k <= len(above):
                field += above[k - 1]
            self._respond(layers[k], k, batch, generator, draws)
        for _ in range(phase.iterations):
            for k in (*even, *odd):
                self._field(couplings, k, batch)
                self._respond(layers[k], k, batch, generator, draws)
        if draws:  # the means of the even layers given the last states of the odd ones
            for k in even:
                layers[k].mean_(self._field(couplings, k, batch), self._mean[k][batch])
        if not bool(torch.isfinite(self._mean[-1][batch].sum())):
            raise Diverged("the hidden layers given the batch are not finite")
        return [torch.mean(self._extra[k][: self._n_batch], 0) for k in range(1, machine.depth - 1)]

    def _respond(self, unit: Unit, k: int, batch: slice, generator: Generator | None, draws: bool) -> None:
        """Write the means of a layer in its field, and its states: a sample, or in mean field the means."""
        mean = unit.mean_(self._fields[k][batch], self._mean[k][batch])
        if draws:
            unit.sample_(self._fields[k][batch], self._batch[k], generator, mean=mean)
        else:
            self._batch[k].copy_(mean)

    def advance(self, sweeps: int, couplings: Sequence[Coupling], generator: Generator | None) -> None:
        """Update the chains: the odd layers given the even layers, then the even layers given the odd layers."""
        machine, chains = self._machine, slice(self._n_batch, self._n)
        for _ in range(sweeps):
            self._x[0][chains].copy_(self.chains[0])
            for parity in (1, 0):
                layers = range(parity, machine.depth, 2)
                fields = {k: self._field(couplings, k, chains) for k in layers}
                means = {k: machine.layers[k].mean_(fields[k], self._mean[k][chains]) for k in layers if k > 0}
                half_sweep(machine, self.chains, parity, generator, fields=fields, means=means, in_place=True)

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


def _odd(coupling: int) -> int:
    """Return the odd one of the two layers of a coupling."""
    return coupling + 1 - coupling % 2


def _rounded_once(couplings: Sequence[Coupling]) -> list[Coupling]:
    """Return the couplings with weights rounded to bfloat16 if products are; autocast would round them every time."""
    if not torch.is_autocast_enabled(couplings[0].weight.device.type):
        return list(couplings)
    return [coupling.with_weight(coupling.weight.detach().bfloat16()) for coupling in couplings]
