"""The likelihood of a deep machine, or a bound of it, from both sides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ... import likelihood, meanfield
from ...likelihood.ais import Temperatures
from ...machines import RBM, BoltzmannMachine
from ...sampling import parallel_tempering

_CHUNK = 1000
_LEAST_CARRIED = 0.1  # of the runs, for each direction
_LARGEST_GAP = 1.0  # nats between them
_STEPS = 30  # of undamped mean field, each of which can only raise the bound


@torch.no_grad()
def mean_bound(machine: BoltzmannMachine, rows: Tensor) -> float:
    """A lower bound of the mean of ln p*(v) over ``rows`` (n, *visible), ln p(v) + ln Z: exact for an RBM.

    For a deep machine it is that of naive mean field of the hidden layers, whatever the mean field has reached.

    >>> import harmonium as hm
    >>> deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(3), hm.units.Bernoulli(2), hm.units.Bernoulli(1)])
    >>> round(mean_bound(deep, torch.zeros(5, 3)), 6)  # nothing is coupled: 3 ln 2
    2.079442
    """
    if isinstance(machine, RBM):
        return -likelihood.data.mean_free_energy(machine, rows)
    total = 0.0
    for part in rows.split(_CHUNK):
        total -= meanfield.naive(machine, clamped=part, damping=0.0, steps=_STEPS).free_energy.double().sum().item()
    return total / len(rows)


@dataclass(frozen=True)
class Bracket:
    """The mean log-likelihood of some rows, or a lower bound of it: with ln Z from below, and from above."""

    forward: likelihood.Estimate
    reverse: likelihood.Estimate
    bound: float
    round_trips: int

    @property
    def high(self) -> float:
        """With ln Z of the forward annealing, which errs towards the good side."""
        return self.bound - self.forward.value

    @property
    def low(self) -> float:
        """With ln Z of the reverse annealing, which errs towards the bad side."""
        return self.bound - self.reverse.value

    @property
    def interval(self) -> tuple[float, float]:
        """From the lower end with reverse to the upper end with forward, towards which neither errs but by chance."""
        return self.bound - self.reverse.interval[1], self.bound - self.forward.interval[0]

    @property
    def effective(self) -> tuple[float, float]:
        """How many of the runs carry each direction."""
        return self.forward.effective_sample_size, self.reverse.effective_sample_size

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons not to believe the numbers, those of :func:`harmonium.likelihood.estimate`."""
        runs = len(self.reverse.log_weights)
        found = [f"forward: {problem}" for problem in self.forward.problems_at(_LEAST_CARRIED)]
        found += [f"reverse: {problem}" for problem in self.reverse.problems_at(_LEAST_CARRIED)]
        if self.round_trips < runs:
            found.append(f"the samples have hardly mixed: {self.round_trips} round trips of {runs} chains")
        if abs(self.high - self.low) > _LARGEST_GAP:
            found.append(f"the two directions are {self.high - self.low:.2f} nats apart")
        return tuple(found)

    @property
    def trustworthy(self) -> bool:
        """Whether nothing speaks against the numbers."""
        return not self.problems

    def __str__(self) -> str:
        sizes = f"effective runs {self.effective[0]:.0f} and {self.effective[1]:.0f} of {len(self.forward.log_weights)}"
        return f"{self.high:.2f} forward, {self.low:.2f} reverse ({sizes})"


@torch.no_grad()
def bracket(
    machine: BoltzmannMachine,
    rows: Tensor,
    base: Tensor,
    *,
    runs: int = 100,
    temperatures: Temperatures = 10_000,
    sampling_steps: int = 500,
    seed: int = 0,
) -> Bracket:
    """Annealing in both directions between the single-site statistics of ``base`` (m, *visible) and the machine.

    The reverse direction starts at samples of parallel tempering along the same path.
    """
    tempered = parallel_tempering(machine, runs, steps=sampling_steps, base=base, seed=seed)
    forward = likelihood.ais(machine, runs=runs, temperatures=temperatures, base=base, seed=seed + 1)
    reverse = likelihood.reverse_ais(machine, tempered.samples, temperatures=temperatures, base=base, seed=seed + 2)
    value = mean_bound(machine, rows)
    return Bracket(forward, reverse, value if math.isfinite(value) else -math.inf, tempered.round_trips)
