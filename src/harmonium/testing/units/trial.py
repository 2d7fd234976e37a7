"""A unit in float64, and the inputs of its checks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...units import Unit
from .. import nodes
from ..nodes import F64
from ..report import Subject


@dataclass(frozen=True)
class Trial:
    """A copy of the unit in float64, and the inputs of the checks."""

    subject: Subject
    unit: Unit
    spread: Tensor  # standard deviation of the free units, (*shape)
    B: Tensor  # random fields, (n, *shape)
    A: Tensor

    @staticmethod
    def of(unit: Unit) -> Trial:
        """Return the inputs of the checks of a unit, which is copied."""
        subject = Subject("check_unit", unit.name())
        double = copy.deepcopy(unit).double()
        with torch.no_grad():
            variance = double.free_variance()
        subject.equal("free_variance (shape)", tuple(variance.shape), tuple(unit.shape))
        subject.finite("free_variance", variance)
        subject.expect(bool((variance > 0).all()), "free_variance", "positive values", variance.min().item())
        spread = variance.sqrt()
        # fields that move the mean by about one standard deviation, quadratic terms that narrow the unit a little
        noise = torch.randn(5, *unit.shape, dtype=F64), torch.rand(5, *unit.shape, dtype=F64)
        return Trial(subject, double, spread, noise[0] / spread, 0.1 * noise[1] / variance)

    @property
    def quadratics(self) -> Iterator[tuple[str, Tensor | None]]:
        """Yield (label, A) without and with a quadratic term."""
        yield from (("", None), (" with A", self.A))

    def exponents(self, A: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return points (m, 1, *shape) and unnormalized log-probabilities (m, n, *site shape) in the fields B and A."""
        unit = self.unit
        points, weights = nodes.of_unit(unit)
        points = points.view(-1, 1, *(1 for _ in range(len(unit.shape) - len(unit.event_shape))), *unit.event_shape)
        x = points.expand(len(points), 1, *unit.shape)
        value = unit.log_weight(x) + unit.dot(self.B, x)
        value = value if A is None else value - unit.dot(A, x.square()) / 2
        return x, value + weights.view(-1, *(1 for _ in value.shape[1:]))

    def average(self, p: Tensor, values: Tensor) -> Tensor:
        """Return the expectation (n, *shape) of values (m, 1, *shape) under p (m, n, *site shape)."""
        return ((p.unsqueeze(-1) if self.unit.event_shape else p) * values).sum(0)
