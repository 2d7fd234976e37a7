"""Log-likelihood by forward and reverse annealing, with cross-checks of the result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Generator, Tensor

from .. import noise
from ..machines import BoltzmannMachine, DeepBeliefNetwork, Machine, enumeration
from ..machines.phase_masses import TOLERANCE, Phases, Verdict, phases
from ..noise import Seed
from ..sampling import Tempered, parallel_tempering, trajectory_tempering
from ..sampling.base import base_machine
from ..sampling.path import Path, beta_grid
from ..shown import Shown, short
from . import belief
from .annealing import Adaptive, Betas, Estimate, ais, reverse_ais
from .data import mean_free_energy_or_bound
from .modes import disagreement
from .rung_ratios import TemperedEstimate, along

FREE, CHAINS, DATA, GIVEN = "free units", "short chains", "the data", "the given data"  # bases
DIRECTIONS, TEMPERING, PHASES = "both directions", "tempering", "phases"  # where ln Z comes from

_ERRORS = 3  # standard errors of a sampled free energy in the intervals
_PILOT_SHARE = 20  # the pilots that choose the base use 1/20 of the betas
_OTHER_SHARE = 2  # the cross-check from the base that was not chosen uses 1/2 of the betas
_CHECK_SHARE = 5  # the other cross-checks use 1/5 of the betas
_LARGEST_EXCESS = 0.5  # nats by which a cross-check may exceed the estimate, in addition to three standard errors
_CONFIRMED = 0.5  # largest difference to the cross-check from free units in nats, independent of standard errors
_LEAST_CARRIED = 0.1  # smallest effective sample size per run of each direction; the other direction is a check
_LEAST_POWER = 0.2  # smallest effective sample size per run of a cross-check, and of annealing from free units
_LARGEST_GAP = 1.0  # largest accepted difference of the two directions, in nats
_FEWEST_CHAINS, _FEWEST_SWEEPS = 4, 16  # of a tempering whose exchanges give ln Z
# between a tempering and the mean of directions without problems, which it replaces: standard errors, or nats if more
_AGREEMENT, _SMALL_CHANGE = 2, 0.1
_LARGEST_MODE_ERROR = 4.0  # largest accepted difference of the masses of modes, in standard errors


@dataclass(frozen=True, repr=False)
class TwoSided(Shown):
    """Mean log-likelihood of data from forward and reverse annealing, in nats per row.

    On average, ``forward`` overestimates the likelihood and ``reverse`` underestimates it.

    Attributes:
        forward, reverse: estimates of ln Z.
        mean_free_energy: mean free energy of the data, or an upper bound of it.
        rows: number of rows of the data.
        enumerated: the log-likelihood, or a lower bound of it, with ln Z by enumeration; None for a large machine.
        problems: reasons to distrust the result.
        bound: whether ``mean_free_energy`` is only an upper bound, so that the likelihood is a lower bound.
        round_trips: number of round trips of the tempering that made the samples of the reverse direction.
        checks: forward estimates from other bases, by the name of the base.
        base: the name of the base of the two directions.
        bounded: whether the samples of the reverse direction passed all checks; if not, the lower end is -∞.
        annealing: results that do not depend on the data; ``annealing.likelihood(other)`` reuses them.
        verdict: ln Z, its interval and problems, if they do not only come from the two directions.
        source: where ln Z comes from: both directions, the tempering that made the samples, or the phases.
        free_energy_error: standard error of ``mean_free_energy`` if it is sampled, as for a deep belief network. The
            intervals include three of these errors.
    """

    forward: Estimate
    reverse: Estimate
    mean_free_energy: float
    rows: int
    enumerated: float | None
    problems: tuple[str, ...]
    bound: bool = False
    round_trips: int | None = None
    checks: Mapping[str, Estimate] = field(default_factory=dict)
    bounded: bool = True
    annealing: Annealing | None = field(default=None, repr=False, compare=False)
    free_energy_error: float = 0.0
    base: str = CHAINS
    verdict: Verdict | None = None
    source: str = DIRECTIONS

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The log-likelihood, its interval, and whether to trust it."""
        low, high = self.interval
        annealed = {} if self.enumerated is None else {"annealed": short(self.annealed, 5)}
        facts = {
            f"{'lower bound of the ' * self.bound}log-likelihood": f"{short(self.log_likelihood, 5)} nats",
            "interval": f"[{short(low, 5)}, {short(high, 5)}]",
            **annealed,
            **({} if self.source == DIRECTIONS or self.enumerated is not None else {"ln Z from": self.source}),
            "rows": self.rows,
            "trustworthy": "yes" if self.trustworthy else f"no: {'; '.join(self.problems)}",
        }
        return "TwoSided", facts

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood, or a lower bound of it: with ln Z by enumeration, else the mean of the two directions."""
        return self.annealed if self.enumerated is None else self.enumerated

    @property
    def exact(self) -> float | None:
        """The log-likelihood if it is exact: ln Z by enumeration, and a free energy that is not a bound; else None."""
        return None if self.bound else self.enumerated

    @property
    def annealed(self) -> float:
        """The log-likelihood without enumeration, with ln Z of the source, by default the mean of the directions."""
        if self.verdict is not None:
            return -self.mean_free_energy - self.verdict.log_partition
        return (self.from_forward + self.from_reverse) / 2

    @property
    def log_partition(self) -> float:
        """ln Z that corresponds to ``log_likelihood``."""
        return -self.mean_free_energy - self.log_likelihood

    @property
    def from_forward(self) -> float:
        """Log-likelihood with the forward estimate of ln Z; overestimated on average."""
        return -self.mean_free_energy - self.forward.log_partition

    @property
    def from_reverse(self) -> float:
        """Log-likelihood with the reverse estimate of ln Z; underestimated on average."""
        return -self.mean_free_energy - self.reverse.log_partition

    @property
    def gap(self) -> float:
        """Forward minus reverse estimate of the log-likelihood, in nats."""
        return self.from_forward - self.from_reverse

    @property
    def effective(self) -> tuple[float, float]:
        """Effective sample sizes of the forward and the reverse direction."""
        return self.forward.effective_sample_size, self.reverse.effective_sample_size

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the log-likelihood: (exact, exact) if it is known, else that of the annealing.

        With a lower bound of the likelihood it has no upper end. ``annealed_interval`` is then that of the bound.
        """
        low, high = self.annealed_interval
        if self.enumerated is not None:
            low, high = self.enumerated - self._sampling_error, self.enumerated + self._sampling_error
        return low, math.inf if self.bound else high

    @property
    def _sampling_error(self) -> float:
        return _ERRORS * self.free_energy_error

    @property
    def annealed_interval(self) -> tuple[float, float]:
        """The interval of ``log_likelihood`` from the annealing, even if ln Z is known by enumeration.

        By default the upper end comes from the forward direction and holds even if the annealing missed states. The
        lower end is the smallest of the reverse direction, which needs samples of the model, of the annealing from free
        units, and of the cross-checks, those with a sufficient effective sample size; short chains do not count if free
        units lose less work. It is -∞ if a check rejected the samples. If ln Z comes from the tempering or from the
        phases of the machine, or if the phases confirm it, the interval includes theirs.
        """
        if self.verdict is None:
            low, high = log_partition_interval(self.forward, self.reverse, self.checks, self.base, self.bounded)
        else:
            low, high = self.verdict.interval
        return -self.mean_free_energy - high - self._sampling_error, -self.mean_free_energy - low + self._sampling_error

    @property
    def trustworthy(self) -> bool:
        """Whether ln Z is exact or ``problems`` is empty."""
        return self.enumerated is not None or not self.problems

    def __str__(self) -> str:
        sizes = f"effective runs {self.effective[0]:.0f} and {self.effective[1]:.0f} of {len(self.forward.log_weights)}"
        what = "bound of the log-likelihood" if self.bound else "log-likelihood"
        return f"{what}, nats per row: {self.from_forward:.2f} forward, {self.from_reverse:.2f} reverse ({sizes})"


