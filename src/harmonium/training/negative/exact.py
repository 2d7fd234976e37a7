"""Exact negative phase by enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from ...machines import RBM, BoltzmannMachine, GivenRBM, enumeration, partial
from ..gradient import write_gradient
from .base import NegativePhase, as_rbm, learned_context, learned_couplings, write_unit_gradient


@dataclass
class Exact(NegativePhase):
    """Exact F_model = -ln Z by enumeration: maximum likelihood for small machines, and the reference in tests.

    Given a context, the loss is the mean of -ln p(v | u), with an enumeration for each row; its gradient is computed by
    automatic differentiation.

    >>> Exact()
    Exact()
    """

    _missing: ClassVar[Tensor | None] = None  # mask of the missing values of the batch
    conditional: ClassVar[bool] = True

    @property
    def by_statistics(self) -> bool:  # type: ignore[override]
        """False for rows with a context or missing values, whose gradients come from automatic differentiation."""
        return self._missing is None and self.context is None

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        as_rbm(machine, "Exact")
        self._states = enumeration.kept_states(machine)
        self.resize(machine, batch_size)

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        self.coupling_gradients = learned_couplings(machine)
        self.data_slot = torch.zeros(batch_size, *machine.visible.shape, dtype=machine.dtype, device=machine.device)
        if machine.context is not None:
            self.context_gradients = learned_context(machine)
            self.context_slot = self.data_slot.new_zeros(batch_size, *machine.context)
        self.use(batch_size)

    def complete(self, machine: BoltzmannMachine, missing: Tensor, sweeps: int, generator: Generator | None) -> None:
        self._missing = missing  # type: ignore[misc]  # summed out in evaluate

    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        rbm = as_rbm(machine, "Exact")
        if self.context is not None:
            self._evaluate_given(rbm)
            return
        layers, links = enumeration.moments(rbm, self._states)
        if self._missing is not None:
            self._evaluate_observed(rbm, layers, links, self._missing)
            self._missing = None  # type: ignore[misc]
            return
        field = rbm.coupling.up(self.batch)
        self._hidden = rbm.hidden.mean(field)
        data = (rbm.visible.statistics(self.batch), rbm.hidden.moments(field, mean=self._hidden))
        for unit, model, batch in zip(rbm.layers, layers, data, strict=True):
            write_unit_gradient(unit, {name: model[name] - value.mean(0) for name, value in batch.items()})
        for k, link in self.coupling_gradients.items():
            link.set_dense(links[k] - rbm.coupling.correlate(self.batch, self._hidden, scale=1 / len(self._hidden)))

    def _evaluate_observed(
        self, rbm: RBM, layers: list[dict[str, Tensor]], links: list[Tensor], missing: Tensor
    ) -> None:
        """Write the gradient of -⟨ln p(v_obs)⟩ for a batch with missing values."""
        rows = partial.PartialRows(self.batch.masked_fill(missing, 0.0), ~missing)
        self._hidden = partial.moments(rbm, rows).hidden
        learned = [parameter for parameter in rbm.parameters() if parameter.requires_grad]
        with torch.enable_grad():
            slopes = torch.autograd.grad(partial.log_marginal(rbm, rows).mean(), learned)
        for unit, model in zip(rbm.layers, layers, strict=True):
            write_unit_gradient(unit, model)
        for k, link in self.coupling_gradients.items():
            link.set_dense(links[k])
        for parameter, slope in zip(learned, slopes, strict=True):
            assert parameter.grad is not None
            parameter.grad -= slope

    def _evaluate_given(self, rbm: RBM) -> None:
        with torch.enable_grad():
            given, v = rbm.for_rows(self.rows)
            assert isinstance(given, GivenRBM)
            loss = (given.free_energy(v, check=False) + given.log_partitions()).mean()
            learned = [parameter for parameter in rbm.parameters() if parameter.requires_grad]
            gradients = torch.autograd.grad(loss, learned, allow_unused=True, materialize_grads=True)
        for parameter, gradient in zip(learned, gradients, strict=True):
            write_gradient(parameter, gradient)
        self._hidden = given.hidden_mean(v).detach()

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return [self._hidden.mean(0)]
