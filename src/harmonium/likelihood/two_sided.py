"""The likelihood from both sides, with a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .. import noise
from ..errors import NotEnumerable
from ..machines import RBM, BoltzmannMachine, enumeration
from ..sampling import parallel_tempering, trajectory_tempering
from ..sampling.base import base_machine
from ..sampling.path import beta_grid
from .annealing import Adaptive, Betas, Estimate, ais, reverse_ais
from .data import mean_free_energy_bound
from .modes import disagreement

FREE, CHAINS, DATA = "free units", "short chains", "the data"  # bases

_EXACT_STATES = 2**20
_FREE_SHARE = 2  # the cross-check from free units takes one in so many of the betas
_CHECK_SHARE = 5  # and other ones
_LARGEST_EXCESS = 0.5  # nats, beside three standard errors, by which a cross-check may lie above
_CONFIRMED = 0.5  # nats within which the one from free units has to agree, whatever the standard errors
_LEAST_CARRIED = 0.1  # of the runs for each direction; less than for one alone, as the other one stands against it
_LEAST_POWER = 0.2  # of the runs that have to carry a cross-check, for it to say anything
_LARGEST_GAP = 1.0  # nats between the two directions that still count as agreement
_LARGEST_MODE_ERROR = 4.0  # standard errors between the masses of modes


@dataclass(frozen=True)
class TwoSided:
    """The mean log-likelihood of some data, bracketed: ``forward`` errs to the good side, ``reverse`` to the bad one.

    All numbers are nats per row of the data. ``exact`` is there where the machine can be enumerated. With ``bound`` the
    free energy of the data is only known from above, and every number is a lower bound of the likelihood: with ln Z
    from below, from above, or exact. ``round_trips`` are those of the tempering behind the reverse direction.
    ``checks`` are forward annealings from other bases, by the name of the base. ``bounded`` says whether nothing speaks
    against the samples behind the reverse direction; without them the likelihood has no lower end. ``annealing`` is
    the part of the work that does not depend on the data: its ``likelihood`` of other data does not repeat it.
    """

    forward: Estimate
    reverse: Estimate
    mean_free_energy: float
    rows: int
    exact: float | None
    problems: tuple[str, ...]
    bound: bool = False
    round_trips: int | None = None
    checks: Mapping[str, Estimate] = field(default_factory=dict)
    bounded: bool = True
    annealing: Annealing | None = field(default=None, repr=False, compare=False)

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood: exact where that is known, else half way between the two directions."""
        return self.annealed if self.exact is None else self.exact

    @property
    def annealed(self) -> float:
        """Half way between the two directions."""
        return (self.from_forward + self.from_reverse) / 2

    @property
    def log_partition(self) -> float:
        """ln Z, for the likelihood of other data."""
        return -self.mean_free_energy - self.log_likelihood

    @property
    def from_forward(self) -> float:
        """With the forward estimate of ln Z: in the mean too good."""
        return -self.mean_free_energy - self.forward.log_partition

    @property
    def from_reverse(self) -> float:
        """With the reverse estimate of ln Z: in the mean too bad."""
        return -self.mean_free_energy - self.reverse.log_partition

    @property
    def gap(self) -> float:
        """How far the two directions are apart, in nats."""
        return self.from_forward - self.from_reverse

    @property
    def effective(self) -> tuple[float, float]:
        """How many of the runs carry each direction, forward and reverse."""
        return self.forward.effective_sample_size, self.reverse.effective_sample_size

    @property
    def interval(self) -> tuple[float, float]:
        """That of the annealing, of no width where the number is exact."""
        return self.annealed_interval if self.exact is None else (self.exact, self.exact)

    @property
    def annealed_interval(self) -> tuple[float, float]:
        """The interval of the annealing, also where the exact number is known.

        Its upper end is that of the forward direction, which holds whatever states the annealing has missed. Its lower
        end is that of the reverse direction, which needs samples of the model, or of a cross-check with power where
        that is further; it is -∞ where something speaks against the samples.
        """
        low, high = self.forward.interval[0], self.reverse.interval[1]
        for check in self.checks.values():
            if _has_power(check):
                high = max(high, check.conditional_interval[1])
        high = max(low, high) if self.bounded else math.inf
        low = min(low, high)
        return -self.mean_free_energy - high, -self.mean_free_energy - low

    @property
    def trustworthy(self) -> bool:
        """Whether the number is exact, or nothing speaks against it."""
        return self.exact is not None or not self.problems

    def __str__(self) -> str:
        sizes = f"effective runs {self.effective[0]:.0f} and {self.effective[1]:.0f} of {len(self.forward.log_weights)}"
        return f"{self.from_forward:.2f} forward, {self.from_reverse:.2f} reverse ({sizes})"


