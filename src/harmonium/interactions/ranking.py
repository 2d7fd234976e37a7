"""Find the strongest interactions of an order without computing all of them (branch and bound)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ..checks import count
from ..errors import InvalidOption
from ..machines import RBM
from . import differences as differences
from .differences import Bound
from .n_body_formula import n_body
from .sites import Sites
from .tuples import all_tuples, check_order


@torch.no_grad()
def strongest(rbm: RBM, order: int, n: int, **options: Any) -> tuple[Tensor, Tensor]:
    """Find the ``n`` interactions of largest magnitude: their tuples (n, order) and values (n,).

    In the lattice-gas gauge this is a branch-and-bound search. Tuples are extended one unit at a time, and a partial
    tuple is discarded if no extension can exceed the interactions found so far. The bound is
    |I_{i₁…i_s}| ≤ Σ_μ C_μ |w_{i₁μ}| … |w_{i_sμ}|, where C_μ bounds the s-th derivative of ln Z of hidden unit μ for all
    sums of s weights (:class:`Bound`). The units not yet in the tuple are bounded by the largest weight of each hidden
    unit. In the zero-sum gauge all tuples are computed.

    Args:
        rbm: an RBM whose visible units have two states.
        order: number of interacting visible units.
        n: number of interactions to return.
        options: options of :func:`n_body`.

    >>> import harmonium as hm
    >>> W = torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Gaussian(1), hm.couplings.Dense(4, 1, W))
    >>> strongest(rbm, order=2, n=1)
    (tensor([[1, 2]]), tensor([-6.], dtype=torch.float64))
    """
    sites = Sites.of(rbm)
    order, n = check_order(order, sites.number), count("n", n)
    if n < 1:
        raise InvalidOption(f"n: expected at least one interaction, found {n}")
    if sites.states != 2:
        raise InvalidOption(f"strongest: expected visible units with two states, found {sites.states}")
    best = _Best(n)
    bounded = order > 1 and sites.scalar and sites.gauge(options.get("gauge")) == "lattice-gas"
    if bounded and options.get("method", "exact") == "exact":
        _Search(sites, order, best).run()
    else:
        every = all_tuples(sites.number, order)
        best.offer(every, n_body(rbm, order, every, **options))
    return best.tuples, best.values


@dataclass
class _Best:
    """The largest values found so far, in decreasing order of magnitude."""

    n: int
    tuples: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.int64))
    values: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))

    @property
    def threshold(self) -> float:
        """Magnitude that a new interaction must exceed to enter the list."""
        return self.values[-1].abs().item() if len(self.values) == self.n else -1.0

    def offer(self, tuples: Tensor, values: Tensor) -> None:
        """Merge tuples (n, s) and their values (n,) into the list."""
        tuples, values = tuples.cpu(), values.cpu()
        if len(self.values):
            tuples, values = torch.cat([self.tuples, tuples]), torch.cat([self.values, values])
        kept = values.abs().sort(descending=True, stable=True).indices[: self.n]
        self.tuples, self.values = tuples[kept], values[kept]


class _Search:
    """Depth-first search over increasing tuples, largest bound first; the last two units are evaluated as all pairs."""

    def __init__(self, sites: Sites, order: int, best: _Best) -> None:
        self.sites, self.order, self.best = sites, order, best
        self.base, steps = sites.reference("lattice-gas")
        self.steps = steps[:, 0]
        self.sizes = self.steps.abs()
        self.largest = self.sizes.amax(0)
        self.bound = Bound.of(sites.log_partition, self.base, self.steps, order).largest
        self.visited = 0

    def run(self) -> None:
        """Evaluate every tuple that might be among the strongest."""
        self._grow(torch.empty(0, dtype=torch.int64, device=self.steps.device))

    def _grow(self, prefix: Tensor) -> None:
        units = torch.arange(int(prefix[-1]) + 1 if len(prefix) else 0, self.sites.number, device=prefix.device)
        # a hidden unit with zero weight to a site of the tuple contributes nothing, even if its bound is infinite
        scale = torch.nan_to_num(self.bound * self.sizes[prefix].prod(0) * self.sizes[units], nan=0.0)
        promise = (scale * self.largest ** (self.order - len(prefix) - 1)).nan_to_num(nan=0.0).sum(1)
        promising = promise > self.best.threshold
        units, promise = units[promising], promise[promising]
        if len(prefix) == self.order - 2:
            self._visit(prefix, units)
            return
        for unit, limit in sorted(zip(units.tolist(), promise.tolist(), strict=True), key=lambda pair: -pair[1]):
            if limit <= self.best.threshold:
                return
            self._grow(torch.cat([prefix, prefix.new_tensor([unit])]))

    def _visit(self, prefix: Tensor, units: Tensor) -> None:
        """Evaluate the prefix combined with all pairs of ``units``."""
        if len(units) < 2:
            return
        values = torch.zeros(len(units), len(units), dtype=torch.float64, device=units.device)
        for subset in product((0, 1), repeat=len(prefix)):
            chosen = prefix[torch.tensor(subset, dtype=torch.bool, device=prefix.device)]
            term = differences.pairs(self.sites.log_partition, self.base + self.steps[chosen].sum(0), self.steps[units])
            values += term if (len(prefix) - len(chosen)) % 2 == 0 else -term
        self.visited += len(units) * (len(units) - 1) // 2
        first, second = torch.nonzero((values.abs() > self.best.threshold).triu(1), as_tuple=True)
        tuples = torch.cat([prefix.expand(len(first), -1), units[first, None], units[second, None]], 1)
        self.best.offer(tuples, values[first, second])
