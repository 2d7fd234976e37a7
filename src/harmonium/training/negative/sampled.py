"""Negative phases by Gibbs sampling, contrastive divergence and persistent chains, and by reconstruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from ...checks import count
from ...couplings import Coupling
from ...errors import InvalidOption
from ...machines import RBM, BoltzmannMachine
from ...units import Unit
from ..state import restored
from .base import as_rbm, learned_couplings
from .context import ContextRows
from .signed import SPARE_ROWS, SignedRows, new_buffer


class Sampled(SignedRows):
    """Base class of phases that sample with Markov chains; a subclass defines :meth:`move` or :meth:`advance`.

    The batch and the chains are the first and last rows of one buffer, so a step computes all fields in one product.
    For this, the subclasses repeat the Gibbs sweep of :mod:`harmonium.machines.kernel` in place; a test compares the
    two.
    """

    #: number of chains; None means the batch size
    chains: int | None = None

    def __post_init__(self) -> None:
        if count("k", self.k) < 1 or (self.chains is not None and count("chains", self.chains) < 1):
            raise InvalidOption(f"k, chains: expected k ≥ 1 and chains ≥ 1, found k={self.k}, chains={self.chains}")

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        rbm = as_rbm(machine, type(self).__name__)
        self._allocate(rbm, batch_size, batch_size if self.chains is None else self.chains)
        rows = torch.arange(self._n_chains, device=rbm.device) % len(start)
        self._chain_v.copy_(start[rows])
        self._bound = rbm.visible.conserving(self._chain_v)
        rbm.hidden.sample_(rbm.coupling.up_(self._chain_v, self._chain_field), self._h, generator)

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        rbm = as_rbm(machine, type(self).__name__)
        v, h = self._chain_v.clone(), self._h
        self._allocate(rbm, batch_size, batch_size if self.chains is None else self.chains)
        rows = torch.arange(self._n_chains, device=rbm.device) % len(v)
        self._chain_v.copy_(v[rows])
        self._h.copy_(h[rows])
        self._bound = rbm.visible.conserving(self._chain_v)

    def _allocate(self, rbm: RBM, batch: int, chains: int) -> None:
        n = batch + chains
        self._lower, self._upper = (new_buffer(rbm, n + SPARE_ROWS, unit) for unit in rbm.layers)
        self._v, self._mean = self._lower[:n], self._upper[:n]
        self._set_rows(rbm, self._v, batch, chains)
        # if only the mean is needed, it overwrites the field, which saves memory traffic
        alone = rbm.hidden.samples_from_mean and self._shortcut[id(rbm.hidden)]
        self._field = self._mean if alone else new_buffer(rbm, n, rbm.hidden)
        self._visible_field, self._h = (new_buffer(rbm, chains, unit) for unit in rbm.layers)
        self._chain_v = self._v[batch:]
        self._chain_field, self._chain_mean = self._field[batch:], self._mean[batch:]
        self._parts: tuple[Unit, Unit, Coupling | ContextRows] = rbm.visible, rbm.hidden, rbm.coupling
        self.coupling_gradients = learned_couplings(rbm)

    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        rbm = as_rbm(machine, type(self).__name__)
        self.advance(rbm, generator)
        visible, hidden, _ = self._parts
        self._write(visible, self._v, lambda: visible.statistics(self._v))
        self._write(hidden, self._mean, lambda: hidden.moments(self._field, mean=self._mean))
        self._mean.mul_(self._signs_of(hidden))
        for link in self.coupling_gradients.values():
            link.set_factors(self._lower, self._upper, self._n)

    def advance(self, rbm: RBM, generator: Generator | None) -> None:
        """Update the chains, and compute ``_v``, ``_field`` and ``_mean`` of batch and chains."""
        self._chain_v.copy_(self.moves(rbm, self._chain_v, generator))
        rbm.coupling.up_(self._v, self._field)
        rbm.hidden.mean_(self._field, self._mean)

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

    def _visible_given_hidden(self, generator: Generator | None) -> None:
        self._bound.sample_(self._parts[2].down_(self._h, self._visible_field), self._chain_v, generator)

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return [self._mean[: self._n_batch].sum(0).neg_()]  # the rows are already multiplied by -1/B

    def chain_states(self) -> Tensor | None:
        return self._chain_v

    def state_dict(self) -> dict[str, Any]:
        return {"v": self._chain_v.clone(), "h": self._h.clone()}

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        self._chain_v.copy_(restored(state["v"], self._chain_v))
        self._h.copy_(restored(state["h"], self._h))
        self._bound = machine.visible.conserving(self._chain_v)


@dataclass
class CD(Sampled):
    """Contrastive divergence (Hinton 2002): k Gibbs sweeps that start at the rows of each batch.

    Given a context, the chain of a row has the context of this row.

    >>> CD(10)
    CD(k=10)
    """

    k: int = 1
    conditional: ClassVar[bool] = True

    def _allocate(self, rbm: RBM, batch: int, chains: int) -> None:
        self._given = None if rbm.context is None else ContextRows(rbm, batch)
        if self._given is not None:
            self.context_slot = self._given.slot
        super()._allocate(rbm, batch, chains)
        if self._given is not None:  # fields and gradients with the context of each row
            self._parts = rbm.visible, rbm.hidden, self._given
            self.context_gradients = self._given.gradients

    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        if self._given is not None:
            self._given.update_fields()
        super().evaluate(machine, generator)
        if self._given is not None:
            self._given.write_gradients(self._v, self._mean, self._signs)

    def use(self, rows: int) -> None:
        super().use(rows)
        self._weigh(self._signs[self._n_batch :], rows, 1.0)  # each row has its own chain

    def advance(self, rbm: RBM, generator: Generator | None) -> None:
        (_, hidden, coupling), batch = self._parts, self._n_batch
        self._bound = self._parts[0].conserving(self.data_slot)
        field, mean = self._field[:batch], self._mean[:batch]
        coupling.up_(self.data_slot, field)
        hidden.mean_(field, mean)
        self._update(hidden, field, self._h, generator, mean)
        for step in range(self.k):
            self._update(self._bound, coupling.down_(self._h, self._visible_field), self._chain_v, generator, None)
            coupling.up_(self._chain_v, self._chain_field)
            if step < self.k - 1:
                self._update(hidden, self._chain_field, self._h, generator, None)
        hidden.mean_(self._chain_field, self._chain_mean)

    def _update(self, unit: Unit, field: Tensor, out: Tensor, generator: Generator | None, mean: Tensor | None) -> None:
        """Write new states of a layer in a field, with its mean if known, to ``out``; the field may be overwritten."""
        unit.sample_(field, out, generator, mean=mean)


@dataclass
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

    def chain_states(self) -> Tensor | None:
        return None  # reconstructions are no samples of the model


@dataclass
class PCD(Sampled):
    """Persistent contrastive divergence (Tieleman 2008): chains continue from step to step, with k sweeps per step.

    The *hidden* states of the chains are stored, which saves one matrix product per step. For documents of different
    lengths use :class:`CD`: a chain takes the length of another document in every step, and is never in equilibrium.

    >>> PCD(1, chains=500)
    PCD(k=1, chains=500)
    """

    k: int = 1
    chains: int | None = None

    def advance(self, rbm: RBM, generator: Generator | None) -> None:
        _, hidden, coupling = self._parts
        if self._bound is not self._parts[0]:  # the chains must have the same document lengths as the batch
            rows = torch.arange(self._n_chains, device=rbm.device) % len(self.batch)
            self._bound = self._parts[0].conserving(self.data_slot[rows])
        for _ in range(self.k - 1):
            self._visible_given_hidden(generator)
            hidden.sample_(coupling.up_(self._chain_v, self._chain_field), self._h, generator)
        self._visible_given_hidden(generator)
        coupling.up_(self._v, self._field)
        hidden.mean_(self._field, self._mean)
        hidden.sample_(self._chain_field, self._h, generator, mean=self._chain_mean)