@torch.no_grad()
def estimate(
    machine: Machine,
    data: Tensor,
    *,
    base: Tensor | None = None,
    runs: int = 100,
    betas: Betas = 10_000,
    waypoints: Sequence[Machine] = (),
    samples: Tensor | None = None,
    sampling_sweeps: int = 1000,
    n_samples: int = 10,
    seed: Seed = None,
) -> TwoSided:
    """Estimate the mean log-likelihood of ``data`` by annealing in both directions, and check the result.

    For a deep Boltzmann machine whose hidden layers are too large for a sum over their states given each row, the
    result is a lower bound, by mean field of the hidden layers, and its interval has no upper end. For a deep belief
    network it is the variational bound (:func:`harmonium.likelihood.belief.sampled_free_energy`), estimated with
    samples of the hidden layers; ln Z is that of the top machine, which is annealed.

    The annealing starts from the single-site statistics of short chains of the machine, or from free units (zero
    weights and biases) if short pilot runs from these have larger log-weights on average, that is, lose less work.

    Both directions can miss the same modes and agree on a wrong value. Therefore shorter forward annealing runs start
    from other bases: from that of the two which was not chosen, and from the data (or from short chains, if ``base`` is
    given). They exceed ln Z only by chance, so a larger ln Z means that the estimate is wrong. Annealing from free
    units, which favor no mode, must also confirm the estimate: its effective sample size must be at least a fifth of
    the runs, and it must agree within half a nat. The masses of modes must agree between the samples and the weighted
    states at the end of the annealing from the base and from free units. Both must have visited the phases of the
    machine, which are found without samples (:func:`harmonium.sampling.phases`). If they have not, the sum over the
    phases replaces ln Z where it is precise; it also overrides other problems of a ln Z with which it agrees.

    The exchanges of the tempering that makes the samples of the reverse direction give ln Z, too (:func:`tempered`). If
    its chains mix, and no annealing gives a larger ln Z, this is more precise and takes the place of both directions.

    To compute the likelihood of other data, ``result.annealing.likelihood(data)`` reuses most of the work.

    Args:
        machine: machine with a finite partition function.
        data: rows (n, *visible).
        base: data (m, *visible) whose single-site statistics define the base of the annealing; by default the better of
            free units and the statistics of short chains of the machine.
        runs: number of annealing runs in each direction.
        betas: as in :func:`ais`.
        waypoints: earlier machines of the same training run, from early to late. The annealing path goes through them,
            and the samples come from trajectory tempering along them. This helps if learning was slow and smooth;
            checkpoints of a phase with large learning steps make the path longer.
        samples: samples of the model for the reverse direction, (m, *visible); by default from parallel tempering,
            which must make at least as many round trips as there are chains. For a deep belief network, visible states
            of its top machine.
        sampling_sweeps: sweeps of that tempering.
        n_samples: for a deep belief network, number of samples of the hidden layers for each row.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    >>> _ = hm.fit(rbm, data, epochs=3, seed=0, progress=False)
    >>> result = hm.likelihood.estimate(rbm, data, betas=500, sampling_sweeps=100)
    >>> result.trustworthy, abs(result.gap) < 0.5
    (True, True)
    """
    data = machine.checked_states(data)  # fail before the expensive part
    base = None if base is None else machine.checked_states(base, "base")
    seed = noise.resolve_seed(seed)
    seeds = [seed + k for k in range(9)]
    machine.check_normalizable()
    whole, machine = machine, machine.machines[-1]
    base = None if base is None else _top_inputs(whole, base, seeds[6])
    tops: list[BoltzmannMachine] = [earlier.machines[-1] for earlier in waypoints]
    own = noise.generator(seeds[4], machine.device)
    bases = {CHAINS: base_machine(machine, near=True, generator=own), FREE: base_machine(machine)}
    if base is not None:
        bases[GIVEN] = base_machine(machine, base, near=True, generator=own)
    chosen = CHAINS if base is None else GIVEN
    near = bases[chosen]  # of the tempering, also if the annealing starts from free units: another way to find modes
    if base is None and not tops:
        chosen = base_of_least_work(machine, bases, runs, betas, seeds[7])
    start, check = bases[chosen], phases(machine, seed=seeds[8])
    tempered: Tempered | TemperedEstimate
    round_trips, witness = None, None
    if samples is None:
        if tops:
            tempered = trajectory_tempering([near, *tops, machine], runs, sweeps=sampling_sweeps, seed=seeds[0])
        elif runs >= _FEWEST_CHAINS and sampling_sweeps >= _FEWEST_SWEEPS:
            path, source = Path(machine, near), noise.generator(seeds[0], machine.device)
            tempered = witness = along(path, runs, sampling_sweeps, check=check, generator=source)
        else:
            tempered = parallel_tempering(machine, runs, sweeps=sampling_sweeps, base=near, seed=seeds[0])
        samples, round_trips = tempered.samples, tempered.round_trips
    forward = ais(machine, runs=runs, seed=seeds[1], betas=betas, base=start, waypoints=tops)
    reverse = reverse_ais(machine, samples, seed=seeds[2], betas=betas, base=start, waypoints=tops)
    few, fewer = _fewer(betas, _OTHER_SHARE), _fewer(betas, _CHECK_SHARE)
    other = CHAINS if chosen == FREE else FREE
    checks = {other: ais(machine, runs=runs, betas=few, base=bases[other], seed=seeds[3])}
    if chosen == GIVEN:
        checks[CHAINS] = ais(machine, runs=runs, betas=fewer, base=bases[CHAINS], seed=seeds[5])
    work = Annealing(forward, reverse, checks, round_trips, chosen, fewer, seeds[5], whole, n_samples, check, witness)
    return work.likelihood(data)


