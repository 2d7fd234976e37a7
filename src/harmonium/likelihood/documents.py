"""Rows with a ln Z of their own each, such as documents: exact, or by annealing for every document length."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidData, InvalidOption
from ..estimates import mean_of
from ..machines import RBM, BoltzmannMachine, Machine, enumeration
from ..machines.chain import ArrayLike
from ..machines.kernel import log_partitions
from ..noise import Seed
from ..sampling.annealing import anneal
from ..sampling.path import Path, beta_grid, matched
from ..units import Unit
from ..units.base import per_row
from ..units.multinomial import log_multinomial
from ..units.support import Counts
from .results import LogLikelihood
from .rows import RowWeights, row_weights
from .weights import CARRIED, Weights

_ELEMENTS = 2**23  # counts of all chains that are annealed at once
_BASE_ROWS = 1000
_ERRORS = 3  # standard errors in an interval
_LARGEST_SHARE = 0.25  # largest accepted share of lengths whose weights are uneven
_LARGEST_GAP = 1.0  # largest accepted mean difference of the two directions, in nats per document


@torch.no_grad()
def exact(machine: BoltzmannMachine, data: ArrayLike) -> LogLikelihood:
    """The log-likelihood of rows that have a ln Z of their own each, by sums over states.

    The documents of a replicated softmax have one partition function for each length, Z(D) = Σ_h e^{c·h} (Σ_k e^{b_k +
    (Wh)_k})^D, with one sum over the hidden states for all lengths. Their likelihood is that of sequences of words,
    p(v) Πv_k!/D!, where p(v) is the probability of the counts given their sum D.
    """
    if not is_replicated_softmax(machine):
        weights = row_weights(machine, data)
        log_z = enumeration.row_log_partitions(machine, machine.checked_states(data))
        return _result(weights.values - log_z, weights)
    rbm, rows, lengths = _checked(machine, data)
    distinct, which = lengths.unique(return_inverse=True)
    own = _sequences(rbm, rows)
    return _result(own.values - _sums(rbm, rows, distinct)[which], own)


@torch.no_grad()
def annealed(
    machine: BoltzmannMachine,
    data: ArrayLike,
    *,
    runs: int = 50,
    betas: int | Sequence[float] | Tensor = 1000,
    sweeps: int = 100,
    base: ArrayLike | None = None,
    seed: Seed = None,
) -> LogLikelihood:
    """The log-likelihood of documents under a replicated softmax, as sequences of words (Salakhutdinov & Hinton 2009).

    The machine is annealed for each length that occurs (Neal 2001), and back from the final states, resampled in
    proportion to their weights and moved by further Gibbs sweeps (Burda et al. 2015). The value is the mean of both
    directions. The cost is ``runs`` chains for each length.

    ``details`` has the number of words of each document (``lengths``), and ln p of each document with ln Z(D) of the
    ``forward`` annealing, which is overestimated on average, and of the ``reverse`` annealing, which is underestimated
    if its initial states are samples of the model: (n,) each. The interval covers both, with three standard errors.

    Args:
        machine: an RBM with :class:`harmonium.units.Multinomial` visible units.
        data: word counts (n, words); every document has at least one word.
        runs: number of annealing runs for each length.
        betas: number of equal steps of β from 0 to 1, or the values.
        sweeps: number of Gibbs sweeps before the reverse annealing.
        base: documents whose frequencies of words and hidden states define the start of the annealing; by default
            ``data``.
        seed: seed of the random generator.
    """
    rbm, rows, lengths = _checked(machine, data)
    if count("runs", runs) < 2 or count("sweeps", sweeps) < 0:
        raise InvalidOption(f"runs, sweeps: expected runs ≥ 2 and sweeps ≥ 0, found runs={runs}, sweeps={sweeps}")
    own = _sequences(rbm, rows)
    distinct, which = lengths.unique(return_inverse=True)
    generator = noise.generator(seed, rbm.device)
    start = rows if base is None else _checked(rbm, base)[1]
    uncoupled = matched(rbm, _some(start, _BASE_ROWS, generator), generator)
    examples = rows[_first(which, len(distinct))]  # one document of each length
    parts = list(_directions(rbm, uncoupled, examples, runs, beta_grid(betas), sweeps, generator))
    base_log_z = torch.cat([part[0] for part in parts])
    there, back = (Weights(torch.cat([part[k] for part in parts], 1)) for k in (1, 2))
    forward, reverse = (
        own.values - (base_log_z + sign * weights.log_mean)[which] for sign, weights in ((1, there), (-1, back))
    )
    number = torch.bincount(which, minlength=len(distinct)).double()
    spread = _ERRORS * max((number * weights.standard_error).norm().item() for weights in (there, back)) / len(rows)
    ends = forward.mean().item() + spread, reverse.mean().item() - spread
    found = _result((forward + reverse) / 2, own)
    return replace(
        found,
        interval=(min(ends), max(ends)),
        problems=(*found.problems, *_problems(there, back, (forward - reverse).mean().item())),
        details={"lengths": lengths, "forward": forward, "reverse": reverse},
    )


def _result(log_p: Tensor, rows: RowWeights) -> LogLikelihood:
    """The result from exact log-probabilities of the rows (n,)."""
    mean = mean_of(log_p)
    return LogLikelihood(
        value=mean.value,
        standard_error=mean.standard_error,
        interval=(mean.value, mean.value),
        per_row=log_p,
        baseline=rows.baseline,
    )


def is_replicated_softmax(machine: Machine) -> bool:
    """Whether the visible layer is one multinomial unit, as in a replicated softmax."""
    return isinstance(machine.visible.support, Counts) and machine.visible.sites == 1


def replicated_softmax(machine: BoltzmannMachine) -> RBM:
    """Return the machine if it is an RBM with one layer of multinomial units, else raise ``InvalidOption``."""
    if not isinstance(machine, RBM) or not is_replicated_softmax(machine):
        layers = " – ".join(unit.name() for unit in machine.layers)
        raise InvalidOption(f"machine: expected an RBM whose visible layer is one multinomial unit, found {layers}")
    return machine


def _checked(machine: BoltzmannMachine, data: ArrayLike) -> tuple[RBM, Tensor, Tensor]:
    """Check that the machine is a replicated softmax and that no document is empty; return both and the lengths."""
    rbm = replicated_softmax(machine)
    rows = rbm.checked_states(data)
    empty = torch.nonzero(rows.sum(1) == 0)
    if len(empty):
        raise InvalidData(f"data: expected at least one word in each document, found none in row {empty[0].item()}")
    return rbm, rows, rows.sum(1).double()


def _sequences(machine: BoltzmannMachine, rows: Tensor) -> RowWeights:
    """ln p* of each document as a sequence of words, which is that of its counts minus ln(D!/Πv_k!)."""
    own, orders = row_weights(copy.deepcopy(machine).double(), rows), log_multinomial(rows.double())
    assert own.baseline is not None
    return RowWeights(own.values - orders, own.errors, baseline=own.baseline - orders.mean().item())


# -- exact --------------------------------------------------------------------------------------------------------


def _sums(rbm: BoltzmannMachine, rows: Tensor, lengths: Tensor) -> Tensor:
    """ln Z(D) for each of ``lengths`` (m,) by a sum over the hidden states; ln Z of a given h is proportional to D."""
    double = copy.deepcopy(rbm).double().conserving(rows[:1].double())
    first, total = rows[0].sum().double(), lengths.new_full(lengths.shape, -math.inf)
    for state, log_p in enumeration.chunks(double, 1):
        own = log_partitions(double, state, summed=0)  # of documents as long as the first
        exponents = (log_p - own).unsqueeze(1) + own.unsqueeze(1) * (lengths / first)
        total = torch.logaddexp(total, torch.logsumexp(exponents, 0))
    return total


# -- annealing ----------------------------------------------------------------------------------------------------


def _directions(
    rbm: BoltzmannMachine,
    base: BoltzmannMachine,
    examples: Tensor,
    runs: int,
    schedule: list[float],
    sweeps: int,
    generator: Generator | None,
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield ln Z of the base (m,) and forward and reverse log-weights (runs, m) for some of ``examples`` (n, words)."""
    for part in examples.split(max(1, _ELEMENTS // (runs * examples.shape[1]))):
        rows = part.repeat_interleave(runs, 0)
        target, start = rbm.conserving(rows), base.conserving(rows)
        path = Path(target, start)
        state = [_free(unit, rows, generator) for unit in start.layers]
        log_z = torch.stack([_free_log_partition(unit, part) for unit in base.conserving(part).layers]).sum(0)
        forward, state = anneal(path, state, schedule, generator)
        chosen = _resampled(forward.view(len(part), runs), generator)
        state = [x[chosen] for x in state]
        for _ in range(sweeps):
            state = target.sweep(state, generator)
        reverse, _ = anneal(path.reversed(), state, schedule, generator)
        yield log_z, forward.view(-1, runs).T, reverse.view(-1, runs).T


def _free(unit: Unit, rows: Tensor, generator: Generator | None) -> Tensor:
    return unit.sample(rows.new_zeros(len(rows), *unit.shape), generator=generator)


def _free_log_partition(unit: Unit, rows: Tensor) -> Tensor:
    """ln Z of a layer without couplings for the length of each row, (n,) in float64."""
    return per_row(unit.log_partition(rows.new_zeros(len(rows), *unit.shape)).double())


def _resampled(log_weights: Tensor, generator: Generator | None) -> Tensor:
    """Indices (lengths · runs,) of runs drawn in proportion to their weights (lengths, runs), for each length."""
    runs = log_weights.shape[1]
    ends = torch.softmax(log_weights, 1).cumsum(1)
    drawn = torch.searchsorted(ends, noise.uniform(ends, generator) * ends[:, -1:]).clamp_max_(runs - 1)
    return (drawn + torch.arange(len(drawn), device=drawn.device).unsqueeze(1) * runs).flatten()


def _problems(there: Weights, back: Weights, gap: float) -> Iterator[str]:
    for name, weights in (("forward", there), ("reverse", back)):
        uneven = weights.few(max(CARRIED, 5 / len(weights)))
        if uneven.double().mean() > _LARGEST_SHARE:
            worst = weights.effective.min().item()
            yield (
                f"{name}, {int(uneven.sum())} of {len(uneven)} lengths: the effective sample size is only {worst:.1f} "
                f"of {len(weights)} runs: use more betas"
            )
    if not abs(gap) <= _LARGEST_GAP:
        yield f"the two directions differ by {abs(gap):.2f} nats per document: use more betas"


def _first(which: Tensor, number: int) -> Tensor:
    """The index of the first document of each length."""
    order = torch.arange(len(which), device=which.device)
    return order.new_full((number,), len(which)).scatter_reduce_(0, which, order, "amin")


def _some(rows: Tensor, most: int, generator: Generator | None) -> Tensor:
    return rows[torch.randperm(len(rows), generator=generator, device=rows.device)[:most]]
