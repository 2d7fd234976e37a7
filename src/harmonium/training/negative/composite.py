"""Base class of negative phases that consist of others."""

from __future__ import annotations

from .base import CouplingGradient, NegativePhase


class Composite(NegativePhase):
    """A negative phase that consists of ``phases``; the first one holds the batch."""

    phases: list[NegativePhase]

    def share_batch(self, batch_size: int, gradients: dict[int, CouplingGradient]) -> None:
        """Use the buffer of the first phase, after all phases were prepared for batches of ``batch_size`` rows."""
        self.data_slot, self.coupling_gradients = self.phases[0].data_slot, gradients
        self.use(batch_size)

    def use(self, rows: int) -> None:
        for phase in self.phases:
            phase.use(rows)
        self.batch = self.phases[0].batch
