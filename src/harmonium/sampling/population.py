"""Annealed populations: states carried together from an easy machine to the one of interest, with or without selection.

Population annealing after Hukushima & Iba (2003) and Machta (2010); as a sequential Monte Carlo sampler its estimate of
Z is unbiased for any number of states, temperatures and sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..units.base import per_row
from .path import Path, betas, draws, free, independent, uncoupled_log_partition

_OVERLAP = 0.9  # the effective share of a population after one step of a chosen schedule
_PILOT = 500  # states at most that choose a schedule
_MOST_TEMPERATURES = 10_000
_HALVINGS = 30  # of the whole path until the shortest step


@dataclass(frozen=True)
class Population:
    """What became of ``n`` starting states, each the founder of a *family* (its descendants by selection).

    ``state``: the last states of all layers, (n, *shape) each. ``log_weights`` (n,): of these states; all equal where
    selection came last. ``families`` (n,): the founder of each state. ``shares`` (n,): the part of the weight that each
    founder's family had before the last selection. ``log_partition``: the estimate of ln Z. ``resampled``: how often
    there was selection.
    """

    state: list[Tensor]
    log_weights: Tensor
    families: Tensor
    shares: Tensor
    log_partition: float
    betas: tuple[float, ...]
    resampled: int

    @property
    def samples(self) -> Tensor:
        """The visible states (n, *visible); to be averaged with ``log_weights``."""
        return self.state[0]

    @property
    def mean_square_family_size(self) -> float:
        """ρ_t = n Σ shares²: one while every founder counts alike, n when one family has taken all."""
        return len(self.shares) * self.shares.square().sum().item()

    @property
    def effective_families(self) -> float:
        """n/ρ_t: how many independent runs carry the result; without selection the effective sample size."""
        return len(self.shares) / self.mean_square_family_size

    @property
    def surviving_families(self) -> int:
        """How many founders have a descendant."""
        return int((self.shares > 0).sum())

    @property
    def standard_error(self) -> float:
        """Of ln Z, √((ρ_t - 1)/(n - 1)): the families are independent runs, their shares the weights of these.

        Selection between fine steps adds to the differences between families what it does not add to ln Z, so that
        the error is then rather too large.
        """
        n = len(self.shares)
        return math.sqrt(max(self.mean_square_family_size - 1, 0.0) / (n - 1)) if n > 1 else math.inf

    @property
    def collapsed(self) -> bool:
        """Whether so few families are left that the population is hardly better than a few runs."""
        return not self.effective_families >= max(5.0, min(100.0, 0.1 * len(self.shares)))

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons not to believe the result."""
        if not math.isfinite(self.log_partition):
            return ("the weights are not finite numbers",)
        if self.collapsed:
            return (
                f"{self.effective_families:.1f} of {len(self.shares)} families carry the population: "
                "use more temperatures, sweeps or states",
            )
        return ()

    @property
    def trustworthy(self) -> bool:
        """Whether nothing speaks against the result."""
        return not self.problems

    def mean(self, values: Tensor) -> Tensor:
        """The weighted mean of something known of every state: (n, ...) -> (...)."""
        return torch.tensordot(torch.softmax(self.log_weights, 0).to(values.dtype), values, 1)


@torch.no_grad()
def population_annealing(
    machine: BoltzmannMachine,
    n: int = 1000,
    *,
    steps: int = 1,
    temperatures: int | Sequence[float] | None = None,
    base: BoltzmannMachine | ArrayLike | None = None,
    threshold: float = 0.5,
    seed: int | None = None,
    generator: Generator | None = None,
) -> Population:
    """``n`` samples of the machine, equally weighted, and its ln Z, by annealing with selection.

    Wherever the weights gathered since the last selection have an effective number below ``threshold`` · n, and at
    the end, states are copied or dropped in proportion to them (systematically: a state of weight w has ⌊nw⌋ or ⌈nw⌉
    copies).

    Args:
        steps: Gibbs sweeps at each temperature.
        temperatures: the number of equal steps of β from 0 to 1, the values themselves, or ``None`` to choose them by a
            smaller population with random numbers of its own, so that an effective 90 % survive each step.
        base: data whose single-site statistics the first states have, an uncoupled machine on the same units, or by
            default free units.
        threshold: 1 selects at every temperature, 0 only at the end.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> rbm.initialise(scale=0.8, seed=0)
    >>> population = hm.sampling.population_annealing(rbm, 2000, temperatures=10, seed=0)
    >>> population.samples.shape, population.trustworthy
    (torch.Size([2000, 5]), True)
    >>> abs(population.log_partition - rbm.log_partition()) < 4 * population.standard_error
    True
    """
    if not 0 <= threshold <= 1:
        raise InvalidOption(f"threshold: expected a share between 0 and 1, found {threshold}")
    return _run(machine, n, steps, temperatures, base, threshold, seed, generator)


@torch.no_grad()
def annealed(
    machine: BoltzmannMachine,
    n: int = 1000,
    *,
    steps: int = 1,
    temperatures: int | Sequence[float] | None = None,
    base: BoltzmannMachine | ArrayLike | None = None,
    seed: int | None = None,
    generator: Generator | None = None,
) -> Population:
    """``n`` independent annealed states with their ``log_weights``: :func:`population_annealing` without selection.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> population = hm.sampling.annealed(rbm, 100, temperatures=10, seed=0)
    >>> population.mean(population.samples).shape, population.surviving_families
    (torch.Size([5]), 100)
    """
    return _run(machine, n, steps, temperatures, base, None, seed, generator)


