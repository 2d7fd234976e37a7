"""The likelihood from both sides, with a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import NotEnumerable
from ..machines import RBM, BoltzmannMachine, enumeration
from ..sampling import parallel_tempering, trajectory_tempering
from ..sampling.path import betas, independent
from .ais import Adaptive, Estimate, Temperatures, ais, reverse_ais
from .data import checked_rows, mean_free_energy_bound

_EXACT_STATES = 2**20
_CHECK_SHARE = 5  # the cross-check takes one in so many of the temperatures
_LARGEST_EXCESS = 0.5  # nats, beside three standard errors, by which the cross-check may lie above
_LEAST_CARRIED = 0.1  # of the runs for each direction; less than for one alone, as the other one stands against it
_LARGEST_GAP = 1.0  # nats between the two directions that still count as agreement


@dataclass(frozen=True)
class TwoSided:
    """The mean log-likelihood of some data, bracketed: ``forward`` errs to the good side, ``reverse`` to the bad one.

    All numbers are nats per row of the data. ``exact`` is there where the machine can be enumerated. With ``bound`` the
    free energy of the data is only known from above, and every number is a lower bound of the likelihood: with ln Z
    from below, from above, or exact. ``round_trips`` are those of the tempering behind the reverse direction.
    """

    forward: Estimate
    reverse: Estimate
    mean_free_energy: float
    rows: int
    exact: float | None
    problems: tuple[str, ...]
    bound: bool = False
    round_trips: int | None = None

    @property
    def value(self) -> float:
        """The log-likelihood: exact where that is known, else half way between the two directions."""
        return self.annealed if self.exact is None else self.exact

    @property
    def annealed(self) -> float:
        """Half way between the two directions."""
        return (self.from_forward + self.from_reverse) / 2

    @property
    def log_partition(self) -> float:
        """ln Z, for the likelihood of other data."""
        return -self.mean_free_energy - self.value

    @property
    def from_forward(self) -> float:
        """With the forward estimate of ln Z: in the mean too good."""
        return -self.mean_free_energy - self.forward.value

    @property
    def from_reverse(self) -> float:
        """With the reverse estimate of ln Z: in the mean too bad."""
        return -self.mean_free_energy - self.reverse.value

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
        """From the lower end of the reverse estimate to the upper end of the forward one.

        These are the ends towards which each direction does not err but by chance; the other two are not needed.
        """
        log_z = self.forward.interval[0], self.reverse.interval[1]
        return -self.mean_free_energy - max(log_z), -self.mean_free_energy - min(log_z)

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
    temperatures: Temperatures = 10_000,
    waypoints: Sequence[BoltzmannMachine] = (),
    samples: Tensor | None = None,
    sampling_steps: int = 1000,
    seed: int | None = 0,
) -> TwoSided:
    """The mean log-likelihood of ``data`` (n, *visible) by annealing in both directions, and whether to trust it.

    For a deep machine it is a lower bound, by mean field of the hidden layers.

    The annealing starts from the single-site statistics of ``base`` (m, *visible), by default those of the data. The
    reverse direction starts at ``samples`` of the model, by default from parallel tempering, whose ladder has to carry
    states from end to end. Data and samples that know one part of the states only agree with each other; a shorter
    forward annealing from free units looks elsewhere, and as none of them exceeds ln Z but by chance, a higher value
    there proves the first one wrong.

    With ``waypoints``, earlier machines of the same run from early to late, the annealing follows the run, and the
    samples come from trajectory tempering along it. That pays where learning was slow and smooth; checkpoints from a
    time of large steps make the way longer.

    >>> import harmonium as hm
    >>> data = hm.data.load("digits", binarise="threshold")
    >>> rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(8))
    >>> _ = hm.fit(rbm, data, epochs=3, seed=0, progress=False)
    >>> result = hm.likelihood.estimate(rbm, data, temperatures=500, sampling_steps=100)
    >>> result.trustworthy, abs(result.gap) < 0.5
    (True, True)
    """
    data = checked_rows(machine, data)
    base = data if base is None else checked_rows(machine, base)
    seeds = [None if seed is None else seed + k for k in range(4)]
    problems: list[str] = []
    round_trips = None
    if samples is None:
        if waypoints:
            start = independent(machine, base)
            ladder = [start, *waypoints, machine]
            tempered = trajectory_tempering(ladder, runs, steps=sampling_steps, seed=seeds[0])
        else:
            tempered = parallel_tempering(machine, runs, steps=sampling_steps, base=base, seed=seeds[0])
        samples, round_trips = tempered.samples, tempered.round_trips
        if round_trips < runs:
            problems.append(
                f"the samples behind the reverse estimate have hardly mixed: {round_trips} round trips of {runs} chains"
            )
    options: dict[str, Any] = {"temperatures": temperatures, "base": base, "waypoints": waypoints}
    forward = ais(machine, runs=runs, seed=seeds[1], **options)
    reverse = reverse_ais(machine, samples, seed=seeds[2], **options)
    elsewhere = ais(machine, runs=runs, temperatures=_fewer(temperatures), seed=seeds[3])
    free_energy = mean_free_energy_bound(machine, data)
    problems += [f"forward: {problem}" for problem in forward.problems_at(_LEAST_CARRIED)]
    problems += [f"reverse: {problem}" for problem in reverse.problems_at(_LEAST_CARRIED)]
    if not math.isfinite(free_energy):
        problems.append(f"the mean free energy of the data is {free_energy}")
    gap = reverse.value - forward.value
    spread = 3 * (forward.standard_error + reverse.standard_error)
    if abs(gap) > _LARGEST_GAP:
        problems.append(f"the two directions are {gap:.2f} nats apart: the truth is somewhere between")
    elif gap < -spread:
        problems.append(f"reverse lies {-gap:.2f} nats below forward: its samples are not the model's")
    excess = elsewhere.value - forward.value
    if excess > 3 * math.hypot(forward.standard_error, elsewhere.standard_error) + _LARGEST_EXCESS:
        problems.append(
            f"ln Z annealed from free units is {excess:.2f} nats larger: the annealing from the data misses states"
        )
    exact = _exact(machine, free_energy)
    bound = not isinstance(machine, RBM)
    return TwoSided(forward, reverse, free_energy, len(data), exact, tuple(problems), bound, round_trips)


def _fewer(temperatures: Temperatures) -> Temperatures:
    """The schedule of the cross-check."""
    if isinstance(temperatures, Adaptive):
        return replace(temperatures, steps=max(1, temperatures.steps // _CHECK_SHARE))
    if isinstance(temperatures, int):
        return max(1, temperatures // _CHECK_SHARE)
    return [*betas(temperatures)[:-1:_CHECK_SHARE], 1.0]


def _exact(machine: BoltzmannMachine, free_energy: float) -> float | None:
    try:
        _, states = enumeration.cheaper_parity(machine)
    except NotEnumerable:
        return None
    return -free_energy - machine.log_partition() if states <= _EXACT_STATES else None
