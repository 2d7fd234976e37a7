"""Select the interaction order of a model by machines of limited order, each of which contains the one before.

The machine of order n has hidden units that are connected to up to n visible units: the trained hidden units of the
machine of order n - 1, and new ones. It is trained from there, and the parameters with the largest likelihood of
validation rows are kept, among them those of order n - 1. So a larger order is not worse for lack of training.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from .. import noise
from ..allocation import check_memory
from ..arrays import as_tensor
from ..checks import whole
from ..couplings import Masked
from ..errors import InvalidData, InvalidOption, NotEnumerable
from ..machines import RBM, enumeration
from ..noise import Seed
from ..shown import Shown, short
from ..units import Bernoulli, Unit
from .tuples import check_order, random_tuples

_LEAST_UNITS, _MOST_UNITS = 4, 2000  # new hidden units of a round: for each visible unit; in total
_SATURATED, _EXCLUDED = 2, 3  # standard errors: below which a round gains nothing, and beyond which an order is needed
_RISE, _PATIENCE = 1e-5, 200  # nats; steps, which are small ones of first-order optimizers
_COPIES = 4  # of the hidden fields of every state, in memory

Optimizer = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def degree_limited(visible: Unit, hidden: Unit, order: int, *, seed: Seed = None) -> RBM:
    """RBM in which every hidden unit is connected to ``order`` visible units, which limits the interaction order.

    The hidden units are connected to different random sets of visible units; sets repeat only if there are more hidden
    units than sets.

    >>> rbm = degree_limited(Bernoulli(6), Bernoulli(15), order=2)
    >>> maximal_order(rbm), len(rbm.coupling.mask.T.unique(dim=0))
    (2, 15)
    """
    mask = _random_mask(visible, order, hidden.size, noise.generator(seed))
    weight = visible.bias.new_zeros(mask.shape)
    return RBM(visible, hidden, Masked(tuple(visible.shape), tuple(hidden.shape), weight, mask=mask))


def _random_mask(visible: Unit, order: int, hidden: int, generator: Generator | None) -> Tensor:
    """Connections of each hidden unit to ``order`` visible units: (visible size, hidden)."""
    tuples = random_tuples(visible.sites, order, hidden, seed=generator)
    shuffled = tuples[torch.randperm(len(tuples), generator=generator)]
    repeated = shuffled[torch.arange(hidden) % len(tuples)]
    mask = torch.zeros(visible.sites, hidden).scatter_(0, repeated.T, 1.0)
    return mask.repeat_interleave(visible.size // visible.sites, 0)


def maximal_order(rbm: RBM) -> int:
    """Largest number of visible units connected to one hidden unit, an upper limit of the interaction order.

    A connection is an entry of the mask of a masked coupling, otherwise a nonzero weight.
    """
    seen = _mask(rbm).reshape(rbm.visible.sites, -1, rbm.hidden.size).any(1)
    return int(seen.sum(0).max())


def _mask(rbm: RBM) -> Tensor:
    return getattr(rbm.coupling, "mask", rbm.coupling.matrix()) != 0


@dataclass(frozen=True)
class NestedMachines:
    """Machines of orders 1, 2, …, trained on one split of the rows.

    ``test`` (states,) are the numbers of test rows in each visible state; ``log_p`` and ``controls`` (states,) are the
    log-probabilities of the states in the machine of each order and in its control.
    """

    machines: Mapping[int, RBM]
    log_p: Mapping[int, Tensor] = field(repr=False)
    controls: Mapping[int, Tensor] = field(repr=False)
    test: Tensor = field(repr=False)


@dataclass(frozen=True, repr=False)
class OrderSelection(Shown):
    """Nested machines for several splits of the rows."""

    splits: Sequence[NestedMachines]

    @property
    def orders(self) -> tuple[int, ...]:
        """The orders that were compared."""
        return tuple(self.splits[0].machines)

    @property
    def selected(self) -> int:
        """Smallest order over which no larger order has a gain whose interval excludes zero."""
        return next(
            order
            for order in self.orders
            if not any(self.gain(larger, order)[1][0] > 0 for larger in self.orders if larger > order)
        )

    def log_likelihood(self, order: int) -> float:
        """Mean log-likelihood of the test rows, in nats per row."""
        return sum(_mean(split.log_p[order], split.test)[0] for split in self.splits) / len(self.splits)

    def gain(self, order: int, over: int) -> tuple[float, tuple[float, float]]:
        """Gain in log-likelihood per test row of ``order`` over a smaller order, and its interval.

        It is the sum of the gains of the orders above ``over``, each over its control. The interval is ± 3 standard
        errors; these are made of the differences between rows and between splits.
        """
        above = range(over + 1, order + 1)
        means, errors = torch.tensor(
            [
                _mean(sum((x.log_p[n] - x.controls[n] for n in above), torch.zeros_like(x.test)), x.test)
                for x in self.splits
            ],
            dtype=torch.float64,
        ).T
        gain = means.mean().item()
        error = math.sqrt((errors**2).mean() + means.var() / len(means))
        return gain, (gain - _EXCLUDED * error, gain + _EXCLUDED * error)

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The selected order, and the gain of every order over the one before."""
        gains = {f"gain of order {n}": short(self.gain(n, n - 1)[0]) for n in self.orders[1:]}
        return "OrderSelection", {"selected": self.selected, **gains}


