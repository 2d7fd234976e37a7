"""Layers conditioned on observations: a field and a quadratic term are added to each unit, for each row.

For a known channel P(y|x) ∝ e^{Bx - Ax²/2} of each visible unit, the posterior P(x|y) ∝ P(y|x) P(x) is the same machine
with these terms added to the visible layer. An observation without noise fixes the value of its unit instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from ..machines import BoltzmannMachine
from ..machines.chain import check_undirected
from ..shown import brief
from ..units import Tail, Unit


@brief
@dataclass(frozen=True)
class Evidence:
    """Evidence of a batch of observations about the visible units; every tensor is (n, *visible).

    ``B`` and ``A`` multiply the weight of a unit by e^{Bx - Ax²/2} (None: no such term). Where ``known`` is True, the
    unit has the value in ``values``, and B and A are ignored.
    """

    values: Tensor
    B: Tensor | None = None
    A: Tensor | None = None
    known: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)

    def each(self, function: Callable[[Tensor], Tensor]) -> Evidence:
        """Apply ``function`` to all tensors of the evidence."""
        return Evidence(*(None if x is None else function(x) for x in (self.values, self.B, self.A, self.known)))  # type: ignore[arg-type]

    def fix(self, x: Tensor, value: Tensor | float | None = None) -> Tensor:
        """Replace the known entries of ``x`` by their values, or by ``value``."""
        value = self.values if value is None else torch.as_tensor(value).to(x)
        return x if self.known is None else torch.where(self.known, value, x)

    def rows(self, index: Tensor | slice) -> Evidence:
        """Evidence of the selected rows."""
        return self.each(lambda x: x[index])


class Observed(Unit, named=False):
    """A layer of units of one type, conditioned on the evidence of each row of a batch.

    ``log_partition``, ``mean``, ``variance`` and ``sample`` are those of the posterior of a unit in the field of its
    neighbors. Batches must have the same number of rows as the evidence.
    """

    def __init__(self, unit: Unit, evidence: Evidence) -> None:
        nn.Module.__init__(self)
        self.unit, self.evidence = unit, evidence
        self.shape, self.support, self.learn, self.options = unit.shape, unit.support, (), {}

    @property
    def bias(self) -> Tensor:  # type: ignore[override]
        """Bias of the layer without the evidence: (*shape)."""
        return self.unit.bias

    def tail(self) -> Tail:
        return self.unit.tail()

    def normalizable(self, A: Tensor) -> Tensor:
        total = self._terms(A, A)[1]
        assert total is not None
        return self.unit.normalizable(total)

    def log_weight(self, x: Tensor) -> Tensor:
        e, value = self.evidence, self.unit.log_weight(x)
        value = value if e.B is None else value + self.dot(e.B, x)
        value = value if e.A is None else value - self.dot(e.A, x.square()) / 2
        if e.known is None:
            return value
        other = self._site((x != e.values) & e.known, torch.any)
        return torch.where(other, -torch.inf, torch.where(self._fixed, self.unit.log_weight(x), value))

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        value = self.unit.log_partition(*self._terms(B, A))
        if self.evidence.known is None:
            return value
        x = self.evidence.values
        single = self.unit.log_weight(x) + self.dot(B, x)
        single = single if A is None else single - self.dot(A, x.square()) / 2
        return torch.where(self._fixed, single, value)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return self.evidence.fix(self.unit.mean(*self._terms(B, A)))

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return self.evidence.fix(self.unit.variance(*self._terms(B, A)), 0.0)

    def mean_and_variance_(self, B: Tensor, A: Tensor | None, mean: Tensor, variance: Tensor) -> None:
        self.unit.mean_and_variance_(*self._terms(B, A), mean, variance)
        if self.evidence.known is not None:
            torch.where(self.evidence.known, self.evidence.values, mean, out=mean)
            variance.masked_fill_(self.evidence.known, 0.0)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        B, A = self._terms(B, A)
        return self.evidence.fix(self.unit.sample(B, generator=generator, A=A))

    def _terms(self, B: Tensor, A: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Total field and quadratic term of the units; zero where the value is known."""
        e = self.evidence
        B = B if e.B is None else B + e.B
        if e.A is not None:
            A = e.A.expand(B.shape) if A is None else A + e.A
        if e.known is None:
            return B, A
        return B.masked_fill(e.known, 0.0), None if A is None else A.masked_fill(e.known, 0.0)

    @property
    def _fixed(self) -> Tensor:
        assert self.evidence.known is not None
        return self._site(self.evidence.known, torch.all)

    def _site(self, mask: Tensor, join: Callable[..., Tensor]) -> Tensor:
        return join(mask, -1) if self.event_shape else mask


def observed(unit: Unit, evidence: Evidence) -> Unit:
    """Condition a layer on the evidence; the parts of a mixed layer are conditioned separately."""
    pieces = [evidence.each(lambda x, k=k: unit.split(x)[k]) for k in range(len(unit.parts))]  # type: ignore[misc]
    return unit.with_parts([Observed(part, piece) for part, piece in zip(unit.parts, pieces, strict=True)])


def posterior_machine(machine: BoltzmannMachine, evidence: Evidence) -> BoltzmannMachine:
    """Machine whose distribution is the posterior, for each row of the evidence. It shares all parameters."""
    check_undirected(machine, "posterior of the visible units")
    return BoltzmannMachine([observed(machine.visible, evidence), *machine.layers[1:]], machine.couplings)


def by_part(unit: Unit, function: Callable[[Unit, Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply ``function(part, entries)`` to each part of a layer and join the results: (n, *shape) -> (n, *shape)."""
    return unit.join([function(part, piece) for part, piece in zip(unit.parts, unit.split(x), strict=True)])