def _run(
    machine: BoltzmannMachine,
    n: int,
    steps: int,
    temperatures: int | Sequence[float] | None,
    base: BoltzmannMachine | ArrayLike | None,
    threshold: float | None,
    seed: int | None,
    generator: Generator | None,
) -> Population:
    if steps < 1 or n < 1:
        raise InvalidOption(f"expected steps ≥ 1 and n ≥ 1, found steps={steps}, n={n}")
    machine.check_normalisable()
    generator = noise.generator(seed, machine.device) if generator is None else generator
    path = Path(machine, _base(machine, base))
    schedule = _choose(path, min(n, _PILOT), steps, generator) if temperatures is None else betas(temperatures)
    return _anneal(path, schedule, n, steps, threshold, generator)


def _anneal(
    path: Path, schedule: Sequence[float], n: int, steps: int, threshold: float | None, generator: Generator | None
) -> Population:
    state = draws(path.base, n, generator)
    log_z = uncoupled_log_partition(path.base)
    log_w = torch.zeros(n, dtype=torch.float64, device=path.target.device)
    families = torch.arange(n, device=log_w.device)
    shares = torch.full_like(log_w, 1 / n)
    resampled = 0
    for before, beta in pairwise(schedule):
        log_w = log_w + _gain(path, state, before)(beta)
        last = beta == schedule[-1]
        if last:
            shares = torch.zeros_like(log_w).index_add_(0, families, torch.softmax(log_w, 0))
        if threshold is not None and (effective(log_w) < threshold * n or last):
            chosen = resample(log_w, generator)
            state, families = [x[chosen] for x in state], families[chosen]
            log_z += _log_mean(log_w)
            log_w = torch.zeros_like(log_w)
            resampled += 1
        state = _sweeps(path, state, beta, steps, generator)
    return Population(state, log_w, families, shares, log_z + _log_mean(log_w), tuple(schedule), resampled)


def resample(log_weights: Tensor, generator: Generator | None = None) -> Tensor:
    """Which states are kept, (n,), each as often as its weight asks for: ⌊nw⌋ or ⌈nw⌉ times, nw in the mean.

    >>> resample(torch.tensor([0.5, 0.25, 0.25, 1e-9], dtype=torch.float64).log(), torch.Generator().manual_seed(0))
    tensor([0, 0, 1, 2])
    """
    n = len(log_weights)
    ends = torch.softmax(log_weights, 0).cumsum(0)
    one = noise.uniform(ends[:1], generator)
    return torch.searchsorted(ends, (one + torch.arange(n, device=ends.device)) / n).clamp_max(n - 1)


def effective(log_weights: Tensor) -> float:
    """(Σw)²/Σw²: how many equally weighted states would be worth as much."""
    return 1 / torch.softmax(log_weights, 0).square().sum().item()


def _log_mean(log_weights: Tensor) -> float:
    return torch.logsumexp(log_weights, 0).item() - math.log(len(log_weights))


def _gain(path: Path, state: list[Tensor], before: float) -> Callable[[float], Tensor]:
    """ln w_β - ln w_before of the kept layers as a function of β: (n,) in float64; fields are computed once."""
    tilt = path.tilt(state).double()
    seen = {layer: path.responses(layer, state).map(Tensor.double) for layer in path.odd}

    def total(beta: float) -> Tensor:
        value = tilt * beta
        for layer, responses in seen.items():
            value = value + per_row(path.unit(layer, beta).log_partition(path.field(responses, beta)))
        return value

    start = total(before)
    return lambda beta: total(beta) - start


def _sweeps(path: Path, state: list[Tensor], beta: float, steps: int, generator: Generator | None) -> list[Tensor]:
    """Gibbs sweeps at β: odd layers, then even ones."""
    state = list(state)
    units = [path.unit(layer, beta) for layer in range(len(state))]
    for _ in range(steps):
        for layer in (*path.odd, *path.even):
            field = path.field(path.responses(layer, state), beta, last=True)
            state[layer] = units[layer].sample(field, generator=generator)
    return state


def _choose(path: Path, n: int, steps: int, generator: Generator | None) -> list[float]:
    """β such that each step leaves a share of a trial population effective."""
    state, schedule = draws(path.base, n, generator), [0.0]
    while schedule[-1] < 1:
        before = schedule[-1]
        gain = _gain(path, state, before)
        beta = _largest(lambda beta, gain=gain: effective(gain(beta)) >= _OVERLAP * n, before)  # type: ignore[misc]
        if len(schedule) == _MOST_TEMPERATURES:
            raise InvalidOption(
                f"temperatures: {_MOST_TEMPERATURES} chosen ones reach β = {beta:.3g} only; give their number"
            )
        chosen = resample(gain(beta), generator)
        state = _sweeps(path, [x[chosen] for x in state], beta, steps, generator)
        schedule.append(beta)
    return schedule


def _largest(allowed: Callable[[float], bool], before: float) -> float:
    """The largest β above ``before``, to about 1 % of the step, that is allowed."""
    if allowed(1.0):
        return 1.0
    low, high = before, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
        if high - low < 0.01 * (high - before):
            break
    return high


def _base(machine: BoltzmannMachine, base: BoltzmannMachine | ArrayLike | None) -> BoltzmannMachine:
    if base is None:
        return free(machine)
    if not isinstance(base, BoltzmannMachine):
        return independent(machine, base)
    if any(bool(coupling.weight.any()) for coupling in base.links):
        raise InvalidOption("base: expected data or a machine without couplings, whose states can be drawn exactly")
    return base
