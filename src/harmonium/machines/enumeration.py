"""Exact sums over the states of a machine, by enumeration of its even or its odd layers."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from .. import noise
from ..allocation import check_memory
from ..errors import NotEnumerable
from .kernel import half_sweep, log_weight

if TYPE_CHECKING:
    from . import Machine
    from .chain import BoltzmannMachine

MAX_STATES = 2**26
_SMALL = 2**18
EXACT_STATES = 2**20  # up to which sums are exact where the alternative is an estimate
EXACT_STATES_PER_ROW = 2**16  # the same for a sum over the hidden states for every row, or every length of a document
_CHUNK_ELEMENTS = 2**22


def cheaper_parity(machine: BoltzmannMachine, parity: int | None = None) -> tuple[int, int]:
    """The parity of the layers with fewer joint states, and the number of these states."""
    numbers = {}
    for candidate in (0, 1) if parity is None else (parity,):
        cardinalities = [unit.cardinality for unit in machine.layers[candidate::2]]
        if None not in cardinalities:
            numbers[candidate] = math.prod(n for n in cardinalities if n)
    if not numbers:
        raise NotEnumerable("exact enumeration: expected finitely many states of the even or the odd layers")
    best = min(numbers, key=lambda candidate: numbers[candidate])
    if numbers[best] > MAX_STATES:
        raise NotEnumerable(
            "exact enumeration: expected at most 2^26 states on the smaller side, "
            f"found 2^{math.log2(numbers[best]):.1f}"
        )
    return best, numbers[best]


def number_of_values(machine: BoltzmannMachine) -> float:
    """The number of values of units in an exact sum: joint states times units; infinite if there is no such sum.

    >>> from harmonium import RBM
    >>> from harmonium.units import Gaussian
    >>> number_of_values(RBM(9, 8)), number_of_values(RBM(Gaussian(2), Gaussian(2)))
    (4352, inf)
    """
    try:
        _, number = cheaper_parity(machine)
    except NotEnumerable:
        return math.inf
    return number * sum(unit.size for unit in machine.layers)


def is_small(machine: Machine) -> bool:
    """Whether exact gradients cost little: an RBM with at most 2^18 values of units in a sum over its states.

    >>> import harmonium as hm
    >>> is_small(hm.RBM(784, 7)), is_small(hm.RBM(784, 9)), is_small(hm.RBM(8, 100))
    (True, False, True)
    """
    from .rbm import RBM

    if not isinstance(machine, RBM) or machine.context is not None or machine.visible.conserves:
        return False
    return number_of_values(machine) <= _SMALL


def enumerable(machine: BoltzmannMachine, most: int | None = None, *, parity: int | None = None) -> bool:
    """Whether the even or the odd layers (or those of ``parity``) have at most ``most`` joint states, 2^20 by default.

    >>> from harmonium import RBM
    >>> from harmonium.units import Bernoulli, Gaussian
    >>> enumerable(RBM(Bernoulli(784), Bernoulli(20))), enumerable(RBM(Bernoulli(784), Bernoulli(21)))
    (True, False)
    >>> enumerable(RBM(Gaussian(4), Bernoulli(2)), parity=0)
    False
    """
    try:
        _, number = cheaper_parity(machine, parity)
    except NotEnumerable:
        return False
    return number <= (EXACT_STATES if most is None else most)


def chunks(machine: BoltzmannMachine, parity: int | None = None) -> Iterator[tuple[list[Tensor | None], Tensor]]:
    """Every joint state of the layers of one parity, a chunk at a time, with its unnormalized log-probability.

    Yields (state, log p): the state has ``None`` for the layers that are summed out; log p is (chunk,) in float64.
    """
    for state, kept in states(machine, parity):
        yield state, log_weight(machine, state, summed=1 - kept, dtype=torch.float64)


def states(
    machine: BoltzmannMachine, parity: int | None = None, *, copies: int = 1
) -> Iterator[tuple[list[Tensor | None], int]]:
    """Every joint state of the layers of one parity, a chunk at a time, with this parity; ``None`` for other layers.

    The chunks are small enough for ``copies`` of them in memory.
    """
    parity, total = cheaper_parity(machine, parity)
    widest = max(unit.size for unit in machine.layers)
    chunk = max(1, min(total, _CHUNK_ELEMENTS // (widest * copies)))
    for start in range(0, total, chunk):
        yield _decode(machine, parity, torch.arange(start, min(start + chunk, total))), parity


def kept_states(machine: BoltzmannMachine) -> list[tuple[list[Tensor | None], int]] | None:
    """The result of :func:`states` as a list for :func:`moments`, or ``None`` if it would need much memory.

    The states do not depend on the parameters: :func:`moments` is several times faster with them.
    """
    parity, total = cheaper_parity(machine)
    if total * sum(unit.size for unit in machine.layers[parity::2]) > _CHUNK_ELEMENTS:
        return None
    return list(states(machine, parity))


def _decode(machine: BoltzmannMachine, parity: int, index: Tensor) -> list[Tensor | None]:
    """The joint states of the layers of one parity with the given indices (n,); ``None`` for the other layers."""
    state: list[Tensor | None] = [None] * machine.depth
    for k in range(parity, machine.depth, 2):
        number = machine.layers[k].cardinality or 1  # not of layer(k): states need no context
        state[k] = machine.layers[k].enumerate(index % number)
        index = index // number
    return state


@torch.no_grad()
def log_partition(machine: BoltzmannMachine, parity: int | None = None) -> float:
    """ln Z, computed in float64 whatever the machine's dtype."""
    if machine.dtype != torch.float64:
        machine = copy.deepcopy(machine).double()
    parts = [torch.logsumexp(log_p, 0) for _, log_p in chunks(machine, parity)]
    return torch.logsumexp(torch.stack(parts), 0).item()


