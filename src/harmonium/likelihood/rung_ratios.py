"""ln Z from parallel tempering: the acceptance ratio of neighboring rungs (Bennett 1976)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from .. import noise
from ..allocation import check_memory
from ..checks import count
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..machines.phase_masses import Phases, phases
from ..noise import Seed
from ..sampling import ladder as ladders
from ..sampling.base import base_log_partition, base_machine
from ..sampling.ladder import PathLadder
from ..sampling.path import Path
from ..sampling.tempering import RoundTrips, anywhere, choose_betas
from ..shown import Shown, short
from .data import mean_free_energy

_BURN_IN = 0.25  # share of the sweeps that is not used
_ERRORS = 3  # standard errors of intervals and of accepted differences
_TOLERATED = 0.1  # nats that a difference may have in addition
_LARGEST_ERROR = 0.5  # largest standard error of an estimate that can be trusted, in nats
_LEAST_ACCEPTANCE = 0.01  # of exchanges between neighboring rungs


@dataclass(frozen=True)
class Difference:
    """The difference of two estimates of ln Z from parts of the chains or of the sweeps, and its standard error."""

    value: float
    standard_error: float

    @property
    def significant(self) -> bool:
        """Whether the parts disagree."""
        return not abs(self.value) <= _ERRORS * self.standard_error + _TOLERATED


@dataclass(frozen=True, repr=False)
class TemperedEstimate(Shown):
    """Estimate of ln Z from parallel tempering.

    Attributes:
        machine: the machine.
        log_partition, standard_error: ln Z, and its error from the spread of the independent chains; where the chains
            miss phases, those of the sum over the phases.
        interval: interval of ln Z at the level of three standard errors, if the chains are in equilibrium.
        problems: reasons to distrust the estimate.
        exchanged: ln Z from the exchanges alone.
        starts: ln Z from the chains that started at given states minus that from the others; None without such states.
        halves: ln Z from the second half of the sweeps minus that from the first half.
        round_trips: number of arrivals at the machine after a visit to the base, over all chains.
        acceptance: acceptance rate of the exchanges between neighboring rungs (rungs - 1,).
        betas: inverse temperatures of the rungs.
        samples: last states of the machine, (chains, *visible).
        phases: the phases of the machine, which the samples must have visited.
    """

    machine: BoltzmannMachine
    log_partition: float
    standard_error: float
    interval: tuple[float, float]
    problems: tuple[str, ...]
    exchanged: float
    starts: Difference | None
    halves: Difference
    round_trips: int
    acceptance: Tensor
    betas: tuple[float, ...]
    samples: Tensor
    phases: Phases

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The value of ln Z, its interval, and whether to trust it."""
        low, high = self.interval
        facts = {"ln Z": short(self.log_partition, 6), "interval": f"[{short(low, 6)}, {short(high, 6)}]"}
        trips = f"{self.round_trips} of {len(self.samples)} chains"
        trust = "yes" if self.trustworthy else f"no: {'; '.join(self.problems)}"
        return "TemperedEstimate", {**facts, "round trips": trips, "trustworthy": trust}

    @property
    def trustworthy(self) -> bool:
        """Whether ``problems`` is empty."""
        return not self.problems

    def log_likelihood(self, data: Tensor) -> float:
        """Mean of ln p(v) over the rows of ``data``, in nats, with this estimate of ln Z."""
        return -mean_free_energy(self.machine, data) - self.log_partition


