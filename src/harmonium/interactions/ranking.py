"""The strongest interactions of an order, without a look at every tuple."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ..checks import whole
from ..errors import InvalidOption
from ..machines import RBM
from . import differences as differences
from .differences import Bound
from .n_body_formula import n_body
from .sites import Sites
from .tuples import all_tuples, check_order


@torch.no_grad()
def strongest(rbm: RBM, order: int, n: int, **options: Any) -> tuple[Tensor, Tensor]:
    """The ``n`` interactions of largest magnitude: their tuples (n, order) and values (n,).

    In the lattice-gas gauge tuples are grown unit by unit, and a start is given up as soon as nothing that it can grow
    into exceeds what has been found, by |I_{i₁…i_s}| ≤ Σ_μ C_μ |w_{i₁μ}| … |w_{i_sμ}|, where C_μ bounds the s-th
    derivative of the hidden unit's ln Z on the fields that s units can add up to (:class:`Bound`). The other units of a
    tuple are bounded by the largest weight of each hidden unit. In the zero-sum gauge all tuples are visited. Options
    are those of :func:`interactions`; visible units have to have two states.

    >>> import harmonium as hm
    >>> W = torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Gaussian(1), hm.couplings.Dense(4, 1, W))
    >>> strongest(rbm, order=2, n=1)
    (tensor([[1, 2]]), tensor([-6.], dtype=torch.float64))
    """
    sites = Sites.of(rbm)
    order, n = check_order(order, sites.number), whole("n", n)
    if n < 1:
        raise InvalidOption(f"n: expected at least one interaction, found {n}")
    if sites.states != 2:
        raise InvalidOption(f"strongest: expected visible units of two states, found {sites.states}")
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
    """The largest values seen so far, largest first."""

    n: int
    tuples: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.int64))
    values: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))

    @property
    def threshold(self) -> float:
        """What a further one has to exceed."""
        return self.values[-1].abs().item() if len(self.values) == self.n else -1.0

    def offer(self, tuples: Tensor, values: Tensor) -> None:
        """Consider further tuples (n, s) with their values (n,)."""
        tuples, values = tuples.cpu(), values.cpu()
        if len(self.values):
            tuples, values = torch.cat([self.tuples, tuples]), torch.cat([self.values, values])
        kept = values.abs().sort(descending=True, stable=True).indices[: self.n]
        self.tuples, self.values = tuples[kept], values[kept]


class _Search:
    """Growth of tuples by increasing indices, the most promising first; the last two units come all pairs at a time."""

    def __init__(self, sites: Sites, order: int, best: _Best) -> None:
        self.sites, self.order, self.best = sites, order, best
        self.base, steps = sites.reference("lattice-gas")
        self.steps = steps[:, 0]
        self.sizes = self.steps.abs()
        self.largest = self.sizes.amax(0)
        self.bound = Bound.of(sites.log_partition, self.base, self.steps, order).largest
        self.visited = 0

    def run(self) -> None:
        """Visit every tuple that might be among the best."""
        self._grow(torch.empty(0, dtype=torch.int64, device=self.steps.device))

    def _grow(self, prefix: Tensor) -> None:
        units = torch.arange(int(prefix[-1]) + 1 if len(prefix) else 0, self.sites.number, device=prefix.device)
        # a unit that rests in one of the tuple's sites adds nothing, however large its bound
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
        """All pairs of ``units`` together with the prefix."""
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