def base_of_least_work(
    machine: BoltzmannMachine, bases: Mapping[str, BoltzmannMachine], runs: int, betas: Betas, seed: Seed
) -> str:
    """Return the name of the base from which short annealing runs have the largest mean of ln w + ln Z(base).

    The mean is a lower bound of ln Z; what it lacks is the work that is lost on the way.
    """
    steps = betas.betas if isinstance(betas, Adaptive) else len(beta_grid(betas)) - 1
    few = max(1, steps // _PILOT_SHARE)
    pilots = {name: ais(machine, runs=runs, betas=few, base=base, seed=seed) for name, base in bases.items()}
    return max(pilots, key=lambda name: pilots[name].base_log_partition + float(pilots[name].log_weights.mean()))


@dataclass(frozen=True)
class Annealing:
    """The results of :func:`estimate` that do not depend on the data, for the likelihood of several data sets."""

    forward: Estimate
    reverse: Estimate
    checks: Mapping[str, Estimate]
    round_trips: int | None
    base: str  # the name of the base
    betas: Betas  # schedule of the cross-checks
    seed: int
    machine: Machine  # the annealed machine, or the deep belief network of which it is the top machine
    n_samples: int  # of the hidden layers of a deep belief network, for each row
    phases: Phases  # of the annealed machine
    tempered: TemperedEstimate | None = None  # the tempering that made the samples of the reverse direction

    def likelihood(self, data: Tensor) -> TwoSided:
        """Estimate the log-likelihood of ``data`` (n, *visible)."""
        top, checks = self.forward.machine, dict(self.checks)
        data = self.machine.checked_states(data)
        following = self.seed + 1
        if self.base != GIVEN:
            runs, rows = len(self.forward.log_weights), _top_inputs(self.machine, data, following)
            checks[DATA] = ais(top, runs=runs, betas=self.betas, base=rows, seed=self.seed)
        free_energy, bound, error = self._free_energy(data, noise.generator(following, top.device))
        doubts = samples_doubted(self.forward, self.reverse, checks, self.round_trips, self.base)
        problems = annealing_problems(self.forward, self.reverse)
        verdict, source = self._verdict(checks, doubts, problems)
        problems = list(verdict.problems)
        if not math.isfinite(free_energy):
            problems.append(f"the mean free energy of the data is {free_energy}")
        return TwoSided(
            self.forward,
            self.reverse,
            free_energy,
            len(data),
            _enumerated(top, free_energy),
            tuple(problems),
            bound,
            self.round_trips,
            checks,
            not doubts,
            self,
            error,
            self.base,
            verdict,
            source,
        )

    def _verdict(
        self, checks: Mapping[str, Estimate], doubts: Sequence[str], problems: Sequence[str]
    ) -> tuple[Verdict, str]:
        """Return ln Z with its interval and problems, and where it comes from."""
        forward, reverse, tempered = self.forward, self.reverse, self.tempered
        if tempered is not None and self._better(tempered, checks, [*doubts, *problems]):
            low, high = tempered.interval
            if self.phases.sharp:
                low, high = min(low, self.phases.interval[0]), max(high, self.phases.interval[1])
            return Verdict(tempered.log_partition, (low, high), ()), TEMPERING
        assert forward.states is not None and reverse.states is not None
        log_z = (forward.log_partition + reverse.log_partition) / 2
        missed = self.phases.missed(log_z, forward.states, forward.log_weights)
        missed = max(missed, self.phases.missed(log_z, reverse.states))
        interval = log_partition_interval(forward, reverse, checks, self.base, not doubts)
        found = self.phases.verdict(log_z, interval, (*doubts, *problems), missed)
        return found, DIRECTIONS if found.log_partition == log_z else PHASES

    def _better(self, tempered: TemperedEstimate, checks: Mapping[str, Estimate], problems: Sequence[str]) -> bool:
        """Return whether the tempering is right as far as one can see, and more precise than both directions.

        Directions without problems are replaced only by a tempering that agrees with their mean: with few sweeps, its
        standard error is too small. Annealing exceeds ln Z only by chance, so a larger ln Z of any annealing means that
        the tempering is wrong. Before equilibrium its ln Z may also be too large; then it disagrees with the phases.
        """
        forward, reverse = self.forward, self.reverse
        if tempered.problems or tempered.log_partition != tempered.exchanged:
            return False
        gap, errors = reverse.log_partition - forward.log_partition, (forward.standard_error, reverse.standard_error)
        change = tempered.log_partition - (forward.log_partition + reverse.log_partition) / 2
        error = math.hypot(tempered.standard_error, max(abs(gap), math.hypot(*errors)) / 2)
        precise = tempered.standard_error <= max(abs(gap) / 2, *errors)
        if not problems and not (precise and abs(change) <= max(_SMALL_CHANGE, _AGREEMENT * error)):
            return False
        if self.phases.sharp and abs(self.phases.log_partition - tempered.log_partition) > TOLERANCE:
            return False
        return not any(
            found.log_partition - tempered.log_partition
            > _ERRORS * math.hypot(found.standard_error, tempered.standard_error) + _LARGEST_EXCESS
            for found in (self.forward, *checks.values())
        )

    def _free_energy(self, data: Tensor, generator: Generator | None) -> tuple[float, bool, float]:
        """Return the mean free energy of the data, whether it is an upper bound, and the standard error."""
        if isinstance(self.machine, DeepBeliefNetwork):
            value, error = belief.mean_free_energy(self.machine, data, self.n_samples, generator)
            return value, self.machine.depth > 2, error
        return *mean_free_energy_or_bound(self.machine, data), 0.0


def _top_inputs(machine: Machine, data: Tensor, seed: Seed) -> Tensor:
    """Return states of the visible layer of the top machine given data; the data themselves without a stack."""
    generator = noise.generator(seed, machine.device)
    *_, (_, rows) = machine.stacked(data, generator=generator, inputs="samples")
    return rows


def log_partition_interval(
    forward: Estimate, reverse: Estimate, checks: Mapping[str, Estimate], base: str, bounded: bool
) -> tuple[float, float]:
    """Return the interval of ln Z from both directions; without upper end unless the samples passed all checks."""
    low, high = forward.interval[0], reverse.interval[1]
    for other in _comparable(forward, checks, base).values():
        if _has_power(other):
            high = max(high, other.conditional_interval[1])
    high = max(low, high) if bounded else math.inf
    return min(low, high), high


def annealing_problems(forward: Estimate, reverse: Estimate) -> list[str]:
    """Return reasons to distrust the value that follow from the weights of the two directions."""
    problems = [f"forward: {problem}" for problem in forward.problems_at(_LEAST_CARRIED)]
    problems += [f"reverse: {problem}" for problem in reverse.problems_at(_LEAST_CARRIED)]
    gap = reverse.log_partition - forward.log_partition
    if abs(gap) > _LARGEST_GAP:
        problems.append(f"forward and reverse estimates of ln Z differ by {gap:.2f} nats")
    return problems


def samples_doubted(
    forward: Estimate,
    reverse: Estimate,
    checks: Mapping[str, Estimate],
    round_trips: int | None,
    base: str = CHAINS,
) -> list[str]:
    """Return reasons to doubt that the samples of the reverse direction follow the model distribution."""
    doubts, runs = [], len(forward.log_weights)
    if round_trips is not None and round_trips < runs:
        doubts.append(f"the samples of the reverse estimate did not mix: {round_trips} round trips for {runs} chains")
    gap = reverse.log_partition - forward.log_partition
    if gap < -3 * (forward.standard_error + reverse.standard_error):
        doubts.append(f"the reverse ln Z is {-gap:.2f} nats below the forward one: its samples do not follow the model")
    larger = set()
    for name, check in checks.items():
        excess = check.log_partition - forward.log_partition
        if excess > 3 * math.hypot(forward.standard_error, check.standard_error) + _LARGEST_EXCESS:
            larger.add(name)
            doubts.append(f"ln Z annealed from {name} is {excess:.2f} nats larger: the estimate misses states")
    # Only free units favor no mode. A check with a large standard error agrees with everything and confirms nothing.
    free_units = forward if base == FREE else None if FREE in larger else checks.get(FREE)
    if free_units is not None and not _has_power(free_units):
        doubts.append(
            f"the {'annealing' if base == FREE else 'cross-check'} from free units has no power: its effective sample "
            f"size is {free_units.effective_sample_size:.1f} of {runs} runs; use more betas"
        )
    elif free_units is not None and abs(free_units.log_partition - forward.log_partition) > _CONFIRMED:
        doubts.append(
            f"the cross-check from free units does not confirm the estimate: its ln Z differs by "
            f"{free_units.log_partition - forward.log_partition:+.2f} nats"
        )
    # annealing from the data may stay in their mode; its value is then too small, which says nothing about the samples
    for name, found in {base: forward, **_comparable(forward, checks, base)}.items():
        if name == DATA or found.states is None or reverse.states is None or not _has_power(found):
            continue
        error = disagreement(found.machine, found.states, found.log_weights, reverse.states)
        if error > _LARGEST_MODE_ERROR:
            doubts.append(
                f"the masses of modes differ by {error:.1f} standard errors between states annealed from {name} "
                "and the samples of the reverse estimate"
            )
    return doubts


def _comparable(forward: Estimate, checks: Mapping[str, Estimate], base: str) -> dict[str, Estimate]:
    """Return the annealings that may find what the two directions miss, by the name of their base.

    These are the cross-checks and the annealing from free units, which may be the forward direction itself. A base that
    was not chosen because it loses more work gives values that are too small, with large errors.
    """
    if base != FREE:
        return dict(checks)
    return {FREE: forward, **{name: check for name, check in checks.items() if name != CHAINS}}


def _has_power(check: Estimate) -> bool:
    """Return whether the effective sample size of a cross-check is large enough."""
    return not check.problems_at(_LEAST_POWER)


def _fewer(betas: Betas, share: int) -> Betas:
    """Return the schedule of a cross-check: 1/``share`` of the betas."""
    if isinstance(betas, Adaptive):
        return replace(betas, betas=max(1, betas.betas // share))
    if isinstance(betas, int):
        return max(1, betas // share)
    return [*beta_grid(betas)[:-1:share], 1.0]


def _enumerated(machine: BoltzmannMachine, free_energy: float) -> float | None:
    return -free_energy - machine.log_partition() if enumeration.enumerable(machine) else None
