"""Weighted sums of negative phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from ...errors import InvalidOption
from ...machines import BoltzmannMachine
from ..gradient import Gradient
from .base import Batch, NegativePhase, State


@dataclass(frozen=True)
class WeightedSum(NegativePhase):
    """The sum of the losses of several phases, each with a weight.

    Hybrid training of a classifier is the discriminative loss plus α times the generative loss (Larochelle & Bengio
    2008): ``WeightedSum([(1, Discriminative()), (0.01, CD(1))])``, or the string ``"discriminative+0.01*cd:1"``.

    Args:
        terms: pairs of a positive weight and a phase.

    >>> from harmonium.training import CD, PCD
    >>> WeightedSum([(1, PCD(1)), (0.5, CD(1))])
    WeightedSum(terms=((1.0, PCD(k=1, chains=None)), (0.5, CD(k=1))))
    """

    terms: Sequence[tuple[float, NegativePhase]]

    def __post_init__(self) -> None:
        pairs = tuple(self.terms)
        if not pairs or not all(isinstance(phase, NegativePhase) for _, phase in pairs):
            raise InvalidOption(f"terms: expected pairs such as (0.1, harmonium.CD(1)), found {self.terms!r}")
        for weight, _ in pairs:
            if not 0 < weight < math.inf:
                raise InvalidOption(f"terms: expected positive weights, found {weight}")
        object.__setattr__(self, "terms", tuple((float(weight), phase) for weight, phase in pairs))

    @property
    def generative(self) -> bool:
        """Whether all terms are; with others, the machine is not judged as a model of the data."""
        return all(phase.generative for _, phase in self.terms)

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether the state of a term may grow."""
        return any(phase.grows for _, phase in self.terms)

    def resolved(self, batch_size: int) -> WeightedSum:
        return replace(self, terms=[(weight, phase.resolved(batch_size)) for weight, phase in self.terms])

    def with_sweeps(self, k: int) -> WeightedSum:
        return replace(self, terms=[(weight, phase.with_sweeps(k)) for weight, phase in self.terms])

    def check(self, machine: BoltzmannMachine) -> None:
        for _, phase in self.terms:
            phase.check(machine)

    def init(self, machine: BoltzmannMachine, rows: Tensor, generator: Generator | None) -> State:
        return {"terms": [phase.init(machine, rows, generator) for _, phase in self.terms]}

    def step(
        self, machine: BoltzmannMachine, batch: Batch, state: State, generator: Generator | None
    ) -> tuple[Gradient, State]:
        gradients, states = [], []
        for (weight, phase), own in zip(self.terms, state["terms"], strict=True):
            gradient, after = phase.step(machine, batch, own, generator)
            gradients.append((weight, gradient))
            states.append(after)
        return Gradient.sum(gradients), {"terms": states}

    def visible_chains(self, machine: BoltzmannMachine, state: State, generator: Generator | None) -> Tensor | None:
        pairs = zip(self.terms, state["terms"], strict=True)
        found = (phase.visible_chains(machine, own, generator) for (_, phase), own in pairs)
        return next((chains for chains in found if chains is not None), None)

    def objective(self, machine: BoltzmannMachine, data: Tensor) -> Tensor:
        return torch.stack([weight * phase.objective(machine, data) for weight, phase in self.terms]).sum()