@torch.no_grad()
def estimate(
    machine: BoltzmannMachine,
    data: Tensor,
    *,
    base: Tensor | None = None,
    runs: int = 100,
    betas: Betas = 10_000,
    waypoints: Sequence[BoltzmannMachine] = (),
    samples: Tensor | None = None,
    sampling_sweeps: int = 1000,
    seed: int | None = None,
) -> TwoSided:
    """The mean log-likelihood of ``data`` (n, *visible) by annealing in both directions, and whether to trust it.

    For a deep machine it is a lower bound, by mean field of the hidden layers.

    The annealing starts from the single-site statistics of ``base`` (m, *visible), by default of short chains of the
    machine. The reverse direction starts at ``samples`` of the model, by default from parallel tempering, whose ladder
    has to carry states from end to end.

    Both directions can miss the same modes and then agree on a wrong number. Shorter forward annealings from other
    bases look elsewhere: from free units, and from the data (or from short chains, if a ``base`` was given). None of
    them exceeds ln Z but by chance, so a higher value there proves the first one wrong. The one from free units, which
    prefer no mode, also has to confirm the estimate: a fifth of its runs have to carry it, and it has to agree within
    half a nat. The masses of modes have to agree between the samples and the weighted states at the end of the
    annealing from the base and from free units.

    With ``waypoints``, earlier machines of the same run from early to late, the annealing follows the run, and the
    samples come from trajectory tempering along it. That pays where learning was slow and smooth; checkpoints from a
    time of large steps make the way longer.

    The likelihood of other data follows from ``result.annealing.likelihood(data)`` without most of the work.

    >>> import harmonium as hm
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    >>> _ = hm.fit(rbm, data, epochs=3, seed=0, progress=False)
    >>> result = hm.likelihood.estimate(rbm, data, betas=500, sampling_sweeps=100)
    >>> result.trustworthy, abs(result.gap) < 0.5
    (True, True)
    """
    data = machine.checked_states(data)  # before the work begins
    base = None if base is None else machine.checked_states(base, "base")
    seeds = [None if seed is None else seed + k for k in range(6)]
    machine.check_normalizable()
    own = noise.generator(seeds[4], machine.device)
    chains = base_machine(machine, near=True, generator=own)
    start = chains if base is None else base_machine(machine, base, near=True, generator=own)
    round_trips = None
    if samples is None:
        if waypoints:
            tempered = trajectory_tempering([start, *waypoints, machine], runs, sweeps=sampling_sweeps, seed=seeds[0])
        else:
            tempered = parallel_tempering(machine, runs, sweeps=sampling_sweeps, base=start, seed=seeds[0])
        samples, round_trips = tempered.samples, tempered.round_trips
    forward = ais(machine, runs=runs, seed=seeds[1], betas=betas, base=start, waypoints=waypoints)
    reverse = reverse_ais(machine, samples, seed=seeds[2], betas=betas, base=start, waypoints=waypoints)
    few, fewer = _fewer(betas, _FREE_SHARE), _fewer(betas, _CHECK_SHARE)
    checks = {FREE: ais(machine, runs=runs, betas=few, base=base_machine(machine), seed=seeds[3])}
    if base is not None:
        checks[CHAINS] = ais(machine, runs=runs, betas=fewer, base=chains, seed=seeds[5])
    work = Annealing(forward, reverse, checks, round_trips, base is not None, fewer, seeds[5])
    return work.likelihood(data)


