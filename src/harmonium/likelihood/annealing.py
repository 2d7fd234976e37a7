"""Forward and reverse annealed importance sampling (Neal 2001; Burda et al. 2015) with one-sided intervals of ln Z."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.kernel import half_sweep
from ..noise import Seed
from ..sampling.base import base_log_partition as log_partition_of
from ..sampling.base import base_machine, base_states
from ..sampling.path import Path, beta_grid
from ..sampling.population import effective
from ..shown import Shown, short
from ..units import Unit
from .data import mean_free_energy

_CARRIED = 0.2  # smallest effective sample size per run; below it, intervals miss the true value too often
_MARKOV = math.log(370)  # 1/370 is the two-sided tail probability of three standard errors


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


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """Estimate of ln Z from the weights of independent annealing runs in one direction.

    By Jensen's inequality, a "forward" estimate of ln Z is too small on average and a "reverse" estimate too large.
    Together they bracket the likelihood: from above with forward, from below with reverse. ``states`` (runs, *visible)
    are the states at the model's end of the path: for "forward" the final states, which represent the model if
    weighted, for "reverse" the initial states.

    One direction alone cannot detect missing modes: runs that all miss most of the mass agree with each other.
    ``problems`` lists only what the weights show. Use :func:`harmonium.likelihood.estimate` to compare both directions.
    """

    machine: BoltzmannMachine
    log_weights: Tensor
    base_log_partition: float
    direction: str = "forward"
    outliers: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    states: Tensor | None = None

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The value of ln Z, its interval, the direction and the number of runs."""
        low, high = self.interval
        runs = f"{self.effective_sample_size:.0f} effective of {len(self.log_weights)}"
        interval = f"[{short(low, 6)}, {short(high, 6)}]"
        ln_z = {"ln Z": short(self.log_partition, 6), "interval": interval}
        return "Estimate", {**ln_z, "direction": self.direction, "runs": runs}

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
        """Effective number of runs, (Σw)²/Σw²."""
        return effective(self.log_weights)

    @property
    def standard_error(self) -> float:
        """Relative standard error of the mean weight, which is the standard error of ln Z to first order.

        Infinite for a single run or if a weight is not finite.
        """
        if len(self.log_weights) < 2 or self._not_finite:
            return math.inf
        w = (self.log_weights - self.log_weights.max()).exp()
        return (w.std() / w.mean()).item() / math.sqrt(len(w))

    @property
    def interval(self) -> tuple[float, float]:
        """One-sided interval of ln Z at the level of three standard errors.

        Forward: the mean weight is an unbiased estimate of Z, even if the runs miss states, so P(Ẑ > cZ) ≤ 1/c by
        Markov's inequality. This gives a lower end. The upper end is ∞, because the mass of states that no run reached
        is unknown. Reverse: with exact samples of the model, the mean weight is an unbiased estimate of 1/Z. This
        gives an upper end; the lower end is -∞. If the samples miss a mode, the upper end is not valid either.

        The finite end is that of :attr:`conditional_interval`; by Markov's inequality it is at most ln 370 from the
        value.
        """
        low, high = self.conditional_interval
        return (low, math.inf) if self.direction == "forward" else (-math.inf, high)

    @property
    def conditional_interval(self) -> tuple[float, float]:
        """Two-sided interval of ln Z at the level of three standard errors, *if* the runs represent all modes.

        The conditions are that the weights are a representative sample of their distribution and, for the reverse
        direction, that the samples are exact. Infinite if the standard error is.

        The mean weight can be too small because large weights are rare. On that side the width is the larger of two:
        three standard errors with a correction for the skewness of the weights (Johnson 1978), or the cumulant
        expansion ln⟨w⟩ = κ₁ + κ₂/2 + κ₃/6 of the log-weights plus its error. It is infinite if the effective number of
        runs is below one fifth of the runs. On the other side, P(ŵ > c⟨w⟩) ≤ 1/c (Markov) limits the width to ln 370
        at the level of three standard errors.
        """
        if not math.isfinite(self.standard_error):
            return -math.inf, math.inf
        up, down = self._unseen, self._excess
        if self.direction == "forward":
            return self.log_partition - down, self.log_partition + up
        return self.log_partition - up, self.log_partition + down

    @property
    def _excess(self) -> float:
        """The amount by which the logarithm of the mean weight may be too large."""
        spread = 3 * self.standard_error
        return min(_MARKOV, -math.log1p(-spread) if spread < 1 else math.inf)

    @property
    def _unseen(self) -> float:
        """The amount by which the logarithm of the mean weight may be too small because large weights are missing."""
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
        """Reasons to distrust the estimate. An empty tuple does not mean that the estimate is accurate."""
        return self.problems_at(_CARRIED)

    def problems_at(self, share: float) -> tuple[str, ...]:
        """Reasons to distrust the estimate, with ``share`` as the smallest effective sample size per run."""
        runs, ess = len(self.log_weights), self.effective_sample_size
        if self._not_finite:
            return (f"the weights of {self._not_finite} of {runs} runs are not finite",)
        if runs == 1:
            return ("a single run gives no standard error: use more runs",)
        if not ess >= max(5.0, share * runs):
            more = "runs" if runs < 5 else "betas"
            return (f"the effective sample size is only {ess:.1f} of {runs} runs: use more {more}",)
        return ()

    @property
    def _not_finite(self) -> int:
        return int((~torch.isfinite(self.log_weights)).sum())

    def log_likelihood(self, data: Tensor) -> float:
        """Mean of ln p(v) over the rows of ``data``, in nats, with this estimate of ln Z."""
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
    seed: Seed = None,
) -> Estimate:
    """Estimate ln Z by annealed importance sampling from a base machine to ``machine`` (Neal 2001).

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
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> rbm.initialize(weights="normal", scale=0.5, seed=0)
    >>> estimate = hm.likelihood.ais(rbm, betas=200, seed=0)
    >>> low, high = estimate.interval
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
    seed: Seed = None,
) -> Estimate:
    """Estimate ln Z by annealing samples of the model, ``start`` (runs, *visible), back to the base.

    The other arguments are those of :func:`ais`.

    If ``start`` are exact samples of the model, the estimate lies above ln Z on average and likelihoods are
    underestimated. This function cannot check whether they are.
    """
    machine.check_normalizable()
    generator = noise.generator(seed, machine.device)
    end, log_z = _base(machine, base, base_log_partition, generator)
    legs = [leg.reversed() for leg in reversed(_legs([end, *waypoints, machine]))]
    visible = machine.checked_states(start, "start")
    state = _settle_hidden(machine, machine.initial_state(visible, generator), generator)
    weights, _ = _along(legs, state, lambda: state, betas, generator)
    return Estimate(machine, weights, log_z, "reverse", outlying(weights), visible)


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
    spreads: list[Tensor] = []
    _anneal(path, start(), pilot, generator, fast=False, spreads=spreads)
    return equal_spread(pilot, torch.stack(spreads), betas.betas)


def equal_spread(schedule: Sequence[float], spreads: Tensor, steps: int) -> list[float]:
    """Return ``steps`` + 1 values of β that divide the sum of ``spreads`` (len(schedule) - 1,) into equal parts.

    >>> [round(beta, 2) for beta in equal_spread([0.0, 0.5, 1.0], torch.tensor([3.0, 1.0]), 4)]
    [0.0, 0.17, 0.33, 0.5, 1.0]
    """
    floor = 1e-3 * spreads.double().mean() + 1e-12  # keeps steps finite where the spread is zero
    length = torch.cat([torch.zeros(1, dtype=torch.float64), (spreads.double().cpu() + floor.cpu()).cumsum(0)])
    at = torch.linspace(0, 1, steps + 1, dtype=torch.float64) * length[-1]
    values = np.interp(at.numpy(), length.numpy(), np.asarray(schedule))
    values[0], values[-1] = 0.0, 1.0
    return [float(value) for value in values]


def anneal(
    path: Path, state: list[Tensor], schedule: Sequence[float], generator: Generator | None
) -> tuple[Tensor, list[Tensor]]:
    """Anneal states along a path; return the log-weights (runs,) in float64 and the final states.

    Memory does not depend on the number of betas; each beta costs one matrix product up and one down.
    """
    weights, final = _anneal(path, state, schedule, generator, fast=True)
    if not bool(torch.isfinite(weights).all()):  # the fast form of the gain overflows for large steps
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
    """Accumulate ln w = Σ_t ln p*_{t+1}(x_t) - ln p*_t(x_t), with the odd layers summed out (Neal 2001)."""
    state = [x.clone() for x in state]
    weights = torch.zeros(len(state[0]), dtype=torch.float64, device=state[0].device)
    means = {layer: torch.empty_like(state[layer]) for layer in path.odd}
    before = path.at(schedule[0])
    for beta in schedule[1:]:
        now, seen, fields = path.at(beta), path.seen(state), {}
        gain = path.tilt(state) * (beta - before.beta)
        for layer in path.odd:  # the change of log_weight, from fields and means that the sweep uses too
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
