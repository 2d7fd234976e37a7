"""Discriminative training: the label given the features, exactly."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ...machines import RBM, BoltzmannMachine
from ...machines.label import Label
from ...units import Unit
from ...units.base import per_row
from ..gradient import write_gradient
from ..losses import discriminative
from .base import NegativePhase, as_rbm, learned_couplings, only_bias, write_bias_gradient, write_unit_gradient
from .signed import SPARE_ROWS, new_buffer


@dataclass
class Discriminative(NegativePhase):
    """Maximize ln p(label | features), exactly: the discriminative RBM (Larochelle & Bengio 2008).

    -ln p(y | x) = F(x, y) - F(x) is a difference of two free energies, where F(x) = -ln Σ_y e^{-F(x, y)}. The model's
    part of the gradient therefore has the moments of the machine with its visible units held at the features and the
    label summed over its states. There is no sampling. The biases of the features do not change.

    The gradient of the weights is that of n + K rows: the features, with the difference of the hidden means given the
    label and summed over it, and the K states of the label.

    Args:
        part: number of the part of the visible layer that is the label; by default the last one-hot unit that is a part
            by itself (:class:`harmonium.machines.Label`).

    >>> Discriminative()
    Discriminative(part=None)
    """

    part: int | None = None
    generative = False

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        self.resize(machine, batch_size)

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        rbm = as_rbm(machine, "Discriminative")
        self._label = label = Label(rbm, self.part)
        rows = batch_size + label.classes
        self._lower, self._upper = (new_buffer(rbm, rows + SPARE_ROWS, unit) for unit in rbm.layers)
        self.data_slot = new_buffer(rbm, batch_size, rbm.visible)
        self._base, self._field = (new_buffer(rbm, batch_size, rbm.hidden) for _ in range(2))
        self._means = [new_buffer(rbm, batch_size, rbm.hidden) for _ in range(label.classes)]
        self.coupling_gradients = learned_couplings(rbm)
        self.use(batch_size)

    def use(self, rows: int) -> None:
        super().use(rows)
        self._n = rows

    @torch.no_grad()
    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        rbm, label, n, k = as_rbm(machine, "Discriminative"), self._label, self._n, self._label.classes
        features = torch.mul(self.batch, ~label.mask, out=self._lower[:n])
        rbm.coupling.up_(features, self._base[:n])
        shifts = rbm.coupling.up(label.rows)
        own = per_row(label.unit.log_weight(label.states))
        p = torch.softmax(torch.stack([own[y] + self._respond(rbm.hidden, y, shifts[y]) for y in range(k)], 1), 1)
        truth = label.index(self.batch).unsqueeze(1)
        self._hidden = self._weighted(torch.zeros_like(p).scatter_(1, truth, 1 / n), self._field[:n]).sum(0)
        share = p.scatter_add_(1, truth, torch.full_like(p[:, :1], -1.0)).div_(n)  # (p - 1[y])/n
        self._write_label(rbm, share.sum(0))
        upper = self._weighted(share, self._upper[:n])
        self._write_hidden(rbm.hidden, upper, shifts, share)
        self._lower[n : n + k] = label.rows
        for y in range(k):
            torch.mv(self._means[y][:n].flatten(1).T, share[:, y], out=self._upper[n + y].view(-1))
        for link in self.coupling_gradients.values():
            link.set_factors(self._lower, self._upper, n + k)

    def _respond(self, hidden: Unit, y: int, shift: Tensor) -> Tensor:
        """Compute the hidden means given the state y of the label; return Σ ln Z of the hidden units, (n,)."""
        field = torch.add(self._base[: self._n], shift, out=self._field[: self._n])
        total = per_row(hidden.log_partition(field))
        hidden.mean_(field, self._means[y][: self._n])
        return total

    def _weighted(self, share: Tensor, out: Tensor) -> Tensor:
        """Write Σ_y share_y ⟨h⟩_y of every row into ``out``."""
        ones = (1,) * (out.ndim - 1)
        for y, mean in enumerate(self._means):
            weight = share[:, y].view(-1, *ones)
            if y == 0:
                torch.mul(mean[: self._n], weight, out=out)
            else:
                out.addcmul_(mean[: self._n], weight)
        return out

    def _write_label(self, rbm: RBM, share: Tensor) -> None:
        """Write the gradient of the visible layer: that of the label; features are those of the data, also here."""
        for number, unit in enumerate(rbm.visible.parts):
            if number == self._label.part:
                statistics = unit.statistics(self._label.states)
                write_unit_gradient(unit, {name: _contract(share, value) for name, value in statistics.items()})
                continue
            for parameter in unit.parameters():
                if parameter.requires_grad:
                    write_gradient(parameter, torch.zeros_like(parameter))

    def _write_hidden(self, hidden: Unit, upper: Tensor, shifts: Tensor, share: Tensor) -> None:
        if only_bias(hidden):
            write_bias_gradient(hidden, upper.sum(0))
            return
        total: dict[str, Tensor] = {}
        for y, mean in enumerate(self._means):
            field = torch.add(self._base[: self._n], shifts[y], out=self._field[: self._n])
            for name, value in hidden.moments(field, mean=mean[: self._n]).items():
                total[name] = total.get(name, 0.0) + _contract(share[:, y], value)
        write_unit_gradient(hidden, total)

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return [self._hidden]

    def loss(self, machine: BoltzmannMachine, data: Tensor) -> Tensor:
        return discriminative(as_rbm(machine, "Discriminative"), data, part=self.part)

    def objective(self, machine: BoltzmannMachine, data: Tensor) -> Tensor:
        """Return the mean of ln p(label | features), a scalar."""
        return -self.loss(machine, data)


def _contract(share: Tensor, statistic: Tensor) -> Tensor:
    """Return Σ_b share_b statistic_b: (n,), (n, *shape) -> (*shape)."""
    return torch.mv(statistic.reshape(len(statistic), -1).T, share).view(statistic.shape[1:])
