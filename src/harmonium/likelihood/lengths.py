"""Perplexity per word of documents under a replicated softmax: exact, or by annealing for every document length."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidData, InvalidOption
from ..machines import RBM, BoltzmannMachine, enumeration
from ..machines.chain import ArrayLike
from ..machines.kernel import log_partitions
from ..noise import Seed
from ..sampling.path import Path, beta_grid, matched
from ..shown import brief
from ..units import Unit
from ..units.base import per_row
from ..units.multinomial import log_multinomial
from .annealing import Estimate, anneal
from .data import replicated_softmax

_ELEMENTS = 2**23  # counts of all chains that are annealed at once
_ROWS = 4096
_BASE_ROWS = 1000
_ERRORS = 3  # standard errors in an interval
_LARGEST_SHARE = 0.25  # largest accepted share of lengths whose weights are uneven
_LARGEST_GAP = 1.0  # largest accepted mean difference of the two directions, in nats per document


@brief
@dataclass(frozen=True)
class DocumentLikelihood:
    """Log-probabilities of documents as sequences of words, for each document given its length.

    A sequence of D words has the probability p(v) Πv_k!/D!, where p(v) is the probability of its counts.

    Attributes:
        lengths: number of words of each document, (n,).
        forward: ln p of each document with ln Z(D) of the forward annealing, (n,); overestimated on average.
        reverse: ln p of each document with ln Z(D) of the reverse annealing, (n,); underestimated if its initial
            states are samples of the model.
        exact: whether ln Z(D) is a sum over all hidden states; ``forward`` and ``reverse`` are then equal.
        error: standard error of the annealing of the sum of ln p over all documents.
        problems: reasons to distrust the result: uneven weights at more than a quarter of the lengths, or directions
            that differ by more than one nat per document.
    """

    lengths: Tensor
    forward: Tensor
    reverse: Tensor
    exact: bool
    error: float = 0.0
    problems: tuple[str, ...] = ()

    @property
    def log_probability(self) -> Tensor:
        """ln p of each document as a sequence of words, (n,): the mean of the two directions."""
        return (self.forward + self.reverse) / 2

    @property
    def perplexity(self) -> float:
        """exp(-Σ ln p / ΣD): the perplexity per word of all documents together."""
        return self._perplexity(self.log_probability.sum().item())

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of ``perplexity`` from both directions of the annealing, each with three standard errors.

        It covers the error of ln Z for these documents, not the choice of the documents (``standard_error``).
        """
        spread = _ERRORS * self.error
        high, low = self.forward.sum().item() + spread, self.reverse.sum().item() - spread
        return self._perplexity(max(high, low)), self._perplexity(min(high, low))

    @property
    def standard_error(self) -> float:
        """Standard error of ``perplexity`` over the documents, as a ratio of two means; infinite for one document."""
        if len(self.lengths) < 2:
            return math.inf
        rate = -math.log(self.perplexity)
        residuals = self.log_probability - rate * self.lengths
        return self.perplexity * (residuals.std() / self.lengths.mean() / math.sqrt(len(residuals))).item()

    @property
    def document_perplexity(self) -> float:
        """exp(-mean of ln p / D), in which every document has the same weight (Salakhutdinov & Hinton 2009)."""
        return math.exp(-(self.log_probability / self.lengths).mean().item())

    @property
    def trustworthy(self) -> bool:
        """Whether the value is exact or ``problems`` is empty."""
        return self.exact or not self.problems

    def _perplexity(self, log_p: float) -> float:
        return math.exp(-log_p / self.lengths.sum().item())


@torch.no_grad()
def documents(
    machine: BoltzmannMachine,
    data: ArrayLike,
    *,
    runs: int = 50,
    betas: int = 1000,
    sweeps: int = 100,
    base: ArrayLike | None = None,
    exact: bool | None = None,
    seed: Seed = None,
) -> DocumentLikelihood:
    """Compute the perplexity per word of documents under a replicated softmax (Salakhutdinov & Hinton 2009).

    There is one partition function for each document length, Z(D) = Σ_h e^{c·h} (Σ_k e^{b_k + (Wh)_k})^D. With at most
    2^16 hidden states the sum is computed as it stands, which is exact for every length. Larger machines are annealed
    for each length that occurs (Neal 2001), and back from the final states, resampled in proportion to their
    weights and moved by further Gibbs sweeps (Burda et al. 2015). The cost is ``runs`` chains for each length.

    Args:
        machine: an RBM with :class:`harmonium.units.Multinomial` visible units.
        data: word counts (n, words); every document has at least one word.
        runs: number of annealing runs for each length.
        betas: number of equal steps of β from 0 to 1.
        sweeps: number of Gibbs sweeps before the reverse annealing.
        base: documents whose frequencies of words and hidden states define the start of the annealing; by default
            ``data``.
        exact: whether to sum over the hidden states; by default if there are at most 2^16.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Multinomial(50), hm.units.Bernoulli(3))
    >>> found = hm.likelihood.documents(rbm, torch.ones(4, 50))  # zero weights: all 50 words are equally probable
    >>> found.exact, round(found.perplexity, 3)
    (True, 50.0)
    """
    rbm, rows = _checked(machine, data)
    if count("runs", runs) < 2 or count("sweeps", sweeps) < 0:
        raise InvalidOption(f"runs, sweeps: expected runs ≥ 2 and sweeps ≥ 0, found runs={runs}, sweeps={sweeps}")
    schedule = beta_grid(betas)
    own, lengths = _unnormalized(rbm, rows), rows.sum(1).double()
    distinct, which = lengths.unique(return_inverse=True)
    if enumeration.enumerable(rbm, enumeration.EXACT_STATES_PER_ROW, parity=1) if exact is None else exact:
        log_z = _exact(rbm, rows, distinct)
        return DocumentLikelihood(lengths, own - log_z[which], own - log_z[which], True)
    generator = noise.generator(seed, rbm.device)
    start = rows if base is None else _checked(rbm, base)[1]
    uncoupled = matched(rbm, _some(start, _BASE_ROWS, generator), generator)
    examples = rows[_first(which, len(distinct))]  # one document of each length
    found = list(_annealed(rbm, uncoupled, examples, runs, schedule, sweeps, generator))
    there, back = zip(*found, strict=True)
    forward, reverse = (_values(part, own) for part in (there, back))
    number = torch.bincount(which, minlength=len(distinct)).double()
    errors = [torch.tensor([e.standard_error for e in part], dtype=torch.float64) for part in (there, back)]
    error = max((number * part.to(number)).norm().item() for part in errors)
    problems = _problems(there, back, own - forward[which], own - reverse[which])
    return DocumentLikelihood(lengths, own - forward[which], own - reverse[which], False, error, problems)


