"""The context of the rows of a batch: its fields on the layers, and the gradients of its couplings."""

from __future__ import annotations

import torch
from torch import Tensor

from ...machines import RBM
from ..gradient import SPARE_ROWS, CouplingGradient
from ..sample import Sample, buffer, per_row


class ContextRows:
    """Stands in for the coupling of a machine with a context: the fields contain those of the context of each row.

    A row of the batch and its chain have the same context, so all buffers have one row for each row of the batch.
    """

    def __init__(self, rbm: RBM, rows: int) -> None:
        assert rbm.context is not None
        self._rbm, self._coupling, self._of_context, self._n = rbm, rbm.coupling, rbm.context_couplings, rows
        self._context = torch.zeros(rows + SPARE_ROWS, *rbm.context, dtype=rbm.dtype, device=rbm.device)
        self._fields = {k: buffer(rbm, rows, rbm.layers[k]) for k in self._of_context}
        self._changes = {k: buffer(rbm, rows + SPARE_ROWS, rbm.layers[k]) for k in self._of_context}

    def take(self, context: Tensor) -> None:
        """Compute the fields of a context (n, *context)."""
        self._context[: self._n].copy_(context)
        for k, coupling in self._of_context.items():
            coupling.up_(self._context[: self._n], self._fields[k])

    def up_(self, x: Tensor, out: Tensor) -> Tensor:
        """Write the field on the hidden layer, with that of the context, into ``out``."""
        return self._added(1, self._coupling.up_(x, out))

    def down_(self, y: Tensor, out: Tensor) -> Tensor:
        """Write the field on the visible layer, with that of the context, into ``out``."""
        return self._added(0, self._coupling.down_(y, out))

    def _added(self, layer: int, out: Tensor) -> Tensor:
        return out.add_(self._fields[layer]) if layer in self._fields else out

    def gradients(self, sample: Sample) -> dict[int, CouplingGradient]:
        """Return the gradients Σ_b u_b (x'_b - x_b)ᵀ/B, with the states x of the batch and x' of the chains.

        The means of the sample have been multiplied by its weights.
        """
        n, found = self._n, {}
        for k, coupling in self._of_context.items():
            if not coupling.weight.requires_grad:
                continue
            change = self._changes[k][:n]
            if k == 1:
                torch.add(sample.data_mean, sample.model_mean, out=change)
            else:
                torch.sub(sample.model, sample.data, out=change)
                change.mul_(per_row(sample.weights[n:], self._rbm.visible))
            found[k] = CouplingGradient(coupling, self._context, self._changes[k], n)
        return found
