"""The batch and the chains as rows of common buffers, whose signed sums are the gradient."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ...allocation import check_memory
from ...machines import BoltzmannMachine
from ...units import Unit
from .base import NegativePhase, only_bias, write_bias_gradient, write_unit_gradient

SPARE_ROWS = 2  # extra rows of the factors for low-rank changes of the gradient


class SignedRows(NegativePhase):
    """Base class of phases with chains: the batch and the chains are the first and last rows of the same buffers.

    The gradient of the loss is Σ_b s_b T(x_b) with s = -1/B for the data and +1/C for the chains. The matrix products
    of a step have a fixed size: unused rows of a smaller batch get s = 0.
    """

    supports_bfloat16 = True
    by_statistics = True

    def _set_rows(self, machine: BoltzmannMachine, visible: Tensor, batch: int, chains: int) -> None:
        """Set the number of rows; ``visible`` (batch + chains, *visible) is the buffer of the visible layer."""
        self._n_batch, self._n_chains, self._n = batch, chains, batch + chains
        self._shortcut = {id(unit): only_bias(unit) for unit in machine.layers}
        self._signs = visible.new_full((self._n,), 1.0 / chains)
        self.data_slot = visible[:batch]
        self.use(batch)

    def use(self, rows: int) -> None:
        super().use(rows)
        self._weigh(self._signs[: self._n_batch], rows, -1.0)

    @staticmethod
    def _weigh(signs: Tensor, rows: int, sign: float) -> None:
        signs[:rows] = sign / rows
        signs[rows:] = 0.0

    def _signs_of(self, unit: Unit) -> Tensor:
        """Return s with the dimensions of the states of a layer."""
        return self._signs.view(-1, *(1 for _ in unit.shape))

    def _write(self, unit: Unit, bias_statistic: Tensor, others: Callable[[], dict[str, Tensor]]) -> None:
        """Write the gradient of a layer from the statistics of all rows; ``others`` is not called if a bias is all."""
        if self._shortcut[id(unit)]:
            write_bias_gradient(unit, self._contract(bias_statistic))
        else:
            write_unit_gradient(unit, {name: self._contract(value) for name, value in others().items()})

    def _contract(self, statistic: Tensor) -> Tensor:
        flat = statistic.reshape(len(statistic), -1)
        return torch.mv(flat.T, self._signs).view(statistic.shape[1:])


def new_buffer(machine: BoltzmannMachine, rows: int, unit: Unit) -> Tensor:
    """Return zeros (rows, *shape) for states of a layer of the machine."""
    size = rows * math.prod(unit.shape) * machine.dtype.itemsize
    check_memory(f"batch and chains: {rows:.3g} rows of {unit.name()} units", size, "use fewer chains")
    return torch.zeros(rows, *unit.shape, dtype=machine.dtype, device=machine.device)