def _checked(machine: BoltzmannMachine, data: ArrayLike) -> tuple[RBM, Tensor]:
    """Check that the machine is a replicated softmax and that no document is empty; return both."""
    rbm = replicated_softmax(machine)
    rows = rbm.checked_states(data)
    empty = torch.nonzero(rows.sum(1) == 0)
    if len(empty):
        raise InvalidData(f"data: expected at least one word in each document, found none in row {empty[0].item()}")
    return rbm, rows


def _unnormalized(rbm: RBM, rows: Tensor) -> Tensor:
    """ln p*(v) - ln(D!/Πv_k!): the unnormalized log-probability of each document as a sequence, (n,) in float64."""
    double = copy.deepcopy(rbm).double()
    parts = [-double.free_energy(part, check=False) - log_multinomial(part.double()) for part in rows.split(_ROWS)]
    return torch.cat(parts)


# -- exact --------------------------------------------------------------------------------------------------------


def _exact(rbm: RBM, rows: Tensor, lengths: Tensor) -> Tensor:
    """ln Z(D) for each of ``lengths`` (m,) by a sum over the hidden states; ln Z of a given h is proportional to D."""
    double = copy.deepcopy(rbm).double().conserving(rows[:1].double())
    first, total = rows[0].sum().double(), lengths.new_full(lengths.shape, -math.inf)
    for state, log_p in enumeration.chunks(double, 1):
        own = log_partitions(double, state, summed=0)  # of documents as long as the first
        exponents = (log_p - own).unsqueeze(1) + own.unsqueeze(1) * (lengths / first)
        total = torch.logaddexp(total, torch.logsumexp(exponents, 0))
    return total


# -- annealing ----------------------------------------------------------------------------------------------------


def _annealed(
    rbm: RBM,
    base: BoltzmannMachine,
    examples: Tensor,
    runs: int,
    schedule: list[float],
    sweeps: int,
    generator: Generator | None,
) -> Iterator[tuple[Estimate, Estimate]]:
    """Yield the forward and the reverse estimate of ln Z for the length of each of ``examples`` (m, words)."""
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
        for there, back, own in zip(forward.view(-1, runs), reverse.view(-1, runs), log_z.tolist(), strict=True):
            yield Estimate(rbm, there, own), Estimate(rbm, back, own, "reverse")


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


def _values(estimates: tuple[Estimate, ...], like: Tensor) -> Tensor:
    return torch.tensor([estimate.log_partition for estimate in estimates]).to(like)


def _problems(
    there: tuple[Estimate, ...], back: tuple[Estimate, ...], forward: Tensor, reverse: Tensor
) -> tuple[str, ...]:
    found = []
    for name, estimates in (("forward", there), ("reverse", back)):
        bad = [problem for estimate in estimates for problem in estimate.problems]
        finite = all(math.isfinite(estimate.log_partition) for estimate in estimates)
        if len(bad) > _LARGEST_SHARE * len(estimates) or not finite:
            found.append(f"{name}, {len(bad)} of {len(estimates)} lengths: {bad[0]}")
    gap = (forward - reverse).mean().abs().item()
    if not gap <= _LARGEST_GAP:
        found.append(f"the two directions differ by {gap:.2f} nats per document: use more betas")
    return tuple(found)


def _first(which: Tensor, number: int) -> Tensor:
    """The index of the first document of each length."""
    order = torch.arange(len(which), device=which.device)
    return order.new_full((number,), len(which)).scatter_reduce_(0, which, order, "amin")


def _some(rows: Tensor, most: int, generator: Generator | None) -> Tensor:
    return rows[torch.randperm(len(rows), generator=generator, device=rows.device)[:most]]
