"""Population annealing: states annealed together from a base to the target machine, with or without resampling.

The algorithm is that of Hukushima & Iba (2003) and Machta (2010). It is a sequential Monte Carlo sampler, so its
estimate of Z is unbiased for any number of states, betas and sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypedDict

import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..machines.kernel import log_partitions, sweep
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


@brief
@dataclass(frozen=True)
class Population:
    """The result of annealing ``n`` initial states. The descendants of an initial state are its *family*.

    :func:`harmonium.likelihood.population` judges it: the estimate of Z is unbiased, so ln Z is underestimated on
    average, and by a large amount if all populations miss the same modes.

    Attributes:
        state: the last states of all layers, (n, *shape) each.
        log_weights: log-weights of these states (n,); all equal if resampling was the last step.
        families: index of the initial state from which each state descends (n,).
        shares: fraction of the total weight of each family before the last resampling (n,).
        betas: inverse temperatures.
        resampled: number of resampling steps.
        log_partitions: estimates of ln Z of the independent populations; the mean of their Z is the estimate of Z.
            Without resampling, one for each state.
    """

    state: list[Tensor]
    log_weights: Tensor
    families: Tensor
    shares: Tensor
    betas: tuple[float, ...]
    resampled: int
    log_partitions: Tensor

    @property
    def samples(self) -> Tensor:
        """The visible states (n, *visible), to be weighted by ``log_weights``."""
        return self.state[0]

    def mean(self, values: Tensor) -> Tensor:
        """The weighted mean of ``values`` over the states: (n, ...) -> (...)."""
        return torch.tensordot(torch.softmax(self.log_weights, 0).to(values.dtype), values, 1)


class Options(TypedDict, total=False):
    """Some keyword arguments of :func:`population_annealing`, which documents them."""

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
    threshold: float | None = 0.5,
    populations: int | None = None,
    seed: Seed = None,
) -> Population:
    """Draw ``n`` equally weighted samples by population annealing.

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
        threshold: effective fraction below which states are resampled; 1: at every β, 0: only at the end, None: never,
            so that the samples have weights.
        populations: number of independent populations; by default 10, or fewer so that each has at least 50 states.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> rbm.initialize(scale=0.8, seed=0)
    >>> population = hm.sampling.population_annealing(rbm, 2000, betas=10, seed=0)
    >>> population.samples.shape
    torch.Size([2000, 5])
    """
    if threshold is not None and not 0 <= threshold <= 1:
        raise InvalidOption(f"threshold: expected a number between 0 and 1, found {threshold}")
    n = count("n", n)
    if threshold is None:
        populations = 1
    elif populations is None:
        populations = min(_POPULATIONS, max(1, n // _SMALLEST))
    elif not 1 <= populations <= max(n, 1):
        raise InvalidOption(f"populations: expected 1 to n = {n}, found {populations}")
    return _run(machine, n, sweeps, betas, base, threshold, seed, populations)


def _run(
    machine: BoltzmannMachine,
    n: int,
    sweeps: int,
    betas: int | Sequence[float] | None,
    base: BoltzmannMachine | ArrayLike | None,
    threshold: float | None,
    seed: Seed,
    populations: int,
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
    return Population(state, log_w, families, shares, tuple(schedule), resampled, each)


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
