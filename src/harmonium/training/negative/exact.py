"""Exact negative phase by enumeration."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from ...machines import BoltzmannMachine, enumeration
from .base import NegativePhase, as_rbm, learned_couplings, write_unit_gradient


class Exact(NegativePhase):
    """Exact F_model = -ln Z by enumeration: maximum likelihood for small machines, and the reference in tests.

    >>> Exact().config()
    {'method': 'exact'}
    """

    by_statistics = True

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        as_rbm(machine, "Exact")
        enumeration.cheaper_parity(machine)
        self.resize(machine, batch_size)

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        self.coupling_gradients = learned_couplings(machine)
        self.data_slot = torch.zeros(batch_size, *machine.visible.shape, dtype=machine.dtype, device=machine.device)
        self.use(batch_size)

    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        rbm = as_rbm(machine, "Exact")
        layers, links = enumeration.moments(rbm)
        field = rbm.coupling.up(self.batch)
        self._hidden = rbm.hidden.mean(field)
        data = (rbm.visible.statistics(self.batch), rbm.hidden.moments(field, mean=self._hidden))
        for unit, model, batch in zip(rbm.layers, layers, data, strict=True):
            write_unit_gradient(unit, {name: model[name] - value.mean(0) for name, value in batch.items()})
        for k, link in self.coupling_gradients.items():
            link.set_dense(links[k] - rbm.coupling.correlate(self.batch, self._hidden, scale=1 / len(self._hidden)))

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return [self._hidden.mean(0)]
