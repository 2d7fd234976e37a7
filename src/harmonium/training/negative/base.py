"""Base class of negative phases, which compute the moments of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from ...checks import kebab
from ...errors import InvalidOption
from ...machines import RBM, BoltzmannMachine
from ...units import Unit
from ..gradient import CouplingGradient, write_gradient


class NegativePhase:
    """Computes the gradient of ⟨F⟩_data - F_model for one batch.

    ``begin`` is called once with the batch size. In every step the loop calls ``use`` with the number of rows, writes
    the rows to ``batch`` and calls ``evaluate``, which writes the gradients of the units to ``.grad`` of their
    parameters and those of the couplings to ``coupling_gradients``. ``hidden_means`` then returns the mean hidden
    states of the batch.
    """

    #: number of Gibbs sweeps per step; schedules may change it. Phases that do not sample ignore it.
    k: int = 1
    #: whether matrix products may be rounded to bfloat16 (see ``precision`` of ``fit``)
    supports_bfloat16: ClassVar[bool] = False
    #: whether gradients are differences of the units' statistics; if so, these may refer to the origin of a unit
    by_statistics: bool = False
    #: whether the phase can train a machine with a context
    conditional: ClassVar[bool] = False
    #: whether the phase makes the machine a model of all visible units, so that its samples resemble the data
    generative: bool = True
    #: buffer for a full batch
    data_slot: Tensor
    #: the rows of ``data_slot`` in use: all of them, or fewer for the last batch of an epoch
    batch: Tensor
    #: buffer for the context of a full batch, and its rows in use; ``None`` for a machine without a context
    context_slot: Tensor | None = None
    context: Tensor | None = None
    #: the gradients of the couplings whose weights are learned, by the index of the coupling
    coupling_gradients: dict[int, CouplingGradient]
    #: the gradients of the couplings of the context that are learned, by the layer that they act on
    context_gradients: Mapping[int, CouplingGradient] = MappingProxyType({})

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        """Prepare for batches of ``batch_size`` rows; ``start`` (n, *visible) are some rows of the data."""
        raise NotImplementedError

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        """Change the batch size; the chains are kept."""
        raise NotImplementedError

    def use(self, rows: int) -> None:
        """Use the first ``rows`` rows of ``data_slot`` as the batch."""
        self.batch = self.data_slot[:rows]
        if self.context_slot is not None:
            self.context = self.context_slot[:rows]

    @property
    def rows(self) -> Any:
        """The buffers that :meth:`Source.take` writes to: the batch, or the batch and its context."""
        return self.batch if self.context is None else (self.batch, self.context)

    @property
    def all_gradients(self) -> list[CouplingGradient]:
        """The gradients of all couplings that are learned."""
        return [*self.coupling_gradients.values(), *self.context_gradients.values()]

    def complete(self, machine: BoltzmannMachine, missing: Tensor, sweeps: int, generator: Generator | None) -> None:
        """Replace the entries ``missing`` of ``batch`` by draws given the others, by Gibbs sweeps."""
        complete(machine, self.batch, missing, sweeps, generator)

    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        """Compute the gradient for the rows in ``batch``."""
        raise NotImplementedError

    def gradient(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        """Compute the gradient for the rows in ``batch`` and write all of it to ``.grad``."""
        self.evaluate(machine, generator)
        for link in self.all_gradients:
            link.dense()

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        """Return the mean state of every hidden layer over the batch of the last step."""
        raise NotImplementedError

    def chain_states(self) -> Tensor | None:
        """Return the visible states of the chains, (chains, *visible), or None if the phase has no chains."""
        return None

    def loss(self, machine: BoltzmannMachine, data: Tensor) -> Tensor | None:
        """Return the loss whose gradient the last step computed for the batch ``data``, a differentiable scalar.

        It is used in tests only. By default ⟨F⟩_data - ⟨F⟩_chains, or None if the phase has no chains.
        """
        chains = self.chain_states()
        if chains is None:
            return None
        rbm = as_rbm(machine, type(self).__name__)
        return rbm.free_energy(data, check=False).mean() - rbm.free_energy(chains.clone(), check=False).mean()

    def objective(self, machine: BoltzmannMachine, data: Tensor) -> Tensor:
        """Return the exact mean log-probability that training increases, for small machines: by default of the data."""
        return as_rbm(machine, type(self).__name__).log_probability(data).mean()

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resume."""
        return {}

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        """Restore the state returned by :meth:`state_dict`."""

    @property
    def kind(self) -> str:
        """The name that must not change when a run is resumed."""
        return type(self).__name__

    def config(self) -> dict[str, Any]:
        """Return the name and options of the phase, for the run's configuration."""
        options = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        return {"name": kebab(type(self).__name__), **{key: x for key, x in options.items() if x is not None}}


def learned_couplings(machine: BoltzmannMachine) -> dict[int, CouplingGradient]:
    """Return a gradient object for every coupling whose weights are learned, by the index of the coupling."""
    return {
        k: CouplingGradient(coupling) for k, coupling in enumerate(machine.couplings) if coupling.weight.requires_grad
    }


def learned_context(machine: BoltzmannMachine) -> dict[int, CouplingGradient]:
    """Return a gradient object for every coupling of the context that is learned, by the layer it acts on."""
    couplings = machine.context_couplings
    return {k: CouplingGradient(coupling) for k, coupling in couplings.items() if coupling.weight.requires_grad}


def as_rbm(machine: BoltzmannMachine, what: str) -> RBM:
    """Return the machine if it is an RBM, else raise ``InvalidOption``."""
    if not isinstance(machine, RBM):
        raise InvalidOption(f"{what} expects an RBM (two layers), found {type(machine).__name__}")
    return machine


def write_unit_gradient(unit: Unit, gradients: dict[str, Tensor]) -> None:
    """Write gradients with respect to a unit's natural parameters to ``.grad`` of its stored parameters."""
    if unit.members == [unit] and only_bias(unit):  # the general case needs automatic differentiation
        write_bias_gradient(unit, gradients["bias"])
        return
    for parameter in unit.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    unit.accumulate_gradient(gradients)


def write_bias_gradient(unit: Unit, total: Tensor) -> None:
    """Write the gradient (*shape) with respect to the biases of a layer, stored as they are, also if it is mixed."""
    for member, own in unit.by_member(total.unsqueeze(0)):
        if member.bias.requires_grad:
            write_gradient(member.bias, member.shared_sum(own[0]))


def only_bias(unit: Unit) -> bool:
    """Return whether the unit learns at most its biases, which allows a faster computation."""
    biases = {id(bias) for bias in unit.biases()}
    return all(id(parameter) in biases for parameter in unit.parameters() if parameter.requires_grad)


@torch.no_grad()
def complete(machine: Any, rows: Tensor, missing: Tensor, sweeps: int, generator: Generator | None) -> None:
    """Replace the entries ``missing`` of ``rows`` (n, *visible) by draws given the others: Gibbs sweeps of an RBM."""
    rbm, state = as_rbm(machine, "completion of missing values"), [rows, rows]
    for _ in range(sweeps):
        state = rbm.sweep(state, generator, held={0: ~missing})  # draws the hidden layer first
    rows.copy_(state[0])
