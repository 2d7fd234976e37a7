"""Weighted sums of negative phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from ...errors import InvalidOption
from ...machines import BoltzmannMachine
from .base import NegativePhase, learned_couplings
from .composite import Composite
from .signed import SPARE_ROWS


@dataclass
class WeightedSum(Composite):
    """The sum of the losses of several phases, each with a weight.

    Hybrid training of a classifier is the discriminative loss plus α times the generative loss (Larochelle & Bengio
    2008): ``WeightedSum([(1, Discriminative()), (0.01, CD(1))])``, or the string ``"discriminative+0.01*cd:1"``.

    Args:
        terms: pairs of a positive weight and a phase.

    >>> from harmonium.training import CD, PCD
    >>> WeightedSum([(1, PCD(1)), (0.5, CD(1))])
    WeightedSum(terms=[(1.0, PCD(k=1, chains=None)), (0.5, CD(k=1))])
    """

    terms: Sequence[tuple[float, NegativePhase]]

    def __post_init__(self) -> None:
        terms = self.terms
        pairs = list(terms)
        if not pairs or not all(isinstance(phase, NegativePhase) for _, phase in pairs):
            raise InvalidOption(f"terms: expected pairs such as (0.1, harmonium.CD(1)), found {terms!r}")
        for weight, _ in pairs:
            if not 0 < weight < math.inf:
                raise InvalidOption(f"terms: expected positive weights, found {weight}")
        self.terms = [(float(weight), phase) for weight, phase in pairs]

    @property
    def phases(self) -> list[NegativePhase]:  # type: ignore[override]
        """The phases, without their weights."""
        return [phase for _, phase in self.terms]

    @property
    def generative(self) -> bool:  # type: ignore[override]
        """Whether all terms are; with others, the machine is not judged as a model of the data."""
        return all(phase.generative for phase in self.phases)

    @property
    def kind(self) -> str:
        return " + ".join(f"{weight:g} {phase.kind}" for weight, phase in self.terms)

    @property
    def k(self) -> int:
        """The number of Gibbs sweeps per step, in every term."""
        return self.phases[-1].k

    @k.setter
    def k(self, value: int) -> None:
        if value != self.k:  # else each term keeps its own
            for phase in self.phases:
                phase.k = value

    def config(self) -> dict[str, Any]:
        return {"name": "weighted-sum", "terms": [{"weight": w, **phase.config()} for w, phase in self.terms]}

    def begin(self, machine: BoltzmannMachine, batch_size: int, start: Tensor, generator: Generator | None) -> None:
        for phase in self.phases:
            phase.begin(machine, batch_size, start, generator)
        self.share_batch(batch_size, learned_couplings(machine))

    def resize(self, machine: BoltzmannMachine, batch_size: int) -> None:
        for phase in self.phases:
            phase.resize(machine, batch_size)
        self.share_batch(batch_size, learned_couplings(machine))

    @torch.no_grad()
    def evaluate(self, machine: BoltzmannMachine, generator: Generator | None) -> None:
        learned = [p for unit in machine.layers for p in unit.parameters() if p.requires_grad]
        totals = [torch.zeros_like(parameter) for parameter in learned]
        dense: dict[int, Tensor] = {}
        for weight, phase in self.terms:
            if phase.batch is not self.batch:
                phase.batch.copy_(self.batch)
            phase.evaluate(machine, generator)
            for total, parameter in zip(totals, learned, strict=True):
                assert parameter.grad is not None
                total.add_(parameter.grad, alpha=weight)
            for k, link in phase.coupling_gradients.items():
                if not link.factored:  # its gradient is in .grad, which the next phase overwrites
                    matrix = link.dense() * weight
                    dense[k] = dense[k] + matrix if k in dense else matrix
        for total, parameter in zip(totals, learned, strict=True):
            parameter.grad = total
        for k, link in self.coupling_gradients.items():
            link.set_sum([(w, phase.coupling_gradients[k]) for w, phase in self.terms], dense.get(k), SPARE_ROWS)

    def hidden_means(self, machine: BoltzmannMachine) -> list[Tensor]:
        return self.phases[0].hidden_means(machine)

    def chain_states(self) -> Tensor | None:
        found = [phase.chain_states() for phase in self.phases]
        return next((chains for chains in found if chains is not None), None)

    def loss(self, machine: BoltzmannMachine, data: Tensor) -> Tensor | None:
        total = data.new_zeros(())
        for weight, phase in self.terms:
            part = phase.loss(machine, data)
            if part is None:
                return None
            total = total + weight * part
        return total

    def objective(self, machine: BoltzmannMachine, data: Tensor) -> Tensor:
        return torch.stack([weight * phase.objective(machine, data) for weight, phase in self.terms]).sum()

    def state_dict(self) -> dict[str, Any]:
        return {"terms": [phase.state_dict() for phase in self.phases]}

    def load_state_dict(self, state: dict[str, Any], machine: BoltzmannMachine) -> None:
        for phase, own in zip(self.phases, state["terms"], strict=True):
            phase.load_state_dict(own, machine)
