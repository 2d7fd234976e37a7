"""Weighted states of an RBM, whose weighted statistics are the gradient of the loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..allocation import check_memory
from ..machines import RBM, BoltzmannMachine
from ..units import Unit
from .gradient import SPARE_ROWS, CouplingGradient, Gradient, only_bias, unit_gradient

T = TypeVar("T")
_KEPT = 4  # sizes of a batch whose buffers are kept


class Memory:
    """Buffers that a phase uses again in every step. They hold nothing between steps, and are not saved."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """Return the object of a key, such as the numbers of rows; made when it is first needed."""
        if key not in self._kept:
            if len(self._kept) == _KEPT:
                self._kept.clear()
            self._kept[key] = make()
        return self._kept[key]


class Sample:
    """States of an RBM with weights: the gradient is Σ w T(x), with -1/B for B rows of data and 1/C for C of the model.

    Data and model are the first and last rows of the same buffers, so that one product gives the fields of both.

    Attributes:
        visible: states of the visible layer (n, *visible).
        field: fields on the hidden layer (n, *hidden).
        mean: means of the hidden layer (n, *hidden).
        weights: (n,).
        data, model: the rows of data and of the model in ``visible``.
        data_field, model_field, data_mean, model_mean: those in ``field`` and ``mean``.
    """

    def __init__(self, rbm: RBM, n_data: int, n_model: int) -> None:
        self.n_data, self.n = n_data, n_data + n_model
        self._lower, self._upper = (buffer(rbm, self.n + SPARE_ROWS, unit) for unit in rbm.layers)
        self.visible, self.mean = self._lower[: self.n], self._upper[: self.n]
        # if only the mean is needed, it overwrites the field, which saves memory traffic
        alone = rbm.hidden.samples_from_mean and only_bias(rbm.hidden)
        self.field = self.mean if alone else buffer(rbm, self.n, rbm.hidden)
        self.weights = self.visible.new_full((self.n,), 1.0 / n_model)
        self.weights[:n_data] = -1.0 / n_data
        self.data, self.model = self.visible[:n_data], self.visible[n_data:]
        self.data_field, self.model_field = self.field[:n_data], self.field[n_data:]
        self.data_mean, self.model_mean = self.mean[:n_data], self.mean[n_data:]
        #: memory for fields on the visible layer and for hidden states of the model
        self.reverse, self.hidden = (buffer(rbm, n_model, unit) for unit in rbm.layers)

    @classmethod
    def of(cls, rbm: RBM, data: Tensor, states: Tensor, weights: Tensor) -> Sample:
        """Return a complete sample of data (n, *visible) and states of the model with weights (m,) of sum 1."""
        made = cls(rbm, len(data), len(states))
        made.data.copy_(data)
        made.model.copy_(states)
        made.weights[len(data) :] = weights
        return made.complete(rbm)

    def complete(self, rbm: RBM) -> Sample:
        """Compute the fields and means of the hidden layer for all rows."""
        rbm.coupling.up_(self.visible, self.field)
        rbm.hidden.mean_(self.field, self.mean)
        return self

    def gradient(self, rbm: RBM) -> Gradient:
        """Return the gradient of the loss; ``mean`` is multiplied by the weights after it."""
        visible, hidden = rbm.layers
        units = self._of_unit(visible, self.visible, lambda: visible.statistics(self.visible))
        units |= self._of_unit(hidden, self.mean, lambda: hidden.moments(self.field, mean=self.mean))
        self.mean.mul_(per_row(self.weights, hidden))
        links = {}
        if rbm.coupling.weight.requires_grad:
            links[0] = CouplingGradient(rbm.coupling, self._lower, self._upper, self.n)
        return Gradient(units, links, [self.data_mean.sum(0).neg_()], loss=lambda: self._loss(rbm))

    def _of_unit(self, unit: Unit, mean: Tensor, statistics: Callable[[], dict[str, Tensor]]) -> dict[Tensor, Tensor]:
        values = {"bias": mean} if only_bias(unit) else statistics()
        return unit_gradient(unit, {name: contract(self.weights, value) for name, value in values.items()})

    def _loss(self, rbm: RBM) -> Tensor:
        return (self.weights * rbm.free_energy(self.visible.clone(), check=False)).sum()


def contract(weights: Tensor, statistic: Tensor) -> Tensor:
    """Return Σ_b w_b x_b: (n,), (n, *shape) -> (*shape)."""
    return torch.mv(statistic.reshape(len(statistic), -1).T, weights).view(statistic.shape[1:])


def per_row(weights: Tensor, unit: Unit) -> Tensor:
    """Return the weights (n,) with the dimensions of the states of a layer."""
    return weights.view(-1, *(1 for _ in unit.shape))


def buffer(machine: BoltzmannMachine, rows: int, unit: Unit) -> Tensor:
    """Return zeros (rows, *shape) for states of a layer of the machine."""
    size = rows * math.prod(unit.shape) * machine.dtype.itemsize
    check_memory(f"batch and chains: {rows:.3g} rows of {unit.name()} units", size, "use fewer chains")
    return torch.zeros(rows, *unit.shape, dtype=machine.dtype, device=machine.device)