@torch.no_grad()
def row_log_partitions(machine: BoltzmannMachine, rows: Tensor) -> Tensor:
    """ln Z of the machine of each row (n, *visible): (n,) in float64.

    They differ if the visible layer has conserved quantities, such as the rated items (:meth:`Unit.conserving`).

    >>> from harmonium import RBM
    >>> from harmonium.units import Bernoulli, Ratings
    >>> v = torch.tensor([[[1.0, 0, 0], [0, 1, 0]], [[1.0, 0, 0], [0, 0, 0]]])  # two ratings and one rating
    >>> row_log_partitions(RBM(Ratings((2, 3)), Bernoulli(1)), v).exp()
    tensor([18.0000,  6.0000], dtype=torch.float64)
    """
    if machine.visible.conserving(rows) is machine.visible:
        return torch.full((len(rows),), log_partition(machine), dtype=torch.float64, device=rows.device)
    double = copy.deepcopy(machine).double()
    values = [log_partition(double.conserving(row.unsqueeze(0))) for row in rows.double()]
    return torch.tensor(values, dtype=torch.float64, device=rows.device)


@torch.no_grad()
def moments(
    machine: BoltzmannMachine, known: list[tuple[list[Tensor | None], int]] | None = None
) -> tuple[list[dict[str, Tensor]], list[Tensor]]:
    """Expected sufficient statistics of every layer and correlations x yᵀ of every coupling under the model.

    ``known`` are the states of the machine (:func:`kept_states`).
    """
    layers: list[dict[str, Tensor]] = [{} for _ in machine.layers]
    links = [torch.zeros_like(coupling.weight) for coupling in machine.couplings]
    log_z = torch.tensor(-math.inf, dtype=torch.float64, device=machine.device)
    for state, parity in states(machine) if known is None else known:
        fields = {k: machine.field(k, state) for k, x in enumerate(state) if x is None}
        log_p = log_weight(machine, state, summed=1 - parity, dtype=torch.float64, fields=fields)
        before, log_z = log_z, torch.logaddexp(log_z, torch.logsumexp(log_p, 0))
        p, kept = (log_p - log_z).exp().to(machine.dtype), (before - log_z).exp().to(machine.dtype)
        means: list[Tensor] = []
        for k, unit in enumerate(machine.layers):
            x = state[k]
            if x is None:
                x = unit.mean(fields[k])
                values = unit.moments(fields[k], mean=x)
            else:
                values = unit.statistics(x)
            means.append(x)
            for name, value in values.items():
                layers[k][name] = layers[k].get(name, 0.0) * kept + torch.tensordot(p, value, 1)
        for k, coupling in enumerate(machine.couplings):
            lower = means[k] * p.view(-1, *(1 for _ in coupling.lower))
            links[k] = links[k].mul_(kept).add_(coupling.correlate(lower, means[k + 1]))
    return layers, links


@torch.no_grad()
def distribution(machine: BoltzmannMachine) -> tuple[Tensor, Tensor]:
    """Every visible state and its exact log-probability: (states, *shape) and (states,) in float64."""
    if len(machine.layers) > 2:
        raise NotEnumerable(f"distribution: expected a machine with two layers, found {len(machine.layers)}")
    _, number = cheaper_parity(machine, 0)
    size = 3 * 8 * number * machine.layer(0).size
    check_memory(f"distribution of {number:,} states", size, "use log_partition(), which needs no list of the states")
    double = copy.deepcopy(machine).double()
    parts = list(chunks(double, 0))
    states = torch.cat([state[0] for state, _ in parts if state[0] is not None])
    log_p = torch.cat([log_p for _, log_p in parts])
    return states.to(machine.dtype), log_p - torch.logsumexp(log_p, 0)


@torch.no_grad()
def draws(machine: BoltzmannMachine, n: int, generator: Generator | None = None) -> list[Tensor]:
    """Exact draws of every layer, (n, *shape) each: one parity by enumeration, then the other given the first.

    >>> from harmonium import RBM
    >>> from harmonium.units import Bernoulli
    >>> [x.shape for x in draws(RBM(Bernoulli(4), Bernoulli(2)), 3)]
    [torch.Size([3, 4]), torch.Size([3, 2])]
    """
    parity, _ = cheaper_parity(machine)
    double = machine if machine.dtype == torch.float64 else copy.deepcopy(machine).double()
    log_p = torch.cat([log_p for _, log_p in chunks(double, parity)])
    ends = torch.softmax(log_p, 0).cumsum(0)
    at = torch.searchsorted(ends, noise.uniform(ends.new_empty(n), generator) * ends[-1]).clamp_max(len(ends) - 1)
    state = [machine.as_states(x, k) if x is not None else None for k, x in enumerate(_decode(machine, parity, at))]
    half_sweep(machine, state, 1 - parity, generator)  # type: ignore[arg-type]
    return state  # type: ignore[return-value]
