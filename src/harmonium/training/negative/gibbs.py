"""Negative phases by Gibbs sampling: contrastive divergence, persistent chains, and reconstruction without draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from ...machines import RBM, BoltzmannMachine
from ...units import Unit
from ..gradient import Gradient
from ..sample import Memory, Sample
from .base import Batch, NegativePhase, State, as_rbm, cycled
from .context import ContextRows


@dataclass(frozen=True)
class CD(NegativePhase):
    """Contrastive divergence (Hinton 2002): k Gibbs sweeps that start at the rows of each batch.

    Given a context, the chain of a row has the context of this row.

    >>> CD(10)
    CD(k=10)
    """

    k: int = 1
    conditional: ClassVar[bool] = True
    supports_bfloat16: ClassVar[bool] = True

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        as_rbm(machine, self)
        return {"memory": Memory()}

    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        rbm, n = as_rbm(machine, self), len(batch.visible)
        sample = state["memory"].get(n, lambda: Sample(rbm, n, n))
        given = None
        if batch.context is not None:
            given = state["memory"].get(("context", n), lambda: ContextRows(rbm, n))
            given.take(batch.context)
        sample.data.copy_(batch.visible)
        self._chains(sample, sample.coupling if given is None else given, generator)
        gradient = sample.gradient()
        if given is not None:
            gradient.context = given.gradients(sample)
            gradient.loss = None
        return gradient, state

    def _chains(self, sample: Sample, coupling: Any, generator: Generator | None) -> None:
        """Write the states of the model, one chain for each row of the data, and all fields and means."""
        visible, hidden, h, v = sample.layers[0].conserving(sample.data), sample.layers[1], sample.hidden, sample.model
        coupling.up_(sample.data, sample.data_field)
        hidden.mean_(sample.data_field, sample.data_mean)
        self._update(hidden, sample.data_field, h, generator, sample.data_mean)
        for sweep in range(self.k):
            if sweep:
                self._update(hidden, sample.model_field, h, generator, None)
            self._update(visible, coupling.down_(h, sample.reverse), v, generator, None)
            coupling.up_(v, sample.model_field)
        hidden.mean_(sample.model_field, sample.model_mean)

    def _update(self, unit: Unit, field: Tensor, out: Tensor, generator: Generator | None, mean: Tensor | None) -> None:
        """Write new states of a layer in a field, with its mean if known, to ``out``; the field may be overwritten."""
        unit.sample_(field, out, generator, mean=mean)

    def by_statistics(self, batch: Batch) -> bool:
        return True


@dataclass(frozen=True)
class Reconstruction(CD):
    """Contrastive divergence with means instead of draws: no noise, but biased (Hwang, Hwang & Jo 2020, section 3.2).

    The model's states are reconstructions of the batch, v' = f_v(W f_h(Wᵀv)), repeated k times, where f_v and f_h are
    the means of the two layers in their fields. They carry no noise of the sampling, and none of its variance either:
    do not use this phase to learn a precision or another statistic that is not linear in the states. The likelihood is
    lower than with :class:`CD`, by several nats for units with many levels (``docs/multinary.md``).

    >>> Reconstruction()
    Reconstruction(k=1)
    """

    def _update(self, unit: Unit, field: Tensor, out: Tensor, generator: Generator | None, mean: Tensor | None) -> None:
        if mean is None:
            unit.mean_(field, out)
        else:
            out.copy_(mean)


@dataclass(frozen=True)
class PCD(NegativePhase):
    """Persistent contrastive divergence (Tieleman 2008): chains continue from step to step, with k sweeps per step.

    The *hidden* states of the chains are stored, which saves one matrix product per step. For documents of different
    lengths use :class:`CD`: a chain takes the length of another document in every step, and is never in equilibrium.

    >>> PCD(1, chains=500)
    PCD(k=1, chains=500)
    """

    k: int = 1
    chains: int | None = None
    supports_bfloat16: ClassVar[bool] = True

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        rbm = as_rbm(machine, self)
        start = cycled(rows, self.chains or len(rows))
        h = rbm.hidden.sample(rbm.coupling.up(start), generator=generator)
        return {"h": h.contiguous(), "memory": Memory()}

    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        rbm, h, n = as_rbm(machine, self), state["h"], len(batch.visible)
        sample: Sample = state["memory"].get((n, len(h)), lambda: Sample(rbm, n, len(h)))
        sample.data.copy_(batch.visible)
        (visible, hidden), coupling = sample.layers, sample.coupling
        if visible.conserves:  # the chains must have the same document lengths as the batch
            visible = visible.conserving(cycled(batch.visible, len(h)))
        for sweep in range(self.k):
            if sweep:
                h = hidden.sample_(coupling.up_(sample.model, sample.model_field), sample.hidden, generator)
            visible.sample_(coupling.down_(h, sample.reverse), sample.model, generator)
        sample.complete()
        after = torch.empty_like(sample.hidden)
        hidden.sample_(sample.model_field, after, generator, mean=sample.model_mean)
        return sample.gradient(), {**state, "h": after}

    def by_statistics(self, batch: Batch) -> bool:
        return True

    def visible_chains(self, machine: BoltzmannMachine, state: State, generator: Generator | None) -> Tensor | None:
        rbm = as_rbm(machine, self)
        return rbm.visible.sample(rbm.coupling.down(state["h"]), generator=generator)


@dataclass(frozen=True)
class Sampled(NegativePhase):
    """Base class of phases whose chains move in any other way; a subclass is a frozen dataclass with :meth:`move`."""

    k: int = 1
    chains: int | None = None
    supports_bfloat16: ClassVar[bool] = True

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        as_rbm(machine, self)
        return {"v": cycled(rows, self.chains or len(rows)).clone(), "memory": Memory()}

    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        rbm, n = as_rbm(machine, self), len(batch.visible)
        state = self.advance(rbm, state, generator)
        v = state["v"]
        sample: Sample = state["memory"].get((n, len(v)), lambda: Sample(rbm, n, len(v)))
        sample.data.copy_(batch.visible)
        sample.model.copy_(v)
        return sample.complete().gradient(), state

    def advance(self, rbm: RBM, state: State, generator: Generator | None) -> State:
        """Return the state after ``k`` moves; its entry ``v`` (chains, *visible) are the states of the model."""
        return {**state, "v": self.moves(rbm, state["v"], generator)}

    def moves(self, rbm: RBM, v: Tensor, generator: Generator | None) -> Tensor:
        """Return the visible states of the chains after ``k`` moves, (chains, *visible) -> (chains, *visible)."""
        for _ in range(self.k):
            v = self.move(rbm, v, generator)
        return v

    def move(self, rbm: RBM, v: Tensor, generator: Generator | None) -> Tensor:
        """Return the next visible states of the chains, (chains, *visible) -> (chains, *visible).

        A move must leave p(v) invariant; ``harmonium.testing.check_negative_phase`` checks this.
        """
        raise NotImplementedError(f"{type(self).__name__}: a sampled phase must define move or advance")

    def by_statistics(self, batch: Batch) -> bool:
        return True

    def visible_chains(self, machine: BoltzmannMachine, state: State, generator: Generator | None) -> Tensor | None:
        return state["v"]
