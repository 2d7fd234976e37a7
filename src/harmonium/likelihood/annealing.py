"""Forward and reverse annealed importance sampling (Neal 2001; Burda et al. 2015) with one-sided intervals of ln Z."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.phase_masses import phases
from ..noise import Seed
from ..sampling.annealing import anneal, spreads
from ..sampling.base import base_log_partition as log_partition_of
from ..sampling.base import base_machine, base_states
from ..sampling.path import Path, beta_grid, even_steps
from .results import LogPartition, judge
from .weights import Weights


@dataclass(frozen=True)
class Adaptive:
    """Grid of ``betas`` steps with equal spread of the log-weights, estimated by a pilot run of ``pilot`` equal steps.

    The pilot run uses separate random numbers and, in the forward direction, separate initial states, so the estimate
    stays unbiased. In the reverse direction, where samples of the model are expensive, it uses the same initial states.
    """

    betas: int = 10_000
    pilot: int = 500

    def __post_init__(self) -> None:
        if self.betas < 1 or self.pilot < 1:
            raise InvalidOption(f"betas: expected at least one step and one pilot step, found {self}")


Betas = int | Sequence[float] | Tensor | Adaptive


@torch.no_grad()
def ais(
    machine: BoltzmannMachine,
    *,
    runs: int = 100,
    betas: Betas = 10_000,
    base: BoltzmannMachine | Tensor | None = None,
    base_log_partition: float | None = None,
    waypoints: Sequence[BoltzmannMachine] = (),
    remove_outliers: bool = False,
    check: bool = True,
    seed: Seed = None,
) -> LogPartition:
    """Estimate ln Z by annealed importance sampling from a base machine to ``machine`` (Neal 2001).

    The mean weight is an unbiased estimate of Z, even if the runs miss states. So ln Z is too small on average, and
    ``interval`` has no upper end: the mass of states that no run reached is unknown. One direction cannot see what it
    misses, because runs that all miss a mode agree with each other; :func:`estimate` compares several annealings.

    ``samples`` are the final states, which represent the machine if they are weighted. ``details`` has the ``weights``
    (:class:`harmonium.likelihood.Weights`), the ``effective_runs``, ``base_log_partition``, the mask of ``outliers``,
    and ``conditional_interval``: both ends, if the runs represent all modes.

    Args:
        machine: machine with a finite partition function.
        runs: number of independent annealing runs.
        betas: number of equal steps of β from 0 to 1, the increasing values of β, or :class:`Adaptive`, which takes
            small steps where the distribution changes quickly.
        base: start of the annealing path. Data (n, *visible): an uncoupled machine with the single-site statistics of
            the data and of the hidden states given the data. A machine with the same units, such as an earlier
            checkpoint: used as it is. None: an uncoupled machine with the single-site statistics of 500 short Gibbs
            chains of ``machine`` (20 sweeps, separate random numbers). The initial states are exact samples if the
            base has no couplings or at most 2²⁰ states on its smaller side. For a larger base with couplings they are
            the result of 1000 Gibbs sweeps, and the estimate is unbiased only if that suffices.
        base_log_partition: ln Z of a machine given as ``base``; computed if None.
        waypoints: intermediate machines of the path, such as checkpoints of the training run from early to late.
            Checkpoints of a phase with large learning steps are noisy and make the path longer than the direct one.
        remove_outliers: remove runs further than 3 scaled median absolute deviations from the median log-weight.
        check: whether to look for phases of the machine that the runs do not visit (:func:`harmonium.sampling.phases`).
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> rbm.initialize(weights="normal", scale=0.5, seed=0)
    >>> found = hm.likelihood.ais(rbm, betas=200, seed=0)
    >>> low, high = found.interval
    >>> low < rbm.log_partition() < high, high
    (True, inf)
    """
    if count("runs", runs) < 1:
        raise InvalidOption(f"runs: expected at least one, found {runs}")
    machine.check_normalizable()
    generator = noise.generator(seed, machine.device)
    start, log_z = _base(machine, base, base_log_partition, generator)
    legs = _legs([start, *waypoints, machine])
    state = base_states(start, runs, generator)
    weights, final = _along(legs, state, lambda: base_states(start, runs, generator), betas, generator)
    outliers = outlying(weights)
    states = final[0]
    if remove_outliers:
        weights, states = weights[~outliers], states[~outliers]
    found = from_weights(machine, Weights(weights), log_z, (states, weights), outliers=outliers)
    return _checked(found, generator) if check else found


@torch.no_grad()
def reverse_ais(
    machine: BoltzmannMachine,
    start: Tensor,
    *,
    betas: Betas = 10_000,
    base: BoltzmannMachine | Tensor | None = None,
    base_log_partition: float | None = None,
    waypoints: Sequence[BoltzmannMachine] = (),
    check: bool = True,
    seed: Seed = None,
) -> LogPartition:
    """Estimate ln Z by annealing samples of the model back to the base (Burda et al. 2015).

    ``start`` (runs, *visible) are the samples. The other arguments and ``details`` are those of :func:`ais`.

    If ``start`` are exact samples of the model, the mean weight is an unbiased estimate of 1/Z. So ln Z is too large on
    average, and ``interval`` has no lower end. If the samples miss a mode, the upper end is not valid either.
    """
    machine.check_normalizable()
    generator = noise.generator(seed, machine.device)
    end, log_z = _base(machine, base, base_log_partition, generator)
    legs = [leg.reversed() for leg in reversed(_legs([end, *waypoints, machine]))]
    visible = machine.checked_states(start, "start")
    state = _settle_hidden(machine, machine.initial_state(visible, generator), generator)
    weights, _ = _along(legs, state, lambda: state, betas, generator)
    samples = visible, torch.zeros_like(weights)
    found = from_weights(machine, Weights(weights), log_z, samples, reverse=True, outliers=outlying(weights))
    return _checked(found, generator) if check else found


def from_weights(
    machine: BoltzmannMachine,
    weights: Weights,
    base_log_partition: float,
    samples: tuple[Tensor, Tensor] | None = None,
    *,
    reverse: bool = False,
    outliers: Tensor | None = None,
) -> LogPartition:
    """The estimate of ln Z from the weights (runs,) of annealing in one direction.

    >>> found = from_weights(BoltzmannMachine([1, 1]), Weights(torch.zeros(9, dtype=torch.float64)), 1.5)
    >>> found.value, found.interval
    (1.5, (1.5, inf))
    """
    ratio, (least, most) = weights.log_mean.item(), (end.item() for end in weights.interval)
    sign = -1 if reverse else 1
    low, high = sorted((base_log_partition + sign * least, base_log_partition + sign * most))
    return LogPartition(
        machine=machine,
        value=base_log_partition + sign * ratio,
        standard_error=weights.standard_error.item(),
        interval=(-math.inf, high) if reverse else (low, math.inf),
        method="reverse annealing" if reverse else "annealing",
        problems=weights.problems(),
        samples=samples,
        details={
            "weights": weights,
            "effective_runs": weights.effective.item(),
            "conditional_interval": (low, high),
            "base_log_partition": base_log_partition,
            "outliers": outliers,
        },
    )


def _checked(found: LogPartition, generator: Generator | None) -> LogPartition:
    """The estimate with missed phases among its problems."""
    assert found.samples is not None
    check = phases(found.machine.machines[-1], seed=generator)
    return judge(found, check, check.missed(found.value, *found.samples))


def _legs(machines: Sequence[BoltzmannMachine]) -> list[Path]:
    """Return the paths between consecutive machines."""
    for machine in machines[1:-1]:
        machine.check_normalizable()
    return [Path(end, start) for start, end in pairwise(machines)]


def _along(
    legs: Sequence[Path],
    state: list[Tensor],
    start: Callable[[], list[Tensor]],
    betas: Betas,
    generator: Generator | None,
) -> tuple[Tensor, list[Tensor]]:
    """Anneal along all paths in order; return the log-weights (runs,) and the final states."""
    if len(legs) == 1:
        return anneal(legs[0], state, _schedule(legs[0], start, betas, generator), generator)
    if not isinstance(betas, int) or betas < len(legs):
        raise InvalidOption(
            f"betas: expected at least {len(legs)} steps for a path with {len(legs)} legs, found {betas}"
        )
    # the number of steps of a leg is proportional to its length, the norm of the change of the weights
    lengths = torch.tensor([leg.length() for leg in legs], dtype=torch.float64)
    steps = (lengths / lengths.sum().clamp_min(1e-300) * (betas - len(legs))).floor().long() + 1
    total = torch.zeros(len(state[0]), dtype=torch.float64, device=state[0].device)
    for leg, number in zip(legs, steps.tolist(), strict=True):
        weights, state = anneal(leg, state, beta_grid(number), generator)
        total += weights
    return total, state


def _schedule(path: Path, start: Callable[[], list[Tensor]], betas: Betas, generator: Generator | None) -> list[float]:
    """Return the values of β; ``start`` returns the initial states of a pilot run, if one is needed."""
    if not isinstance(betas, Adaptive):
        return beta_grid(betas)
    pilot = beta_grid(betas.pilot)
    cost = spreads(path, start(), pilot, generator)
    floor = 1e-3 * cost.double().mean() + 1e-12  # keeps steps finite where the spread is zero
    return even_steps(pilot, cost.double() + floor, betas.betas)


def outlying(values: Tensor) -> Tensor:
    """Return a mask of the values further than 3 scaled median absolute deviations from the median."""
    center = values.median()
    deviation = (values - center).abs()
    return deviation > 3 * 1.4826 * deviation.median()


def _base(
    machine: BoltzmannMachine,
    base: BoltzmannMachine | Tensor | None,
    log_partition: float | None,
    generator: Generator | None,
) -> tuple[BoltzmannMachine, float]:
    """Return the base machine and its ln Z; ``log_partition`` is used only if ``base`` is a machine."""
    start = base_machine(machine, base, near=True, generator=generator)
    known = log_partition if start is base else None
    return start, log_partition_of(start) if known is None else known


def _settle_hidden(machine: BoltzmannMachine, state: list[Tensor], generator: Generator | None) -> list[Tensor]:
    """Equilibrate the hidden layers of a deep machine with the visible layer fixed; not needed for an RBM."""
    for _ in range(100 if machine.depth > 2 else 0):
        state = machine.sweep(state, generator, held={0: True})
    return state