@dataclass(frozen=True)
class Annealing:
    """The part of :func:`estimate` that does not depend on the data, for the likelihood of several sets of data."""

    forward: Estimate
    reverse: Estimate
    checks: Mapping[str, Estimate]
    round_trips: int | None
    given: bool  # whether a base was given
    betas: Betas  # of the cross-checks
    seed: int | None

    def likelihood(self, data: Tensor) -> TwoSided:
        """Of ``data`` (n, *visible)."""
        machine, checks = self.forward.machine, dict(self.checks)
        data = machine.checked_states(data)
        if not self.given:
            runs = len(self.forward.log_weights)
            checks[DATA] = ais(machine, runs=runs, betas=self.betas, base=data, seed=self.seed)
        free_energy = mean_free_energy_bound(machine, data)
        doubts = samples_doubted(self.forward, self.reverse, checks, self.round_trips)
        problems = annealing_problems(self.forward, self.reverse)
        if not math.isfinite(free_energy):
            problems.append(f"the mean free energy of the data is {free_energy}")
        return TwoSided(
            self.forward,
            self.reverse,
            free_energy,
            len(data),
            _exact(machine, free_energy),
            (*doubts, *problems),
            not isinstance(machine, RBM),
            self.round_trips,
            checks,
            not doubts,
            self,
        )


def annealing_problems(forward: Estimate, reverse: Estimate) -> list[str]:
    """What the weights of the two directions say against their value."""
    problems = [f"forward: {problem}" for problem in forward.problems_at(_LEAST_CARRIED)]
    problems += [f"reverse: {problem}" for problem in reverse.problems_at(_LEAST_CARRIED)]
    gap = reverse.log_partition - forward.log_partition
    if abs(gap) > _LARGEST_GAP:
        problems.append(f"the two directions are {gap:.2f} nats apart: the truth is somewhere between")
    return problems


def samples_doubted(
    forward: Estimate, reverse: Estimate, checks: Mapping[str, Estimate], round_trips: int | None
) -> list[str]:
    """What says that the samples behind the reverse direction are not the model's, or leaves it open."""
    doubts, runs = [], len(forward.log_weights)
    if round_trips is not None and round_trips < runs:
        doubts.append(
            f"the samples behind the reverse estimate have hardly mixed: {round_trips} round trips of {runs} chains"
        )
    gap = reverse.log_partition - forward.log_partition
    if gap < -3 * (forward.standard_error + reverse.standard_error):
        doubts.append(f"reverse lies {-gap:.2f} nats below forward: its samples are not the model's")
    larger = set()
    for name, check in checks.items():
        excess = check.log_partition - forward.log_partition
        if excess > 3 * math.hypot(forward.standard_error, check.standard_error) + _LARGEST_EXCESS:
            larger.add(name)
            doubts.append(f"ln Z annealed from {name} is {excess:.2f} nats larger: the estimate misses states")
    # Only free units prefer no mode. Large errors do not make an agreement: they are a lack of power.
    free_units = None if FREE in larger else checks.get(FREE)
    if free_units is not None and not _has_power(free_units):
        doubts.append(
            f"the cross-check from free units has no power: {free_units.effective_sample_size:.1f} of {runs} runs "
            "carry it; use more betas"
        )
    elif free_units is not None and abs(free_units.log_partition - forward.log_partition) > _CONFIRMED:
        doubts.append(
            f"the cross-check from free units does not confirm the estimate: its ln Z differs by "
            f"{free_units.log_partition - forward.log_partition:+.2f} nats"
        )
    # annealing from the data may stay in their mode; that makes its value small and says nothing about the samples
    for name, found in {"the base": forward, **{k: v for k, v in checks.items() if k != DATA}}.items():
        if found.states is None or reverse.states is None or not _has_power(found):
            continue
        error = disagreement(found.machine, found.states, found.log_weights, reverse.states)
        if error > _LARGEST_MODE_ERROR:
            doubts.append(
                f"the masses of modes differ by {error:.1f} standard errors between states annealed from {name} "
                "and the samples behind the reverse estimate"
            )
    return doubts


def _has_power(check: Estimate) -> bool:
    """Whether enough runs carry a cross-check."""
    return not check.problems_at(_LEAST_POWER)


def _fewer(betas: Betas, share: int) -> Betas:
    """The schedule of a cross-check: one in ``share`` of the betas."""
    if isinstance(betas, Adaptive):
        return replace(betas, betas=max(1, betas.betas // share))
    if isinstance(betas, int):
        return max(1, betas // share)
    return [*beta_grid(betas)[:-1:share], 1.0]


def _exact(machine: BoltzmannMachine, free_energy: float) -> float | None:
    try:
        _, states = enumeration.cheaper_parity(machine)
    except NotEnumerable:
        return None
    return -free_energy - machine.log_partition() if states <= _EXACT_STATES else None
