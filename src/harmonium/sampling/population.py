"""Population annealing: states annealed together from a base to the target machine, with or without resampling.

The algorithm is that of Hukushima & Iba (2003) and Machta (2010). It is a sequential Monte Carlo sampler, so its
estimate of Z is unbiased for any number of states, betas and sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypedDict, Unpack

import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..machines.kernel import log_partitions, sweep
from ..machines.phase_masses import Phases, Verdict, phases
from ..noise import Seed
from ..shown import brief
from .base import base_machine
from .path import Path, beta_grid, draws, uncoupled_log_partition

_OVERLAP = 0.9  # effective fraction of a population after one step of an automatic schedule
_PILOT = 500  # maximum number of states used to choose a schedule
_MOST_BETAS = 10_000
_HALVINGS = 30  # maximum number of bisections for one step
_POPULATIONS = 10  # default number of independent populations, for the standard error of ln Z
_SMALLEST = 50  # minimum number of states per population, by default
_CARRIED = 0.6  # minimum effective fraction of the independent populations
_CARRIED_STATES = 0.1  # the same for states without resampling, of which there are more
_FAMILIES = 3.0  # minimum effective families per population; with fewer, populations may agree on a wrong value
_LEVEL = 0.0027  # probability outside three standard errors of a normal distribution
_MARKOV = math.log(370)  # from Markov's inequality at level 1/370 ≈ _LEVEL


@brief
@dataclass(frozen=True)
class Population:
    """The result of annealing ``n`` initial states. The descendants of an initial state are its *family*.

    The estimate of Z is unbiased, so ln Z is underestimated on average, and by a large amount if all populations miss
    the same modes. ``problems`` lists what can be detected, such as a phase of the machine that the samples miss.

    Attributes:
        state: the last states of all layers, (n, *shape) each.
        log_weights: log-weights of these states (n,); all equal if resampling was the last step.
        families: index of the initial state from which each state descends (n,).
        shares: fraction of the total weight of each family before the last resampling (n,).
        log_partition: estimate of ln Z.
        betas: inverse temperatures.
        resampled: number of resampling steps.
        log_partitions: estimates of ln Z of the independent populations; the mean of their Z is the estimate of Z.
            Without resampling, one for each state.
        phases: the phases of the machine, which the samples must have visited.
    """

    state: list[Tensor]
    log_weights: Tensor
    families: Tensor
    shares: Tensor
    log_partition: float
    betas: tuple[float, ...]
    resampled: int
    log_partitions: Tensor
    phases: Phases

    @property
    def samples(self) -> Tensor:
        """The visible states (n, *visible), to be weighted by ``log_weights``."""
        return self.state[0]

    @property
    def mean_square_family_size(self) -> float:
        """ρ_t = n Σ shares²: 1 if all families have equal weight, n if one family has all the weight."""
        return len(self.shares) * self.shares.square().sum().item()

    @property
    def effective_families(self) -> float:
        """n/ρ_t: the effective number of families; without resampling, the effective sample size.

        Resampling between small steps removes families by chance alone. This correlates the samples but is not an
        error of ln Z.
        """
        return len(self.shares) / self.mean_square_family_size

    @property
    def effective_populations(self) -> float:
        """(ΣẐ)²/ΣẐ²: the effective number of independent populations in the estimate of ln Z."""
        return effective(self.log_partitions)

    @property
    def surviving_families(self) -> int:
        """The number of families with at least one state."""
        return int((self.shares > 0).sum())

    @property
    def standard_error(self) -> float:
        """Standard error of ln Z to first order: the relative standard error of the mean of Ẑ over the populations.

        A few populations tell their spread with an error of its own, which the factor √((n - 1)/(n - 3)) of Student's t
        distribution includes. All populations miss the same phases, so the nats that they :attr:`missed` are included.

        For a single population the first part is estimated from the families as √((ρ_t - 1)/(n - 1)), which is too
        large if families die out by chance (see :attr:`effective_families`). Infinite for a single state.
        """
        n = len(self.log_partitions)
        return math.hypot(self._spread * (math.sqrt((n - 1) / (n - 3)) if n > 3 else 1.0), self.missed)

    @property
    def missed(self) -> float:
        """The nats of phases of the machine that the samples do not visit."""
        if not math.isfinite(self.log_partition):
            return 0.0
        return self.phases.missed(self.log_partition, self.samples, self.log_weights, self.effective_families)

    @property
    def _spread(self) -> float:
        """The relative standard error of the mean of Ẑ."""
        n = len(self.log_partitions)
        if n < 2:
            n = len(self.shares)
            return math.sqrt(max(self.mean_square_family_size - 1, 0.0) / (n - 1)) if n > 1 else math.inf
        z = (self.log_partitions - self.log_partitions.max()).exp()
        return (z.std() / z.mean()).item() / math.sqrt(n)

    @property
    def conditional_interval(self) -> tuple[float, float]:
        """Three-standard-error interval of ln Z, valid if the populations have found all relevant modes.

        Uses Student's t distribution for the number of populations. The upper end also covers a lognormal distribution
        of Ẑ with the observed variance of ln Ẑ, and the phases that the samples miss.
        """
        return self._verdict.interval

    @property
    def _verdict(self) -> Verdict:
        interval, problems = self._of_populations, self._own_problems
        return self.phases.verdict(self.log_partition, interval, problems, self.missed, replace=False)

    @property
    def _of_populations(self) -> tuple[float, float]:
        """The interval that follows from the populations alone."""
        low, high = self.log_partition - self._below, math.inf
        spread = self._quantile * self._spread
        if math.isfinite(spread) and not self._collapsed:
            high = math.log1p(spread)
            if len(self.log_partitions) > 1:
                ln, n = self.log_partitions, len(self.log_partitions)
                variance = ln.var().item()
                error = self._quantile * math.sqrt(variance / n * (1 + variance / 2))
                high = max(high, ln.mean().item() + variance / 2 + error - self.log_partition)
            high += self.log_partition
        return low, high

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of ln Z: the lower end of :attr:`conditional_interval` and no upper end.

        Ẑ is unbiased, so it exceeds c Z with probability at most 1/c (Markov's inequality). There is no upper bound,
        because the mass of modes that no population has found is unknown. :func:`harmonium.likelihood.estimate` bounds
        ln Z from both sides.
        """
        return self.log_partition - self._below, math.inf

    @property
    def _below(self) -> float:
        spread = self._quantile * self._spread
        return min(_MARKOV, -math.log1p(-spread) if spread < 1 else math.inf)

    @property
    def _quantile(self) -> float:
        """The quantile of Student's t distribution at the level of three normal standard errors."""
        import scipy.stats  # slow to import

        freedom = len(self.log_partitions) - 1
        return float(scipy.stats.t.isf(_LEVEL / 2, freedom)) if freedom else 3.0

    @property
    def _collapsed(self) -> bool:
        return bool(self._few_populations or self._few_families)

    @property
    def _few_populations(self) -> bool:
        """Whether the effective number of populations is too small."""
        n = len(self.log_partitions)
        share = _CARRIED_STATES if n == len(self.shares) else _CARRIED
        return n > 1 and not self.effective_populations >= max(min(5.0, n / 2), share * n)

    @property
    def _few_families(self) -> bool:
        n, founders = len(self.log_partitions), len(self.shares)
        if n == founders > 1:  # without selection: the same as the populations
            return False
        least = max(5.0, min(100.0, 0.1 * founders)) if n == 1 else min(_FAMILIES * n, founders / 2)
        return not self.effective_families >= least

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons not to trust the result. If there are none, all populations may still miss the same modes.

        An estimate of ln Z that agrees with the sum over the phases has none, even if few families contribute.
        """
        return self._verdict.problems

    @property
    def _own_problems(self) -> tuple[str, ...]:
        """What the populations themselves show."""
        if not math.isfinite(self.log_partition):
            return ("the weights are not finite",)
        n, founders, found = len(self.log_partitions), len(self.shares), []
        advice = "use more betas, sweeps or states"
        if self._few_populations:
            parts = "states" if n == founders else "independent populations"
            found.append(f"{self.effective_populations:.1f} of {n} {parts} contribute to ln Z: {advice}")
        if self._few_families:
            found.append(f"{self.effective_families:.1f} of {founders} families contribute to the population: {advice}")
        return tuple(found)

    def mean(self, values: Tensor) -> Tensor:
        """The weighted mean of ``values`` over the states: (n, ...) -> (...)."""
        return torch.tensordot(torch.softmax(self.log_weights, 0).to(values.dtype), values, 1)


class Options(TypedDict, total=False):
    """Keyword arguments of both annealing functions; :func:`population_annealing` documents them."""

    sweeps: int
    betas: int | Sequence[float] | None
    base: BoltzmannMachine | ArrayLike | None
    seed: Seed


@torch.no_grad()
def population_annealing(
    machine: BoltzmannMachine,
    n: int = 1000,
    *,
    sweeps: int = 1,
    betas: int | Sequence[float] | None = None,
    base: BoltzmannMachine | ArrayLike | None = None,
    threshold: float = 0.5,
    populations: int | None = None,
    seed: Seed = None,
) -> Population:
    """Draw ``n`` equally weighted samples and estimate ln Z by population annealing.

    States are resampled in proportion to their weights since the last resampling, whenever the effective fraction of
    states falls below ``threshold`` and at the end. Resampling is systematic: a state of weight w gets ⌊nw⌋ or ⌈nw⌉
    copies. The states are divided into ``populations`` that are independent until the last resampling; the differences
    between their estimates give the standard error of ln Z.

    Args:
        machine: any machine with a finite partition function.
        n: number of states.
        sweeps: number of Gibbs sweeps at each β.
        betas: number of equal steps of β from 0 to 1, the values themselves, or ``None`` to choose them with a smaller,
            separate population such that the effective fraction after each step is 90 %.
        base: data whose single-site statistics the initial states have, an uncoupled machine on the same units, or by
            default units without biases and couplings.
        threshold: effective fraction below which states are resampled; 1: at every β, 0: only at the end.
        populations: number of independent populations; by default 10, or fewer so that each has at least 50 states.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> rbm.initialize(scale=0.8, seed=0)
    >>> population = hm.sampling.population_annealing(rbm, 2000, betas=10, seed=0)
    >>> population.samples.shape, population.problems
    (torch.Size([2000, 5]), ())
    >>> low, high = population.conditional_interval
    >>> low < rbm.log_partition() < high
    True
    """
    if not 0 <= threshold <= 1:
        raise InvalidOption(f"threshold: expected a number between 0 and 1, found {threshold}")
    n = count("n", n)
    if populations is None:
        populations = min(_POPULATIONS, max(1, n // _SMALLEST))
    elif not 1 <= populations <= max(n, 1):
        raise InvalidOption(f"populations: expected 1 to n = {n}, found {populations}")
    return _run(machine, n, sweeps, betas, base, threshold, seed, populations)


@torch.no_grad()
def annealed(machine: BoltzmannMachine, n: int = 1000, **options: Unpack[Options]) -> Population:
    """Draw ``n`` independent annealed states with ``log_weights``: :func:`population_annealing` without resampling.

    The options ``sweeps``, ``betas``, ``base``, ``seed`` and ``generator`` are those of :func:`population_annealing`.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> population = hm.sampling.annealed(rbm, 100, betas=10, seed=0)
    >>> population.mean(population.samples).shape, population.surviving_families
    (torch.Size([5]), 100)
    """
    given: Options = {"sweeps": 1, "betas": None, "base": None, "seed": None, **options}
    return _run(machine, n, **given, threshold=None)


def _run(
    machine: BoltzmannMachine,
    n: int,
    sweeps: int,
    betas: int | Sequence[float] | None,
    base: BoltzmannMachine | ArrayLike | None,
    threshold: float | None,
    seed: Seed,
    populations: int = 1,
) -> Population:
    if count("sweeps", sweeps) < 1 or count("n", n) < 1:
        raise InvalidOption(f"expected sweeps ≥ 1 and n ≥ 1, found sweeps={sweeps}, n={n}")
    machine.check_normalizable()
    generator = noise.generator(seed, machine.device)
    path = Path(machine, base_machine(machine, base, coupled=False))
    schedule = _choose(path, min(n, _PILOT), sweeps, generator) if betas is None else beta_grid(betas)
    return _anneal(path, schedule, n, sweeps, threshold, populations, generator)


def _anneal(
    path: Path,
    schedule: Sequence[float],
    n: int,
    sweeps: int,
    threshold: float | None,
    populations: int,
    generator: Generator | None,
) -> Population:
    state = draws(path.base, n, generator)
    log_w = torch.zeros(n, dtype=torch.float64, device=path.target.device)
    families = torch.arange(n, device=log_w.device)
    parts = families.tensor_split(populations)  # indices of the states of each population
    log_z = torch.full((populations,), uncoupled_log_partition(path.base), dtype=torch.float64, device=log_w.device)
    resampled = 0
    for before, beta in pairwise(schedule[:-1]):
        log_w = log_w + _gain(path, state, before)(beta)
        chosen, selected = torch.arange(n, device=log_w.device), False
        for k, part in enumerate(parts):
            if threshold is not None and effective(log_w[part]) < threshold * len(part):
                chosen[part] = part[resample(log_w[part], generator)]
                log_z[k] += _log_mean(log_w[part])
                log_w[part] = 0.0
                selected = True
        resampled += selected
        state, families = [x[chosen] for x in state], families[chosen]
        state = _sweeps(path, state, beta, sweeps, generator)
    log_w = log_w + _gain(path, state, schedule[-2])(schedule[-1])
    # the overall weight of a state is its weight within its population times the weight of the population so far
    whole = log_w + torch.cat([log_z[k].expand(len(part)) for k, part in enumerate(parts)])
    shares = torch.zeros_like(whole).index_add_(0, families, torch.softmax(whole, 0))
    if threshold is None:
        each = whole
    else:
        each = torch.stack([log_z[k] + _log_mean(log_w[part]) for k, part in enumerate(parts)])
        chosen = resample(whole, generator)
        state, families, log_w = [x[chosen] for x in state], families[chosen], torch.zeros_like(log_w)
        resampled += 1
    state = _sweeps(path, state, schedule[-1], sweeps, generator)
    check = phases(path.target, seed=generator)
    return Population(state, log_w, families, shares, _log_mean(whole), tuple(schedule), resampled, each, check)


def resample(log_weights: Tensor, generator: Generator | None = None) -> Tensor:
    """Indices (n,) of systematically resampled states: ⌊nw⌋ or ⌈nw⌉ times one of weight w, nw times on average.

    >>> resample(torch.tensor([0.5, 0.25, 0.25, 1e-9], dtype=torch.float64).log(), torch.Generator().manual_seed(0))
    tensor([0, 0, 1, 2])
    """
    n = len(log_weights)
    ends = torch.softmax(log_weights, 0).cumsum(0)
    one = noise.uniform(ends[:1], generator)
    return torch.searchsorted(ends, (one + torch.arange(n, device=ends.device)) / n).clamp_max(n - 1)


def effective(log_weights: Tensor) -> float:
    """The effective sample size (Σw)²/Σw²."""
    return 1 / torch.softmax(log_weights, 0).square().sum().item()


def _log_mean(log_weights: Tensor) -> float:
    return torch.logsumexp(log_weights, 0).item() - math.log(len(log_weights))


def _gain(path: Path, state: list[Tensor], before: float) -> Callable[[float], Tensor]:
    """ln w_β - ln w_before of the kept layers as a function of β: (n,) in float64; fields are computed once."""
    tilt = path.tilt(state).double()
    seen = {layer: responses.map(Tensor.double) for layer, responses in path.seen(state).items()}

    def total(beta: float) -> Tensor:
        return tilt * beta + log_partitions(path.at(beta, seen), state)

    start = total(before)
    return lambda beta: total(beta) - start


def _sweeps(path: Path, state: list[Tensor], beta: float, sweeps: int, generator: Generator | None) -> list[Tensor]:
    """Gibbs sweeps at β."""
    point = path.at(beta)
    for _ in range(sweeps):
        state = sweep(point, state, generator)
    return state


def _choose(path: Path, n: int, sweeps: int, generator: Generator | None) -> list[float]:
    """Choose β so that the effective fraction of a trial population is the same after each step."""
    state, schedule = draws(path.base, n, generator), [0.0]
    while schedule[-1] < 1:
        before = schedule[-1]
        gain = _gain(path, state, before)
        beta = _largest(lambda beta, gain=gain: effective(gain(beta)) >= _OVERLAP * n, before)  # type: ignore[misc]
        if len(schedule) == _MOST_BETAS:
            raise InvalidOption(f"betas: {_MOST_BETAS} automatic steps reach only β = {beta:.3g}; pass a number")
        chosen = resample(gain(beta), generator)
        state = _sweeps(path, [x[chosen] for x in state], beta, sweeps, generator)
        schedule.append(beta)
    return schedule


def _largest(allowed: Callable[[float], bool], before: float) -> float:
    """The largest allowed β above ``before``, to about 1 % of the step."""
    if allowed(1.0):
        return 1.0
    low, high = before, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
        if high - low < 0.01 * (high - before):
            break
    return high