@torch.no_grad()
def tempered(
    machine: BoltzmannMachine,
    *,
    start: ArrayLike | None = None,
    chains: int = 100,
    sweeps: int = 1000,
    betas: Sequence[float] | int | None = None,
    base: BoltzmannMachine | ArrayLike | None = None,
    seed: Seed = None,
) -> TemperedEstimate:
    """Estimate ln Z from the exchanges of parallel tempering (Bennett 1976).

    The weights of a state with the parameters of two neighboring rungs, which decide about an exchange, also give the
    ratio of their partition functions. If the chains mix, the error is much smaller than that of annealing of the same
    cost, because every sweep counts. Unlike annealing it gives no bound: before equilibrium it may be wrong in both
    directions. The estimate is therefore compared between chains that start at ``start`` and others, and between the
    two halves of the sweeps. Chains that all miss the same states agree with each other, so the samples must also have
    visited the phases of the machine (:func:`harmonium.sampling.phases`). If they have not, the sum over the phases
    replaces the estimate where it is precise; it also overrides other problems of an estimate with which it agrees.

    Args:
        machine: machine with a finite partition function.
        start: initial visible states (n, *visible) of every second chain, such as rows of the data. The other chains,
            by default all, start at independent units.
        chains: number of independent copies of the ladder, at least 4.
        sweeps: number of sweeps, each followed by a round of exchanges; a quarter of them is discarded.
        betas: inverse temperatures of the rungs, their number, or None to choose both from trial runs.
        base: bottom rung: data whose single-site statistics it matches, a machine whose ln Z can be computed, or by
            default a machine without biases and couplings.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> rbm.initialize(weights="normal", scale=0.5, seed=0)
    >>> found = hm.likelihood.tempered(rbm, sweeps=200, betas=4, seed=0)
    >>> found.trustworthy, abs(found.log_partition - rbm.log_partition()) < 0.02
    (True, True)
    """
    if count("chains", chains) < 4 or count("sweeps", sweeps) < 16:
        raise InvalidOption(f"expected chains ≥ 4 and sweeps ≥ 16, found chains={chains}, sweeps={sweeps}")
    machine.check_normalizable()
    generator = noise.generator(seed, machine.device)
    path = Path(machine, base_machine(machine, base))
    return along(path, chains, sweeps, betas=betas, start=start, generator=generator)


@torch.no_grad()
def along(
    path: Path,
    chains: int,
    sweeps: int,
    *,
    betas: Sequence[float] | int | None = None,
    start: ArrayLike | None = None,
    check: Phases | None = None,
    generator: Generator | None = None,
) -> TemperedEstimate:
    """The estimate of :func:`tempered` along a path; ``check`` are the phases of its target, if they are known."""
    machine = path.target
    if betas is None or isinstance(betas, int):
        betas = choose_betas(path, rungs=betas, generator=generator)
    ladder = PathLadder(path, betas)
    if betas[0] != 0 or betas[-1] != 1:
        raise InvalidOption(f"betas: expected increasing values from 0 to 1, found {list(betas)}")
    size = 4 * sweeps * ladder.size * chains
    check_memory(f"sweeps: {sweeps} of {chains} chains", size, "use fewer")
    visible = anywhere(ladder, chains, generator)
    if start is not None:
        visible[:, ::2] = machine.checked_states(start, "start", len(range(0, chains, 2)))
    run = _Run(ladder, visible, sweeps, generator)
    check = phases(machine, seed=generator) if check is None else check
    return run.estimate(base_log_partition(path.base), start is not None, check)


