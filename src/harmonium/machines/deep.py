"""Deep Boltzmann machines."""

from __future__ import annotations

from collections.abc import Sequence

from ..couplings import Coupling
from ..errors import InvalidOption
from ..units import Unit
from .chain import BoltzmannMachine


class DeepBoltzmannMachine(BoltzmannMachine):
    """A chain of three or more layers: one visible and two or more hidden.

    >>> from harmonium.units import Bernoulli
    >>> DeepBoltzmannMachine([Bernoulli(5), Bernoulli(4), Bernoulli(3)]).sample(2, sweeps=1, seed=0).shape
    torch.Size([2, 5])
    """

    def __init__(self, layers: Sequence[Unit], couplings: Sequence[Coupling] | None = None) -> None:
        if len(layers) < 3:
            raise InvalidOption(f"layers: expected three or more layers, found {len(layers)}; use RBM for two")
        super().__init__(layers, couplings)
