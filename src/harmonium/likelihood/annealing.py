"""Annealed importance sampling, forwards and backwards: ln Z with the end of an interval that each can know."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.kernel import half_sweep
from ..sampling.base import base_log_partition as log_partition_of
from ..sampling.base import base_machine, base_states
from ..sampling.path import Path, beta_grid
from ..sampling.population import effective
from ..units import Unit
from .data import mean_free_energy

_CARRIED = 0.2  # the share of the runs that has to carry an estimate; with fewer, intervals miss too often
_MARKOV = math.log(370)


@dataclass(frozen=True)
class Adaptive:
    """``betas`` steps of β with equal spread of the weights, as estimated by a pilot run of ``pilot`` equal steps.

    The pilot has random numbers of its own, and forwards also starting states of its own, so that the estimate stays
    unbiased. Backwards, where draws of the model are dear, the pilot leaves from the same states.
    """

    betas: int = 10_000
    pilot: int = 500

    def __post_init__(self) -> None:
        if self.betas < 1 or self.pilot < 1:
            raise InvalidOption(f"betas: expected at least one step and one of the pilot, found {self}")


Betas = int | Sequence[float] | Tensor | Adaptive


@dataclass(frozen=True)
class Estimate:
    """An estimate of ln Z from weights of independent runs, in one direction.

    ``direction`` "forward" errs toward small values (in the mean, by Jensen's inequality), "reverse" toward large
    ones, so that a likelihood is bracketed: forward is too good, reverse too bad. ``states`` (runs, *visible) are the
    states of the model's end of the path: those reached, which represent the model with their weights, or those that
    the reverse direction started at.

    One direction cannot certify itself. Its runs can miss most of the mass and agree with each other; then nothing
    here shows it. ``problems`` are what can be seen. :func:`harmonium.likelihood.estimate` looks from both sides.
    """

    machine: BoltzmannMachine
    log_weights: Tensor
    base_log_partition: float
    direction: str = "forward"
    outliers: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    states: Tensor | None = None

    @property
    def _sign(self) -> float:
        return 1.0 if self.direction == "forward" else -1.0

    @property
    def _log_ratio(self) -> float:
        return (torch.logsumexp(self.log_weights, 0) - math.log(len(self.log_weights))).item()

    @property
    def log_partition(self) -> float:
        """ln Z."""
        return self.base_log_partition + self._sign * self._log_ratio

    @property
    def effective_sample_size(self) -> float:
        """(Σw)²/Σw²: how many of the runs carry the estimate."""
        return effective(self.log_weights)

    @property
    def standard_error(self) -> float:
        """The standard error of the mean weight relative to it, which is that of ln Z to first order.

        Infinite where the runs cannot tell: one of them alone, or weights that are not finite.
        """
        if len(self.log_weights) < 2 or self._not_finite:
            return math.inf
        w = (self.log_weights - self.log_weights.max()).exp()
        return (w.std() / w.mean()).item() / math.sqrt(len(w))

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of ln Z at the level of three standard errors, open at the end that one direction cannot know.

        Forward, the mean weight ŵ is an unbiased estimate of Z, whatever the runs have missed, so that
        P(Ẑ > cZ) ≤ 1/c (Markov): the lower end is controlled. The mass of states that no run has reached is not, and
        the upper end is ∞. Reverse, from exact draws of the model, the mean weight is an unbiased estimate of 1/Z: the
        upper end is controlled, and the lower one is -∞. Draws that miss a mode control neither.

        The controlled end is that of :attr:`conditional_interval`, at most ln 370 away (Markov at that level).
        """
        low, high = self.conditional_interval
        return (low, math.inf) if self.direction == "forward" else (-math.inf, high)

    @property
    def conditional_interval(self) -> tuple[float, float]:
        """The interval of ln Z at the level of three standard errors, *if* the runs have seen all that matters.

        That is: if the weights are a fair sample of their distribution, and for the reverse direction if the draws are
        exact. Infinite where the runs cannot tell.

        A mean of weights errs because large ones are rare. Toward these the interval reaches as far as three standard
        errors corrected for the skewness of the weights (Johnson), or as a law with the first three cumulants of their
        logarithms would ask for, ln⟨w⟩ = κ₁ + κ₂/2 + κ₃/6 with its error, whichever is further; where fewer than one
        run in five carries the mean it has no end. The other way, where P(ŵ > c⟨w⟩) ≤ 1/c (Markov), it is at most
        ln 370, which has the level of three standard errors.
        """
        if not math.isfinite(self.standard_error):
            return -math.inf, math.inf
        up, down = self._unseen, self._excess
        if self.direction == "forward":
            return self.log_partition - down, self.log_partition + up
        return self.log_partition - up, self.log_partition + down

    @property
    def _excess(self) -> float:
        """By how much the logarithm of the mean weight may be too large."""
        spread = 3 * self.standard_error
        return min(_MARKOV, -math.log1p(-spread) if spread < 1 else math.inf)

    @property
    def _unseen(self) -> float:
        """By how much it may be too small, for want of large weights."""
        w, n, error = self.log_weights, len(self.log_weights), self.standard_error
        if self.effective_sample_size < _CARRIED * n:
            return math.inf
        if error == 0:
            return 0.0
        scaled = (w - w.max()).exp()
        skewness = ((scaled - scaled.mean()) / scaled.std(correction=0)).pow(3).mean().item()
        skewed = math.log1p(error * max(0.0, 3 + 19 / 6 * skewness / math.sqrt(n)))
        variance, third = w.var().item(), max((w - w.mean()).pow(3).mean().item(), 0.0)
        spread = 3 * math.sqrt(variance / n * (1 + variance / 2 + variance**2 / 6))
        return max(skewed, w.mean().item() + variance / 2 + third / 6 + spread - self._log_ratio)

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons not to believe the number. That there are none is no reason to believe it."""
        return self.problems_at(_CARRIED)

    def problems_at(self, share: float) -> tuple[str, ...]:
        """Reasons not to believe the number, where ``share`` of the runs have to carry it."""
        runs, ess = len(self.log_weights), self.effective_sample_size
        if self._not_finite:
            return (f"the weights of {self._not_finite} of {runs} runs are not finite numbers",)
        if runs == 1:
            return ("one run has no error bar: use more runs",)
        if not ess >= max(5.0, share * runs):
            return (f"only {ess:.1f} of {runs} runs carry the estimate: use more {'runs' if runs < 5 else 'betas'}",)
        return ()

    @property
    def _not_finite(self) -> int:
        return int((~torch.isfinite(self.log_weights)).sum())

    def log_likelihood(self, data: Tensor) -> float:
        """The mean of ln p(v) over the rows of ``data``, in nats, with this ln Z."""
        return -mean_free_energy(self.machine, data) - self.log_partition


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
    seed: int | None = None,
    generator: Generator | None = None,
) -> Estimate:
    """ln Z by annealing ``runs`` independent states from a base machine to this one.

    Args:
        betas: the number of equal steps of β from 0 to 1, the values themselves, or :class:`Adaptive`,
            which takes small steps where the distribution changes quickly.
        base: where to start: data (n, *visible), whose single-site statistics the base takes, together with those of
            hidden states given the data; another machine on the
            same units, such as an earlier checkpoint, with its ``base_log_partition``; by default the single-site
            statistics of 500 short Gibbs chains of the machine (20 sweeps), with random numbers of their own. The
            first states are exact draws of a base without couplings or with at most 2²⁰ states on its smaller side.
            Those of a larger base with couplings are not exact: they are the ends of 1000 Gibbs sweeps, and the
            estimate is unbiased only if these suffice.
        waypoints: machines on the way, such as the checkpoints of the run from early to late: the states then follow
            learning itself, where valleys open one after the other. Checkpoints from a time of large steps are noisy,
            and the way through them is longer than the straight one.
        remove_outliers: leave out runs further than 3 scaled median absolute deviations from the median log-weight.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> rbm.initialize(weights="normal", scale=0.5, seed=0)
    >>> estimate = hm.likelihood.ais(rbm, betas=200, seed=0)
    >>> low, high = estimate.interval
    >>> low < rbm.log_partition() < high, high
    (True, inf)
    """
    if runs < 1:
        raise InvalidOption(f"runs: expected at least one, found {runs}")
    machine.check_normalizable()
    generator = noise.generator(seed, machine.device) if generator is None else generator
    start, log_z = _base(machine, base, base_log_partition, generator)
    legs = _legs([start, *waypoints, machine])
    state = base_states(start, runs, generator)
    weights, final = _along(legs, state, lambda: base_states(start, runs, generator), betas, generator)
    outliers = outlying(weights)
    states = final[0]
    if remove_outliers:
        weights, states = weights[~outliers], states[~outliers]
    return Estimate(machine, weights, log_z, "forward", outliers, states)


@torch.no_grad()
def reverse_ais(
    machine: BoltzmannMachine,
    start: Tensor,
    *,
    betas: Betas = 10_000,
    base: BoltzmannMachine | Tensor | None = None,
    base_log_partition: float | None = None,
    waypoints: Sequence[BoltzmannMachine] = (),
    seed: int | None = None,
    generator: Generator | None = None,
) -> Estimate:
    """ln Z from the other side: states of the model (runs, *visible) are annealed back to the base.

    The arguments are those of :func:`ais`.

    With exact draws of the model the mean estimate lies above ln Z, so that likelihoods come out too small. Nothing
    here can tell whether ``start`` are such draws.
    """
    machine.check_normalizable()
    generator = noise.generator(seed, machine.device) if generator is None else generator
    end, log_z = _base(machine, base, base_log_partition, generator)
    legs = [leg.reversed() for leg in reversed(_legs([end, *waypoints, machine]))]
    visible = machine.checked_states(start, "start")
    state = _settle_hidden(machine, machine.initial_state(visible, generator), generator)
    weights, _ = _along(legs, state, lambda: state, betas, generator)
    return Estimate(machine, weights, log_z, "reverse", outlying(weights), visible)


def _legs(machines: Sequence[BoltzmannMachine]) -> list[Path]:
    """The paths from each machine to the next."""
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
    """The log-weights (runs,) of states carried along one path after the other, and the last states."""
    if len(legs) == 1:
        return anneal(legs[0], state, _schedule(legs[0], start, betas, generator), generator)
    if not isinstance(betas, int) or betas < len(legs):
        raise InvalidOption(f"betas: on a way of {len(legs)} legs expected at least as many steps, found {betas}")
    # as many steps for a leg as it is long, in the norm of the change of the weights
    lengths = torch.tensor([leg.length() for leg in legs], dtype=torch.float64)
    steps = (lengths / lengths.sum().clamp_min(1e-300) * (betas - len(legs))).floor().long() + 1
    total = torch.zeros(len(state[0]), dtype=torch.float64, device=state[0].device)
    for leg, count in zip(legs, steps.tolist(), strict=True):
        weights, state = anneal(leg, state, beta_grid(count), generator)
        total += weights
    return total, state


def _schedule(path: Path, start: Callable[[], list[Tensor]], betas: Betas, generator: Generator | None) -> list[float]:
    """The values of β; ``start`` gives the states at which a pilot run begins, where one is needed."""
    if not isinstance(betas, Adaptive):
        return beta_grid(betas)
    pilot = beta_grid(betas.pilot)
    spreads: list[Tensor] = []
    _anneal(path, start(), pilot, generator, fast=False, spreads=spreads)
    return equal_spread(pilot, torch.stack(spreads), betas.betas)


def equal_spread(schedule: Sequence[float], spreads: Tensor, steps: int) -> list[float]:
    """β at which the accumulated spread of the log-weights has grown by equal parts; ``spreads`` (len(schedule) - 1,).

    >>> [round(beta, 2) for beta in equal_spread([0.0, 0.5, 1.0], torch.tensor([3.0, 1.0]), 4)]
    [0.0, 0.17, 0.33, 0.5, 1.0]
    """
    floor = 1e-3 * spreads.double().mean() + 1e-12  # where nothing seems to happen the steps stay finite
    length = torch.cat([torch.zeros(1, dtype=torch.float64), (spreads.double().cpu() + floor.cpu()).cumsum(0)])
    at = torch.linspace(0, 1, steps + 1, dtype=torch.float64) * length[-1]
    values = np.interp(at.numpy(), length.numpy(), np.asarray(schedule))
    values[0], values[-1] = 0.0, 1.0
    return [float(value) for value in values]


def anneal(
    path: Path, state: list[Tensor], schedule: Sequence[float], generator: Generator | None
) -> tuple[Tensor, list[Tensor]]:
    """Carry states along the path; returns the log-weights (runs,) in float64 and the last states.

    Memory does not depend on the number of betas; each of them costs one product up and one down.
    """
    weights, final = _anneal(path, state, schedule, generator, fast=True)
    if not bool(torch.isfinite(weights).all()):  # steps so large that the fast form of the gain overflowed
        weights, final = _anneal(path, state, schedule, generator, fast=False)
    return weights, final


def _anneal(
    path: Path,
    state: list[Tensor],
    schedule: Sequence[float],
    generator: Generator | None,
    fast: bool,
    spreads: list[Tensor] | None = None,
) -> tuple[Tensor, list[Tensor]]:
    state = [x.clone() for x in state]
    weights = torch.zeros(len(state[0]), dtype=torch.float64, device=state[0].device)
    means = {layer: torch.empty_like(state[layer]) for layer in path.odd}
    before = path.at(schedule[0])
    for beta in schedule[1:]:
        now, seen, fields = path.at(beta), path.seen(state), {}
        gain = path.tilt(state) * (beta - before.beta)
        for layer in path.odd:  # what log_weight gains, with fields and means that the sweep uses too
            unit, field_before = now.layer(layer), path.mixed(layer, seen[layer], before.beta)
            fields[layer] = path.mixed(layer, seen[layer], beta, last=True)
            unit.mean_(fields[layer], means[layer])
            gain_of = unit.log_partition_gain if fast else partial(Unit.log_partition_gain, unit)
            gain = gain + gain_of(fields[layer], before.layer(layer), field_before, means[layer])
        weights += gain
        if spreads is not None:
            spreads.append(gain.std(correction=0))  # zero for a single run: equal steps
        if beta < schedule[-1]:
            half_sweep(now, state, 1, generator, fields=fields, means=means, in_place=True)
            half_sweep(now, state, 0, generator, in_place=True)
        before = now
    return weights, state


def outlying(values: Tensor) -> Tensor:
    """Which values lie further than 3 scaled median absolute deviations from the median."""
    center = values.median()
    deviation = (values - center).abs()
    return deviation > 3 * 1.4826 * deviation.median()


def _base(
    machine: BoltzmannMachine,
    base: BoltzmannMachine | Tensor | None,
    log_partition: float | None,
    generator: Generator | None,
) -> tuple[BoltzmannMachine, float]:
    """The machine at which annealing begins, and its ln Z: the given one counts only for a machine that was given."""
    start = base_machine(machine, base, near=True, generator=generator)
    known = log_partition if start is base else None
    return start, log_partition_of(start) if known is None else known


def _settle_hidden(machine: BoltzmannMachine, state: list[Tensor], generator: Generator | None) -> list[Tensor]:
    """Let the hidden layers of a deep machine settle with the visible layer held; an RBM needs nothing."""
    for _ in range(100 if machine.depth > 2 else 0):
        state = machine.sweep(state, generator, held={0: True})
    return state
