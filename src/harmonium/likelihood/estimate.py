"""ln Z by annealing in both directions and by tempering, with cross-checks of the result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack, overload

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import InvalidOption
from ..machines import BoltzmannMachine, Machine
from ..machines.phase_masses import TOLERANCE, Phases, phases
from ..noise import Seed
from ..sampling import parallel_tempering, trajectory_tempering
from ..sampling.base import base_machine
from ..sampling.path import Path, beta_grid
from . import documents
from .annealing import Adaptive, Betas, ais, reverse_ais
from .log_partition import along
from .modes import disagreement
from .results import LogLikelihood, LogPartition, judge

FREE, CHAINS, DATA, GIVEN = "free units", "short chains", "the data", "the given data"  # bases
DIRECTIONS, TEMPERING, PHASES = "both directions", "tempering", "phases"  # where ln Z comes from

_ERRORS = 3  # standard errors of accepted differences
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


#: the random numbers of an estimate; each stream is used once
_STREAMS = (
    "tempering",
    "forward",
    "reverse",
    "cross-check",
    "short chains",
    "cross-check from data",
    "inputs",
    "pilots",
    "phases",
    "cross-check from short chains",
    "rows",
    "likelihood",
)


class Streams:
    """Random generators by name, from one seed. Each can be taken once, so that no two annealings share theirs.

    >>> streams = Streams(0)
    >>> streams.take("forward").initial_seed() == streams.take("reverse").initial_seed()
    False
    >>> streams.take("forward")
    Traceback (most recent call last):
    ...
    KeyError: 'forward'
    """

    def __init__(self, seed: Seed, device: torch.device | str = "cpu") -> None:
        first = noise.resolve_seed(seed)
        self._left = {name: noise.generator(first + k, device) for k, name in enumerate(_STREAMS)}

    def take(self, name: str) -> Generator | None:
        """The generator of this name."""
        return self._left.pop(name)


class Options(TypedDict, total=False):
    """Keyword arguments of :func:`estimate`, which documents them."""

    base: Tensor | None
    runs: int
    betas: Betas
    waypoints: Sequence[Machine]
    samples: Tensor | None
    sampling_sweeps: int
    seed: Seed


@overload
def estimate(machine: Machine, data: None = None, **options: Unpack[Options]) -> LogPartition: ...
@overload
def estimate(machine: Machine, data: Tensor, **options: Unpack[Options]) -> LogLikelihood: ...


@torch.no_grad()
def estimate(
    machine: Machine,
    data: Tensor | None = None,
    *,
    base: Tensor | None = None,
    runs: int = 100,
    betas: Betas = 10_000,
    waypoints: Sequence[Machine] = (),
    samples: Tensor | None = None,
    sampling_sweeps: int = 1000,
    seed: Seed = None,
) -> LogPartition | LogLikelihood:
    """Estimate ln Z, or the mean log-likelihood of ``data``, by annealing in both directions, and check the result.

    For a deep Boltzmann machine whose hidden layers are too large for a sum over their states given each row, the
    likelihood is a lower bound, by mean field of the hidden layers. For a deep belief network it is the variational
    bound (:func:`harmonium.likelihood.rows.sampled_bound`), with samples of the hidden layers; ln Z is that of the top
    machine. Documents of different lengths have a ln Z for each length; they are annealed for each length
    (:func:`harmonium.likelihood.documents.annealed`).

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

    The exchanges of the tempering that makes the samples of the reverse direction give ln Z, too (:func:`tempering`).
    If its chains mix, and no annealing gives a larger ln Z, this is more precise and takes the place of both
    directions. ``method`` is "both directions", "tempering" or "phases".

    ``log_partition.log_likelihood(other)`` is the likelihood of other data with the same ln Z. ``details`` of ln Z has
    the estimates ``forward`` and ``reverse``, the ``gap`` between them, the forward estimates from other bases by the
    name of the base (``checks``), the name of the ``base`` of both directions, the ``tempering`` and its
    ``round_trips``, if there is one, and ``bounded``: whether the samples of the reverse direction passed all checks.

    By default the upper end of the interval of ln Z is the largest of the reverse direction, which needs samples of the
    model, of the annealing from free units, and of the cross-checks, those with a sufficient effective sample size;
    short chains do not count if free units lose less work. It is ∞ if a check rejected the samples. The lower end comes
    from the forward direction and holds even if the annealing missed states. If ln Z comes from the tempering or from
    the phases of the machine, or if the phases confirm it, the interval includes theirs.

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
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> data = hm.data.load("digits", binarize="threshold")
    >>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    >>> _ = hm.fit(rbm, data, epochs=3, seed=0, progress=False)
    >>> found = hm.likelihood.estimate(rbm, data, betas=500, sampling_sweeps=100)
    >>> found.trustworthy, abs(found.log_partition.details["gap"]) < 0.5
    (True, True)
    """
    if data is not None and documents.is_replicated_softmax(machine) and machine.visible.conserves:
        if isinstance(betas, Adaptive):
            raise InvalidOption("betas: expected a number of steps or the values of β for documents, found Adaptive")
        top = machine.machines[-1]
        return documents.annealed(top, data, runs=runs, betas=betas, sweeps=sampling_sweeps, base=base, seed=seed)
    data = None if data is None else machine.checked_states(data)  # fail before the expensive part
    base = None if base is None else machine.checked_states(base, "base")
    streams = Streams(seed, machine.device)
    machine.check_normalizable()
    whole, machine = machine, machine.machines[-1]
    base = None if base is None else _top_inputs(whole, base, streams.take("inputs"))
    tops: list[BoltzmannMachine] = [earlier.machines[-1] for earlier in waypoints]
    own = streams.take("short chains")
    bases = {CHAINS: base_machine(machine, near=True, generator=own), FREE: base_machine(machine)}
    if base is not None:
        bases[GIVEN] = base_machine(machine, base, near=True, generator=own)
    chosen = CHAINS if base is None else GIVEN
    near = bases[chosen]  # of the tempering, also if the annealing starts from free units: another way to find modes
    if base is None and not tops:
        chosen = base_of_least_work(machine, bases, runs, betas, streams.take("pilots"))
    start, check = bases[chosen], phases(machine, seed=streams.take("phases"))
    tempering, round_trips, source = None, None, streams.take("tempering")
    if samples is None:
        if not tops and runs >= _FEWEST_CHAINS and sampling_sweeps >= _FEWEST_SWEEPS:
            tempering = along(Path(machine, near), runs, sampling_sweeps, check=check, generator=source)
            assert tempering.samples is not None
            samples, round_trips = tempering.samples[0], tempering.details["round_trips"]
        else:
            drawn = (
                trajectory_tempering([near, *tops, machine], runs, sweeps=sampling_sweeps, seed=source)
                if tops
                else parallel_tempering(machine, runs, sweeps=sampling_sweeps, base=near, seed=source)
            )
            samples, round_trips = drawn.samples, drawn.round_trips

    def anneal(name: str, base: BoltzmannMachine | Tensor, betas: Betas) -> LogPartition:
        return ais(machine, runs=runs, betas=betas, base=base, check=False, seed=streams.take(name))

    forward = ais(
        machine,
        runs=runs,
        betas=betas,
        base=start,
        waypoints=tops,
        check=False,
        seed=streams.take("forward"),
    )
    reverse = reverse_ais(
        machine, samples, betas=betas, base=start, waypoints=tops, check=False, seed=streams.take("reverse")
    )
    fewer, other = _fewer(betas, _CHECK_SHARE), CHAINS if chosen == FREE else FREE
    checks = {other: anneal("cross-check", bases[other], _fewer(betas, _OTHER_SHARE))}
    if chosen == GIVEN:
        checks[CHAINS] = anneal("cross-check from short chains", bases[CHAINS], fewer)
    elif data is not None:
        rows = _top_inputs(whole, data, streams.take("rows"))
        checks[DATA] = anneal("cross-check from data", rows, fewer)
    found = _combine(forward, reverse, checks, round_trips, chosen, check, tempering)
    found = replace(found, machine=whole)
    return found if data is None else found.log_likelihood(data, seed=streams.take("likelihood"))


def base_of_least_work(
    machine: BoltzmannMachine,
    bases: Mapping[str, BoltzmannMachine],
    runs: int,
    betas: Betas,
    seed: Seed,
) -> str:
    """Return the name of the base from which short annealing runs have the largest mean of ln w + ln Z(base).

    The mean is a lower bound of ln Z; what it lacks is the work that is lost on the way.
    """
    steps = betas.betas if isinstance(betas, Adaptive) else len(beta_grid(betas)) - 1
    few = max(1, steps // _PILOT_SHARE)
    seed = noise.resolve_seed(seed)  # one for all: a fair contest
    work = {}
    for name, base in bases.items():
        pilot = ais(machine, runs=runs, betas=few, base=base, check=False, seed=seed)
        work[name] = pilot.details["base_log_partition"] + pilot.details["weights"].log_weights.mean().item()
    return max(work, key=work.__getitem__)


def _combine(
    forward: LogPartition,
    reverse: LogPartition,
    checks: Mapping[str, LogPartition],
    round_trips: int | None,
    base: str,
    check: Phases,
    tempering: LogPartition | None,
) -> LogPartition:
    """ln Z from all estimates, its interval and its problems."""
    doubts = doubts_of_samples(forward, reverse, checks, round_trips, base)
    problems = (*doubts, *problems_of_weights(forward, reverse))
    gap = reverse.value - forward.value
    error = max(abs(gap) / 2, forward.standard_error, reverse.standard_error)
    found = LogPartition(
        machine=forward.machine,
        value=(forward.value + reverse.value) / 2,
        standard_error=error,
        interval=log_partition_interval(forward, reverse, checks, base, not doubts),
        method=DIRECTIONS,
        problems=problems,
        samples=forward.samples,
        details={
            "forward": forward,
            "reverse": reverse,
            "gap": gap,
            "checks": checks,
            "base": base,
            "bounded": not doubts,
            "round_trips": round_trips,
            "tempering": tempering,
            "phases": check,
        },
    )
    if tempering is not None and _better(tempering, found):
        low, high = tempering.interval
        if check.sharp:
            low, high = min(low, check.interval[0]), max(high, check.interval[1])
        return replace(
            found,
            value=tempering.value,
            standard_error=tempering.standard_error,
            interval=(low, high),
            problems=(),
            method=TEMPERING,
        )
    assert forward.samples is not None and reverse.samples is not None
    missed = max(check.missed(found.value, *part.samples) for part in (forward, reverse) if part.samples)
    return judge(found, check, missed, repair=True)


def _better(tempering: LogPartition, found: LogPartition) -> bool:
    """Return whether the tempering is right as far as one can see, and more precise than both directions.

    Directions without problems are replaced only by a tempering that agrees with their mean: with few sweeps, its
    standard error is too small. Annealing exceeds ln Z only by chance, so a larger ln Z of any annealing means that
    the tempering is wrong. Before equilibrium its ln Z may also be too large; then it disagrees with the phases.
    """
    forward, reverse, check = (found.details[name] for name in ("forward", "reverse", "phases"))
    if tempering.problems or tempering.method != TEMPERING:
        return False
    gap, errors = found.details["gap"], (forward.standard_error, reverse.standard_error)
    error = math.hypot(tempering.standard_error, max(abs(gap), math.hypot(*errors)) / 2)
    precise = tempering.standard_error <= found.standard_error
    agrees = abs(tempering.value - found.value) <= max(_SMALL_CHANGE, _AGREEMENT * error)
    if not found.problems and not (precise and agrees):
        return False
    if check.sharp and abs(check.log_partition - tempering.value) > TOLERANCE:
        return False
    return not any(
        other.value - tempering.value
        > _ERRORS * math.hypot(other.standard_error, tempering.standard_error) + _LARGEST_EXCESS
        for other in (forward, *found.details["checks"].values())
    )


def _top_inputs(machine: Machine, data: Tensor, generator: Generator | None) -> Tensor:
    """Return states of the visible layer of the top machine given data; the data themselves without a stack."""
    *_, (_, rows) = machine.stacked(data, generator=generator, inputs="samples")
    return rows


def log_partition_interval(
    forward: LogPartition, reverse: LogPartition, checks: Mapping[str, LogPartition], base: str, bounded: bool
) -> tuple[float, float]:
    """Return the interval of ln Z from both directions; without upper end unless the samples passed all checks."""
    low, high = forward.interval[0], reverse.interval[1]
    for other in _comparable(forward, checks, base).values():
        if _has_power(other):
            high = max(high, other.details["conditional_interval"][1])
    high = max(low, high) if bounded else math.inf
    return min(low, high), high


def problems_of_weights(forward: LogPartition, reverse: LogPartition) -> list[str]:
    """Return reasons to distrust the value that follow from the weights of the two directions."""
    problems = [f"forward: {problem}" for problem in forward.details["weights"].problems(_LEAST_CARRIED)]
    problems += [f"reverse: {problem}" for problem in reverse.details["weights"].problems(_LEAST_CARRIED)]
    gap = reverse.value - forward.value
    if abs(gap) > _LARGEST_GAP:
        problems.append(f"forward and reverse estimates of ln Z differ by {gap:.2f} nats")
    return problems


def doubts_of_samples(
    forward: LogPartition,
    reverse: LogPartition,
    checks: Mapping[str, LogPartition],
    round_trips: int | None,
    base: str = CHAINS,
) -> list[str]:
    """Return reasons to doubt that the samples of the reverse direction follow the model distribution."""
    doubts, runs = [], len(forward.details["weights"])
    if round_trips is not None and round_trips < runs:
        doubts.append(f"the samples of the reverse estimate did not mix: {round_trips} round trips for {runs} chains")
    gap = reverse.value - forward.value
    if gap < -3 * (forward.standard_error + reverse.standard_error):
        doubts.append(f"the reverse ln Z is {-gap:.2f} nats below the forward one: its samples do not follow the model")
    larger = set()
    for name, check in checks.items():
        excess = check.value - forward.value
        if excess > 3 * math.hypot(forward.standard_error, check.standard_error) + _LARGEST_EXCESS:
            larger.add(name)
            doubts.append(f"ln Z annealed from {name} is {excess:.2f} nats larger: the estimate misses states")
    # Only free units favor no mode. A check with a large standard error agrees with everything and confirms nothing.
    free_units = forward if base == FREE else None if FREE in larger else checks.get(FREE)
    if free_units is not None and not _has_power(free_units):
        doubts.append(
            f"the {'annealing' if base == FREE else 'cross-check'} from free units has no power: its effective sample "
            f"size is {free_units.details['effective_runs']:.1f} of {runs} runs; use more betas"
        )
    elif free_units is not None and abs(free_units.value - forward.value) > _CONFIRMED:
        doubts.append(
            f"the cross-check from free units does not confirm the estimate: its ln Z differs by "
            f"{free_units.value - forward.value:+.2f} nats"
        )
    # annealing from the data may stay in their mode; its value is then too small, which says nothing about the samples
    for name, found in {base: forward, **_comparable(forward, checks, base)}.items():
        if name == DATA or found.samples is None or reverse.samples is None or not _has_power(found):
            continue
        error = disagreement(forward.machine.machines[-1], *found.samples, reverse.samples[0])
        if error > _LARGEST_MODE_ERROR:
            doubts.append(
                f"the masses of modes differ by {error:.1f} standard errors between states annealed from {name} "
                "and the samples of the reverse estimate"
            )
    return doubts


def _comparable(forward: LogPartition, checks: Mapping[str, LogPartition], base: str) -> dict[str, LogPartition]:
    """Return the annealings that may find what the two directions miss, by the name of their base.

    These are the cross-checks and the annealing from free units, which may be the forward direction itself. A base that
    was not chosen because it loses more work gives values that are too small, with large errors.
    """
    if base != FREE:
        return dict(checks)
    return {FREE: forward, **{name: check for name, check in checks.items() if name != CHAINS}}


def _has_power(check: LogPartition) -> bool:
    """Return whether the effective sample size of a cross-check is large enough."""
    return not check.details["weights"].problems(_LEAST_POWER)


def _fewer(betas: Betas, share: int) -> Betas:
    """Return the schedule of a cross-check: 1/``share`` of the betas."""
    if isinstance(betas, Adaptive):
        return replace(betas, betas=max(1, betas.betas // share))
    if isinstance(betas, int):
        return max(1, betas // share)
    return [*beta_grid(betas)[:-1:share], 1.0]
