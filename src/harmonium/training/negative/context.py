"""The context of the rows of a batch: its fields on the layers, and the gradients of its couplings."""

from __future__ import annotations

import torch
from torch import Tensor

from ...machines import RBM
from .base import learned_context
from .signed import SPARE_ROWS, new_buffer


class ContextRows:
    """Stands in for the coupling of a machine with a context: the fields contain those of the context of each row.

    A row of the batch and its chain have the same context, so all buffers have one row for each row of the batch.
    """

    def __init__(self, rbm: RBM, rows: int) -> None:
        assert rbm.context is not None
        self._coupling, self._of_context, self._n = rbm.coupling, rbm.context_couplings, rows
        self._context = torch.zeros(rows + SPARE_ROWS, *rbm.context, dtype=rbm.dtype, device=rbm.device)
        self.slot = self._context[:rows]
        self._fields = {k: new_buffer(rbm, rows, rbm.layers[k]) for k in self._of_context}
        self.gradients = learned_context(rbm)
        self._changes = {k: new_buffer(rbm, rows + SPARE_ROWS, rbm.layers[k]) for k in self.gradients}

    def update_fields(self) -> None:
        """Compute the fields of the context in ``slot``."""
        for k, coupling in self._of_context.items():
            coupling.up_(self.slot, self._fields[k])

    def up_(self, x: Tensor, out: Tensor) -> Tensor:
        """Write the field on the hidden layer, with that of the context, into ``out``."""
        return self._added(1, self._coupling.up_(x, out))

    def down_(self, y: Tensor, out: Tensor) -> Tensor:
        """Write the field on the visible layer, with that of the context, into ``out``."""
        return self._added(0, self._coupling.down_(y, out))

    def _added(self, layer: int, out: Tensor) -> Tensor:
        return out.add_(self._fields[layer]) if layer in self._fields else out

    def write_gradients(self, v: Tensor, mean: Tensor, signs: Tensor) -> None:
        """Set the gradients Σ_b u_b (x'_b - x_b)ᵀ/B, with the states x of the batch and x' of the chains.

        ``v`` and ``mean`` have the rows of the batch and then those of the chains; ``mean`` is multiplied by ``signs``.
        """
        n = self._n
        for k, link in self.gradients.items():
            change = self._changes[k][:n]
            if k == 1:
                torch.add(mean[:n], mean[n:], out=change)
            else:
                torch.sub(v[n:], v[:n], out=change).mul_(signs[n:].view(-1, *(1 for _ in v.shape[1:])))
            link.set_factors(self._context, self._changes[k], n)