class _Run:
    """A run of parallel tempering that keeps the gains of its exchanges."""

    def __init__(self, ladder: PathLadder, visible: Tensor, sweeps: int, generator: Generator | None) -> None:
        self.ladder, discarded = ladder, math.ceil(_BURN_IN * sweeps)
        state = ladders.start(ladder, visible, generator)
        trips, gains = RoundTrips(state), []
        for step in range(sweeps):
            state = ladders.sweep(ladder, state, generator)
            state, info = ladders.exchange(ladder, state, generator)
            trips.update(state)
            if step >= discarded:
                gains.append(info.gain.float().cpu())
        self.first = discarded % 2  # the parity of the pairs of the first sweep that is kept
        self.gains = torch.stack(gains)  # (sweeps, rungs, chains)
        self.samples, self.round_trips = state.layers[0][-1], trips.count

    def estimate(self, base: float, two_starts: bool, check: Phases) -> TemperedEstimate:
        """The estimate from the gains and ln Z of the base."""
        total, acceptance = base, []
        # to first order, the estimate from some of the chains has the mean of their influences in addition
        influence, drift = torch.zeros(2, self.gains.shape[2], dtype=torch.float64)
        for pair in range(self.ladder.size - 1):
            tried = self.gains[(pair - self.first) % 2 :: 2].double()
            up, down = tried[:, pair], tried[:, pair + 1]
            ratio = acceptance_ratio(up, down)
            p, q = torch.sigmoid(up - ratio), torch.sigmoid(down + ratio)
            slope = (p * (1 - p) + q * (1 - q)).mean()
            early = len(tried) // 2
            total += ratio
            influence += (p - q).mean(0) / slope
            drift += ((p - q)[early:].mean(0) - (p - q)[:early].mean(0)) / slope
            acceptance.append((up + down).clamp(max=0).exp().mean())
        half = influence[::2], influence[1::2]
        starts = Difference((half[0].mean() - half[1].mean()).item(), math.hypot(*(_error(part) for part in half)))
        halves = Difference(drift.mean().item(), _error(drift))
        error, rates = _error(influence), torch.stack(acceptance)
        problems = self._problems(error, rates, starts if two_starts else None, halves)
        interval = total - _ERRORS * error, total + _ERRORS * error
        found = check.verdict(total, interval, problems, check.missed(total, self.samples))
        return TemperedEstimate(
            self.ladder.top,
            found.log_partition,
            error if found.log_partition == total else check.standard_error,
            found.interval,
            found.problems,
            total,
            starts if two_starts else None,
            halves,
            self.round_trips,
            rates,
            tuple(self.ladder.betas.tolist()),
            self.samples,
            check,
        )

    def _problems(self, error: float, acceptance: Tensor, starts: Difference | None, halves: Difference) -> list[str]:
        """Reasons to distrust the estimate that the chains themselves show."""
        found, chains = [], len(self.samples)
        if not error <= _LARGEST_ERROR:
            found.append(f"the standard error is {error:.2f} nats: use more sweeps")
        if not acceptance.min() >= _LEAST_ACCEPTANCE:
            found.append(f"exchanges of two rungs are accepted with a rate of {acceptance.min():.3f}: use more betas")
        if self.round_trips < chains:
            found.append(f"the chains did not mix: {self.round_trips} round trips for {chains} chains")
        parts = {"the two halves of the sweeps": halves, "chains from different initial states": starts}
        for what, part in parts.items():
            if part is not None and part.significant:
                apart = f"{part.value:+.2f} ± {part.standard_error:.2f} nats"
                found.append(f"{what} differ by {apart}: the chains are not in equilibrium")
        return found


def _error(values: Tensor) -> float:
    """The standard error of the mean of independent values."""
    error = (values.std() / math.sqrt(len(values))).item()
    return error if math.isfinite(error) else math.inf


def acceptance_ratio(up: Tensor, down: Tensor) -> float:
    """ln Z₁/Z₀ from ``up`` = ln w₁(x)/w₀(x) of states x of p₀ and ``down`` = ln w₀(x)/w₁(x) of states of p₁.

    The ratio r with Σ σ(up - r) = Σ σ(down + r), where σ is the logistic function, has the smallest error of all that
    use equally many states of both (Bennett 1976).

    >>> acceptance_ratio(torch.tensor([0.5, 0.5]), torch.tensor([-0.5, -0.5]))
    0.5
    """
    low = min(up.min().item(), -down.max().item())
    high = max(up.max().item(), -down.min().item())
    if not math.isfinite(high - low):
        return math.nan
    while high - low > 1e-9 * max(1.0, abs(low), abs(high)):
        middle = (low + high) / 2
        if torch.sigmoid(up - middle).sum() > torch.sigmoid(down + middle).sum():
            low = middle
        else:
            high = middle
    return (low + high) / 2