def lbfgs(parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """L-BFGS with a line search, five iterations per step: the default optimizer of :func:`order_selection`."""
    return torch.optim.LBFGS(list(parameters), max_iter=5, history_size=20, line_search_fn="strong_wolfe")


def order_selection(
    data: Any,
    largest: int = 4,
    *,
    visible: Callable[[Any], Unit] = Bernoulli,
    hidden: Callable[[int], Unit] = Bernoulli,
    units: int | None = None,
    splits: int = 3,
    rounds: int = 5,
    draws: int = 2,
    optimizer: Optimizer = lbfgs,
    seed: Seed = None,
) -> OrderSelection:
    """Find the smallest order over which machines of larger order are not better on test rows.

    Hidden units of degree n are added to the machine of order n - 1, one for each set of n visible units, and all
    parameters are trained with exact gradients; this is repeated until a round gains less than 2 standard errors on
    validation rows. The control is the same round with new units of degree n - 1, so the gain of an order comes
    neither from longer training nor from more units. Half of the rows are used for training, a quarter for validation
    and a quarter, on which nothing depends, for the gains.

    Args:
        data: rows (n, *visible).
        largest: the largest order; at most the number of visible units.
        visible, hidden: functions that return a layer of units, given its shape. All states of the visible layer are
            summed, so about 20 binary units are possible.
        units: number of new hidden units of a round; by default one for each set of visible units, at least four for
            each visible unit, and at most 2000.
        splits: number of divisions of the rows, each with its own machines.
        rounds: largest number of rounds of an order.
        draws: number of random initial weights in each round, of which the best is kept.
        optimizer: function of the parameters that returns an optimizer of torch.
        seed: seed of the splits, the connections and the initial weights.

    >>> rows = torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]).repeat(50, 1)  # parity: three-body
    >>> order_selection(rows, largest=3).selected
    3
    """
    rows, layer = as_tensor(data), visible(tuple(as_tensor(data).shape[1:]))
    largest, splits = check_order(largest, layer.sites), whole("splits", splits)
    if splits < 2:
        raise InvalidOption(f"splits: expected at least 2, for the error of the gains, found {splits}")
    if min(whole("rounds", rounds), whole("draws", draws)) < 1:
        raise InvalidOption(f"expected rounds ≥ 1 and draws ≥ 1, found {rounds} and {draws}")
    if len(rows) < 8:
        raise InvalidData(f"data: expected eight or more rows, two of them for tests, found {len(rows)}")
    if (layer.cardinality or math.inf) > enumeration.EXACT_STATES:
        raise NotEnumerable(
            f"order_selection: expected a visible layer with at most 2^20 states, found {layer!r}; compare machines of "
            "degree_limited by likelihood.estimate"
        )
    numbers = {
        n: whole("units", units) if units is not None else _new_units(layer.sites, n) for n in range(1, largest + 1)
    }
    size = 8 * _COPIES * (layer.cardinality or 1) * sum(numbers.values())
    check_memory(f"machines of {sum(numbers.values()):,} hidden units", size, "use fewer units or a smaller order")
    layer.check(rows)
    generator = noise.generator(noise.resolve_seed(seed))
    grow = partial(_grown, rows, layer, numbers, hidden=hidden, rounds=rounds, draws=draws, optimizer=optimizer)
    return OrderSelection([grow(generator) for _ in range(splits)])


def _new_units(sites: int, order: int) -> int:
    return min(max(math.comb(sites, order), _LEAST_UNITS * sites), _MOST_UNITS)


def _grown(
    rows: Tensor, layer: Unit, numbers: Mapping[int, int], generator: Generator | None, *, rounds: int, **options: Any
) -> NestedMachines:
    """The machines of all orders, ``numbers`` new hidden units in each round of an order, on one split of the rows."""
    order_of_rows = torch.randperm(len(rows), generator=generator)
    half, quarter = len(rows) // 2, len(rows) // 4
    train, validation, test = rows[order_of_rows].split([half, quarter, len(rows) - half - quarter])
    visible = copy.deepcopy(layer).double()
    visible.initialize_from(train.double())
    machine = degree_limited(visible, options["hidden"](1), 1, seed=generator).double()
    states = visible.enumerate()
    growth = _Growth(states, _counts(states, train), _counts(states, validation), generator, **options)
    machines, controls = {}, {}
    for order, number in numbers.items():
        controls[order] = growth.log_p(growth.round(machine, max(1, order - 1), number))
        for _ in range(rounds):
            before, machine = machine, growth.round(machine, order, number)
            gain, error = _mean(growth.log_p(machine) - growth.log_p(before), growth.validation)
            if gain <= _SATURATED * error:
                break
        machines[order] = machine
    log_p = {order: growth.log_p(machine) for order, machine in machines.items()}
    return NestedMachines(machines, log_p, controls, _counts(states, test))


@dataclass(frozen=True)
class _Growth:
    """Training on the rows of one split, which are numbers of rows (states,) in each visible state."""

    states: Tensor
    train: Tensor
    validation: Tensor
    generator: Generator | None
    hidden: Callable[[int], Unit]
    draws: int
    optimizer: Optimizer

    def round(self, machine: RBM, order: int, number: int) -> RBM:
        """The machine with new hidden units of degree ``order``, or without them if that is better on validation rows.

        Its new weights are the best of several draws.
        """
        drawn = [self.trained(self.extended(machine, order, number)) for _ in range(self.draws)]
        return max(machine, *drawn, key=self.score)

    @torch.no_grad()
    def extended(self, machine: RBM, order: int, number: int) -> RBM:
        """The machine with ``number`` new hidden units of random weights, whose fields are zero at the mean state.

        The weights have standard deviation 1 if the states are 0 and 1, so that their gradients do not vanish.
        """
        mask = _random_mask(machine.visible, order, number, self.generator).double()
        scale = 1 / (self.states.max() - self.states.min())
        weight = scale * mask * noise.normal(mask, self.generator)
        known = machine.hidden.size
        layer = self.hidden(known + number).double()
        for new, old in zip(layer.parameters(), machine.hidden.parameters(), strict=True):
            new[:known] = old
        mean = self.train @ self.states.flatten(1) / self.train.sum()
        layer.shift_bias(torch.cat([mean.new_zeros(known), -mean @ weight]))
        masks, weights = torch.cat([_mask(machine), mask], 1), torch.cat([machine.coupling.matrix(), weight], 1)
        coupling = Masked(tuple(machine.visible.shape), tuple(layer.shape), weights, mask=masks)
        return RBM(copy.deepcopy(machine.visible), layer, coupling)

    def trained(self, machine: RBM) -> RBM:
        """The machine with the parameters of the step with the largest likelihood of the validation rows.

        Training ends if this has not risen in half of the steps.
        """
        optimizer = self.optimizer(machine.parameters())

        def loss() -> float:
            optimizer.zero_grad()
            value = -(self.train @ _log_p(machine, self.states)) / self.train.sum()
            value.backward()
            return value.item()

        best, at, step, kept = -math.inf, 0, 0, machine
        while step < 2 * at + _PATIENCE:
            optimizer.step(loss)
            step, score = step + 1, self.score(machine)
            if score > best + _RISE:
                best, at, kept = score, step, copy.deepcopy(machine)
        return kept

    def score(self, machine: RBM) -> float:
        """Mean log-likelihood of the validation rows."""
        return _mean(self.log_p(machine), self.validation)[0]

    @torch.no_grad()
    def log_p(self, machine: RBM) -> Tensor:
        """The log-probability of every visible state: (states,)."""
        return _log_p(machine, self.states)


def _log_p(machine: RBM, states: Tensor) -> Tensor:
    return torch.log_softmax(-machine.free_energy(states, check=False), 0)


def _counts(states: Tensor, rows: Tensor) -> Tensor:
    """The number of rows in each of the states, which are all different: (states,)."""
    _, index = torch.cat([states, rows.to(states.dtype)]).unique(dim=0, return_inverse=True)
    return torch.bincount(index[len(states) :], minlength=len(states)).to(states.dtype)[index[: len(states)]]


def _mean(values: Tensor, counts: Tensor) -> tuple[float, float]:
    """The mean of values (states,) over rows, given the number of rows in each state, and its standard error."""
    n = counts.sum()
    mean = counts @ values / n
    variance = counts @ values.square() / n - mean.square()
    return mean.item(), math.sqrt(max(0.0, variance.item()) / n.item())
