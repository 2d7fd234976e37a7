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
from .gradient import SPARE_ROWS, CouplingGradient, Gradient, bias_gradient, contract, only_bias

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
        self.n_data, self.n, self._rbm = n_data, n_data + n_model, rbm
        self.layers, self.coupling = (rbm.visible, rbm.hidden), rbm.coupling  # looking them up takes microseconds
        self._lower, self._upper = (buffer(rbm, self.n + SPARE_ROWS, unit) for unit in rbm.layers)
        self.visible, self.mean = self._lower[: self.n], self._upper[: self.n]
        # if only the mean is needed, it overwrites the field, which saves memory traffic
        self._only_bias = [only_bias(unit) for unit in rbm.layers]
        alone = rbm.hidden.samples_from_mean and self._only_bias[1]
        self.field = self.mean if alone else buffer(rbm, self.n, rbm.hidden)
        self.weights = self.visible.new_full((self.n,), 1.0 / n_model)
        self.weights[:n_data] = -1.0 / n_data
        self._row_weights = per_row(self.weights, rbm.hidden)
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
        return made.complete()

    def complete(self) -> Sample:
        """Compute the fields and means of the hidden layer for all rows."""
        self.coupling.up_(self.visible, self.field)
        self.layers[1].mean_(self.field, self.mean)
        return self

    def gradient(self) -> Gradient:
        """Return the gradient of the loss; ``mean`` is multiplied by the weights after it."""
        visible, hidden = self.layers
        units = self._of_unit(0, visible, self.visible, lambda: visible.statistics(self.visible))
        units |= self._of_unit(1, hidden, self.mean, lambda: hidden.moments(self.field, mean=self.mean))
        self.mean.mul_(self._row_weights)
        links = {}
        if self.coupling.weight.requires_grad:
            links[0] = CouplingGradient(self.coupling, self._lower, self._upper, self.n)
        return Gradient(units, links, [self.data_mean.sum(0).neg_()], loss=self._loss)

    def _of_unit(
        self, k: int, unit: Unit, mean: Tensor, statistics: Callable[[], dict[str, Tensor]]
    ) -> dict[Tensor, Tensor]:
        if self._only_bias[k]:
            return bias_gradient(unit, contract(self.weights, mean))
        return unit.gradients({name: contract(self.weights, value) for name, value in statistics().items()})

    def _loss(self) -> Tensor:
        return -(self.weights * self._rbm.free_energy(self.visible.clone(), check=False)).sum()


def per_row(weights: Tensor, unit: Unit) -> Tensor:
    """Return the weights (n,) with the dimensions of the states of a layer."""
    return weights.view(-1, *(1 for _ in unit.shape))


def buffer(machine: BoltzmannMachine, rows: int, unit: Unit) -> Tensor:
    """Return zeros (rows, *shape) for states of a layer of the machine."""
    size = rows * math.prod(unit.shape) * machine.dtype.itemsize
    check_memory(f"batch and chains: {rows:.3g} rows of {unit.name()} units", size, "use fewer chains")
    return torch.zeros(rows, *unit.shape, dtype=machine.dtype, device=machine.device)
