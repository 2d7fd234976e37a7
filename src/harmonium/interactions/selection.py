"""How many variables have to interact at once: machines of limited order, compared on rows they have not seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import likelihood, noise
from ..checks import whole
from ..couplings import Masked
from ..errors import InvalidData, InvalidOption, NotEnumerable
from ..machines import RBM, enumeration
from ..training import fit
from ..units import Bernoulli, Unit
from .tuples import check_order, random_tuples

_EXACT_STATES = 2**20
_MOST_UNITS = 2000


def degree_limited(visible: Unit, hidden: Unit, order: int, *, seed: int | None = None) -> RBM:
    """A machine in which every hidden unit sees ``order`` visible ones, so that no more than these interact.

    The hidden units see different sets of visible units, drawn at random, as long as there are different ones.

    >>> rbm = degree_limited(Bernoulli(6), Bernoulli(15), order=2)
    >>> maximal_order(rbm), len(rbm.coupling.mask.T.unique(dim=0))
    (2, 15)
    """
    order = check_order(order, visible.sites)
    tuples = random_tuples(visible.sites, order, hidden.size, seed=seed)
    tuples = tuples[torch.arange(hidden.size) % len(tuples)]
    mask = torch.zeros(visible.sites, hidden.size).scatter_(0, tuples.T, 1.0)
    mask = mask.repeat_interleave(visible.size // visible.sites, 0)
    weight = visible.bias.new_zeros(mask.shape)
    return RBM(visible, hidden, Masked(tuple(visible.shape), tuple(hidden.shape), weight, mask=mask))


def maximal_order(rbm: RBM) -> int:
    """The largest number of visible units that one hidden unit is coupled to: no interaction is of a higher order.

    Where the coupling is masked, what it allows; else the weights that are not zero.
    """
    allowed = getattr(rbm.coupling, "mask", rbm.coupling.matrix()) != 0
    seen = allowed.reshape(rbm.visible.sites, -1, rbm.hidden.size).any(1)
    return int(seen.sum(0).max())


@dataclass(frozen=True)
class OrderResult:
    """The held-out log-likelihood of one order, in nats per row: ``rows`` (n,), one by one.

    ``interval`` is of ± 2 standard errors of the mean over the rows, and of the error of ln Z where that is estimated.
    """

    order: int
    machine: RBM
    rows: Tensor
    log_partition_interval: tuple[float, float]
    exact: bool
    problems: tuple[str, ...] = ()

    @property
    def log_likelihood(self) -> float:
        """The mean over the rows."""
        return self.rows.mean().item()

    @property
    def interval(self) -> tuple[float, float]:
        """Where the value would lie for other rows."""
        low, high = self.log_partition_interval
        spread = 2 * _standard_error(self.rows)
        return self.log_likelihood - spread - high, self.log_likelihood + spread - low

    @property
    def trustworthy(self) -> bool:
        """Whether nothing speaks against the estimate of ln Z."""
        return not self.problems


@dataclass(frozen=True)
class OrderSelection:
    """Machines of several orders, compared on the same held-out rows."""

    results: dict[int, OrderResult]

    @property
    def best(self) -> int:
        """The order of the largest held-out likelihood."""
        return max(self.results, key=lambda order: self.results[order].log_likelihood)

    @property
    def selected(self) -> int:
        """The smallest order that is not clearly worse than the best: the interval of the difference reaches zero."""
        return next(order for order in sorted(self.results) if self.gain(self.best, order)[1][0] <= 0)

    def gain(self, order: int, over: int) -> tuple[float, tuple[float, float]]:
        """How much more likely the rows are with one order than with another, row by row: the mean and its interval."""
        a, b = self.results[order], self.results[over]
        change = a.rows - b.rows
        spread = 2 * _standard_error(change)
        if order != over:
            (a_low, a_high), (b_low, b_high) = a.log_partition_interval, b.log_partition_interval
            low, high = change.mean().item() - spread - a_high + b_low, change.mean().item() + spread - a_low + b_high
            return change.mean().item(), (low, high)
        return 0.0, (0.0, 0.0)


def order_selection(
    data: Any,
    orders: Sequence[int] = (2, 3, 4),
    *,
    visible: Callable[[Any], Unit] = Bernoulli,
    hidden: Callable[[int], Unit] = Bernoulli,
    units: int | None = None,
    validation: float = 0.25,
    seed: int | None = None,
    estimation: dict[str, Any] | None = None,
    **training: Any,
) -> OrderSelection:
    """Compare machines whose hidden units see at most s visible ones, s in ``orders``, on held-out rows.

    Args:
        data: rows (n, *visible).
        visible, hidden: the units of the layers, by their shape.
        units: hidden units of each machine; by default one for each set of visible units, up to 2000.
        validation: the part of the rows that is kept for the comparison.
        estimation: options of :func:`harmonium.likelihood.estimate`, for machines too large to enumerate.
        training: options of :func:`harmonium.fit`.

    >>> rows = torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]).repeat(50, 1)  # parity: three at once
    >>> import harmonium as hm
    >>> adam = lambda parameters: torch.optim.Adam(parameters, lr=0.05)
    >>> settings = {"negative": hm.Exact(), "optimizer": adam, "epochs": 60, "initialize": {"scale": 1.0}}
    >>> found = order_selection(rows, (2, 3), units=6, **settings)
    >>> found.selected
    3
    """
    data = torch.as_tensor(data)
    if not 0 < validation < 1:
        raise InvalidOption(f"validation: expected a part between 0 and 1, found {validation}")
    if not orders:
        raise InvalidOption("orders: expected at least one order, found none")
    test_rows = round(validation * len(data))
    if min(test_rows, len(data) - test_rows) < 2:
        raise InvalidData(f"order selection: expected two or more rows on either side, found {len(data)} in all")
    seed = noise.resolve_seed(seed)
    shuffled = torch.randperm(len(data), generator=noise.generator(seed))
    test, train = data[shuffled[:test_rows]], data[shuffled[test_rows:]]
    results = {}
    for order in orders:
        layer = visible(tuple(data.shape[1:]))
        number = min(math.comb(layer.sites, check_order(order, layer.sites)), _MOST_UNITS)
        machine = degree_limited(layer, hidden(number if units is None else whole("units", units)), order, seed=seed)
        fit(machine, train, seed=seed, **{"progress": False, **training})
        results[order] = _held_out(order, machine, test, {"seed": seed, **(estimation or {})})
    return OrderSelection(results)


@torch.no_grad()
def _held_out(order: int, machine: RBM, test: Tensor, options: dict[str, Any]) -> OrderResult:
    free_energy = machine.free_energy(test).double()
    try:
        enumerable = enumeration.cheaper_parity(machine)[1] <= _EXACT_STATES
    except NotEnumerable:
        enumerable = False
    if enumerable:
        return OrderResult(order, machine, -free_energy - machine.log_partition(), (0.0, 0.0), True)
    estimate = likelihood.estimate(machine, machine.as_states(test), **options)
    low, high = estimate.interval
    error = (estimate.log_partition - high, estimate.log_partition - low)  # of ln Z, about the value in use
    return OrderResult(order, machine, -free_energy - estimate.log_partition, error, False, estimate.problems)


def _standard_error(rows: Tensor) -> float:
    return rows.std().item() / math.sqrt(len(rows))
