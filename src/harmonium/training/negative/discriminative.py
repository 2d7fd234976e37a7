"""Discriminative training: the label given the features, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from ...machines import RBM, BoltzmannMachine
from ...machines.label import Label
from ...units import Unit
from ...units.base import per_row as per_unit_row
from ..gradient import SPARE_ROWS, CouplingGradient, Gradient, contract, only_bias, unit_gradient
from ..losses import discriminative
from ..sample import Memory, buffer
from .base import Batch, NegativePhase, State, as_rbm


@dataclass(frozen=True)
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
    generative: ClassVar[bool] = False

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        return {"label": Label(as_rbm(machine, self), self.part), "memory": Memory()}

    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        rbm, n = as_rbm(machine, self), len(batch.visible)
        rows: _LabelRows = state["memory"].get(n, lambda: _LabelRows(rbm, state["label"], n))
        with torch.no_grad():
            gradient = rows.gradient(batch.visible)
        v = batch.visible
        gradient.loss = lambda: discriminative(rbm, v, part=self.part)
        return gradient, state

    def objective(self, machine: BoltzmannMachine, data: Tensor) -> Tensor:
        """Return the mean of ln p(label | features), a scalar."""
        return -discriminative(as_rbm(machine, self), data, part=self.part)


class _LabelRows:
    """Memory for a batch of ``n`` rows with all states of their label."""

    def __init__(self, rbm: RBM, label: Label, n: int) -> None:
        self._rbm, self._label, self._n = rbm, label, n
        rows = n + label.classes
        self._lower, self._upper = (buffer(rbm, rows + SPARE_ROWS, unit) for unit in rbm.layers)
        self._base, self._field = (buffer(rbm, n, rbm.hidden) for _ in range(2))
        self._means = [buffer(rbm, n, rbm.hidden) for _ in range(label.classes)]

    def gradient(self, batch: Tensor) -> Gradient:
        """Return the gradient of -⟨ln p(label | features)⟩ for rows (n, *visible)."""
        rbm, label, n, k = self._rbm, self._label, self._n, self._label.classes
        features = torch.mul(batch, ~label.mask, out=self._lower[:n])
        rbm.coupling.up_(features, self._base)
        shifts = rbm.coupling.up(label.rows)
        own = per_unit_row(label.unit.log_weight(label.states))
        p = torch.softmax(torch.stack([own[y] + self._respond(rbm.hidden, y, shifts[y]) for y in range(k)], 1), 1)
        truth = label.index(batch).unsqueeze(1)
        hidden = self._weighted(torch.zeros_like(p).scatter_(1, truth, 1 / n), self._field).sum(0)
        share = p.scatter_add_(1, truth, torch.full_like(p[:, :1], -1.0)).div_(n)  # (p - 1[y])/n
        upper = self._weighted(share, self._upper[:n])
        units = {**self._of_label(share.sum(0)), **self._of_hidden(upper, shifts, share)}
        self._lower[n : n + k] = label.rows
        for y in range(k):
            torch.mv(self._means[y].flatten(1).T, share[:, y], out=self._upper[n + y].view(-1))
        links = {}
        if rbm.coupling.weight.requires_grad:
            links[0] = CouplingGradient(rbm.coupling, self._lower, self._upper, n + k)
        return Gradient(units, links, [hidden])

    def _respond(self, hidden: Unit, y: int, shift: Tensor) -> Tensor:
        """Compute the hidden means given the state y of the label; return Σ ln Z of the hidden units, (n,)."""
        field = torch.add(self._base, shift, out=self._field)
        total = per_unit_row(hidden.log_partition(field))
        hidden.mean_(field, self._means[y])
        return total

    def _weighted(self, share: Tensor, out: Tensor) -> Tensor:
        """Write Σ_y share_y ⟨h⟩_y of every row into ``out``."""
        ones = (1,) * (out.ndim - 1)
        for y, mean in enumerate(self._means):
            weight = share[:, y].view(-1, *ones)
            if y == 0:
                torch.mul(mean, weight, out=out)
            else:
                out.addcmul_(mean, weight)
        return out

    def _of_label(self, share: Tensor) -> dict[Tensor, Tensor]:
        """Return the gradient of the visible layer: that of the label; features are those of the data, also here."""
        found: dict[Tensor, Tensor] = {}
        for number, unit in enumerate(self._rbm.visible.parts):
            if number == self._label.part:
                statistics = unit.statistics(self._label.states)
                found |= unit_gradient(unit, {name: contract(share, value) for name, value in statistics.items()})
                continue
            found |= {one: torch.zeros_like(one) for one in unit.parameters() if one.requires_grad}
        return found

    def _of_hidden(self, upper: Tensor, shifts: Tensor, share: Tensor) -> dict[Tensor, Tensor]:
        hidden = self._rbm.hidden
        if only_bias(hidden):
            return unit_gradient(hidden, {"bias": upper.sum(0)})
        total: dict[str, Tensor] = {}
        for y, mean in enumerate(self._means):
            field = torch.add(self._base, shifts[y], out=self._field)
            for name, value in hidden.moments(field, mean=mean).items():
                total[name] = total.get(name, 0.0) + contract(share[:, y], value)
        return unit_gradient(hidden, total)
