"""Select the interaction order of a model: compare machines of limited order by their likelihood on held-out data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import likelihood, noise
from ..arrays import as_tensor
from ..checks import whole
from ..couplings import Masked
from ..errors import InvalidData, InvalidOption
from ..machines import RBM, enumeration
from ..training import fit
from ..units import Bernoulli, Unit
from .tuples import check_order, random_tuples

_MOST_UNITS = 2000


def degree_limited(visible: Unit, hidden: Unit, order: int, *, seed: int | None = 0) -> RBM:
    """RBM in which every hidden unit is connected to ``order`` visible units, which limits the interaction order.

    The hidden units are connected to different random sets of visible units; sets repeat only if there are more hidden
    units than sets.

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
    """Largest number of visible units connected to one hidden unit, an upper limit of the interaction order.

    A connection is an entry of the mask of a masked coupling, otherwise a nonzero weight.
    """
    allowed = getattr(rbm.coupling, "mask", rbm.coupling.matrix()) != 0
    seen = allowed.reshape(rbm.visible.sites, -1, rbm.hidden.size).any(1)
    return int(seen.sum(0).max())


@dataclass(frozen=True)
class OrderResult:
    """Held-out log-likelihood of a machine of limited order, in nats.

    ``rows`` (n,) are the log-likelihoods of the held-out rows. ``interval`` is ± 2 standard errors of their mean, plus
    the interval of ln Z if that is an estimate.
    """

    order: int
    machine: RBM
    rows: Tensor
    log_partition_interval: tuple[float, float]
    exact: bool
    problems: tuple[str, ...] = ()

    @property
    def log_likelihood(self) -> float:
        """Mean log-likelihood per row."""
        return self.rows.mean().item()

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of ``log_likelihood``."""
        low, high = self.log_partition_interval
        spread = 2 * _standard_error(self.rows)
        return self.log_likelihood - spread - high, self.log_likelihood + spread - low

    @property
    def trustworthy(self) -> bool:
        """Whether the estimate of ln Z has no known problems."""
        return not self.problems


@dataclass(frozen=True)
class OrderSelection:
    """Results for machines of several orders on the same held-out rows."""

    results: dict[int, OrderResult]

    @property
    def best(self) -> int:
        """Order with the largest held-out likelihood."""
        return max(self.results, key=lambda order: self.results[order].log_likelihood)

    @property
    def selected(self) -> int:
        """Smallest order whose difference from the best has an interval that includes zero."""
        return next(order for order in sorted(self.results) if self.gain(self.best, order)[1][0] <= 0)

    def gain(self, order: int, over: int) -> tuple[float, tuple[float, float]]:
        """Mean difference of the log-likelihood per row between ``order`` and ``over``, and its interval."""
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
    seed: int | None = 0,
    estimation: dict[str, Any] | None = None,
    **training: Any,
) -> OrderSelection:
    """Compare machines with hidden units of degree s, for each s in ``orders``, by their likelihood on held-out rows.

    Args:
        data: rows (n, *visible).
        orders: the orders s to compare; see :func:`degree_limited`.
        visible, hidden: functions that return a layer of units, given its shape.
        units: number of hidden units of each machine; by default one for each set of s visible units, up to 2000.
        validation: fraction of the rows that is held out.
        seed: seed of the split, the connections, the training and the estimates.
        estimation: options of :func:`harmonium.likelihood.estimate`, for machines too large to enumerate.
        training: options of :func:`harmonium.fit`.

    >>> rows = torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]).repeat(50, 1)  # parity: three-body
    >>> import harmonium as hm
    >>> adam = lambda parameters: torch.optim.Adam(parameters, lr=0.05)
    >>> settings = {"negative": hm.Exact(), "optimizer": adam, "epochs": 60, "initialize": "normal:1.0"}
    >>> found = order_selection(rows, (2, 3), units=6, **settings)
    >>> found.selected
    3
    """
    data = as_tensor(data)
    if not 0 < validation < 1:
        raise InvalidOption(f"validation: expected a fraction between 0 and 1, found {validation}")
    if not orders:
        raise InvalidOption("orders: expected at least one order, found none")
    test_rows = round(validation * len(data))
    if min(test_rows, len(data) - test_rows) < 2:
        raise InvalidData(
            f"data: expected two or more rows for training and for validation, found {len(data)} in total"
        )
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
    free_energy = machine.free_energy(test, check=False).double()
    if enumeration.enumerable(machine):
        return OrderResult(order, machine, -free_energy - machine.log_partition(), (0.0, 0.0), True)
    estimate = likelihood.estimate(machine, machine.as_states(test), **options)
    low, high = estimate.interval
    error = (estimate.log_likelihood - high, estimate.log_likelihood - low)  # of ln Z, relative to its estimate
    return OrderResult(order, machine, -free_energy - estimate.log_partition, error, False, estimate.problems)


def _standard_error(rows: Tensor) -> float:
    return rows.std().item() / math.sqrt(len(rows))
