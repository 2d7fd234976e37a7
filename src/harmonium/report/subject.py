"""The subject of a report: a run with its machine, its metrics and some of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from ..machines import ConditionalRBM, Machine
from ..training import Run
from .sequences import Sequences

SWEEPS, FEW_SWEEPS, LARGE = 1000, 100, 2**20  # fewer sweeps for machines with more weights than LARGE


@dataclass
class RunSubject:
    """The run, machine and data of a page."""

    run: Run
    machine: Machine
    config: dict[str, Any]
    history: list[dict[str, float]]
    data: Tensor | None
    test: Tensor | None
    test_name: str
    image: tuple[int, int, int] | None
    letters: str | None
    sequences: Sequences | None = None

    @property
    def conditional(self) -> ConditionalRBM:
        """The machine of a run on sequences."""
        assert isinstance(self.machine, ConditionalRBM)
        return self.machine

    @property
    def hidden_layers(self) -> range:
        """The numbers of the hidden layers, from 1."""
        return range(1, len(self.machine.layers))

    @property
    def epoch(self) -> int:
        """The number of finished epochs."""
        return int(self.history[-1]["epoch"]) if self.history else 0

    def of_layer(self, title: str, layer: int) -> str:
        """Return a title, with the number of the hidden layer if there are several."""
        return title if len(self.hidden_layers) == 1 else f"{title}, layer {layer}"

    def table(self, name: str) -> dict[str, Any]:
        """Return a table of the configuration, which anyone may have edited; empty if it is something else."""
        table = self.config.get(name, {})
        return table if isinstance(table, dict) else {}

    @cached_property
    def weights(self) -> int:
        """The number of pairs of coupled units, which determines the cost of a sweep."""
        return sum(c.lower.numel() * c.upper.numel() for c in self.machine.couplings)

    @property
    def cost(self) -> int:
        """The cost of a sweep of one chain, about: the number of weights, and of random numbers for all states."""
        return self.weights + 100 * sum(unit.shape.numel() for unit in self.machine.layers)

    @property
    def sweeps(self) -> int:
        """The number of Gibbs sweeps of samples on the page."""
        return FEW_SWEEPS if self.weights > LARGE else SWEEPS
