"""ln Z by enumeration, by population annealing, and from the exchanges of parallel tempering (Bennett 1976)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack, overload

import torch
from torch import Generator, Tensor

from .. import noise
from ..allocation import check_memory
from ..checks import count
from ..errors import InvalidOption
from ..estimates import Estimate, mean_of
from ..machines import BoltzmannMachine, Machine
from ..machines.chain import ArrayLike
from ..machines.phase_masses import Phases, phases
from ..noise import Seed
from ..sampling import ladder as ladders
from ..sampling.base import base_log_partition, base_machine
from ..sampling.ladder import PathLadder
from ..sampling.path import Path
from ..sampling.population import Options, Population, population_annealing
from ..sampling.tempering import RoundTrips, anywhere, choose_betas
from . import documents
from .results import LogLikelihood, LogPartition, judge
from .weights import Weights

_BURN_IN = 0.25  # share of the sweeps that is not used
_ERRORS = 3  # standard errors of intervals and of accepted differences
_TOLERATED = 0.1  # nats that a difference may have in addition
_LARGEST_ERROR = 0.5  # largest standard error of an estimate that can be trusted, in nats
_LEAST_ACCEPTANCE = 0.01  # of exchanges between neighboring rungs
_PARTS = {"halves": "the two halves of the sweeps", "starts": "chains from different initial states"}


@overload
def exact(machine: Machine) -> LogPartition: ...
@overload
def exact(machine: Machine, data: ArrayLike, *, mask: ArrayLike | None = None) -> LogLikelihood: ...


def exact(
    machine: Machine, data: ArrayLike | None = None, *, mask: ArrayLike | None = None
) -> LogPartition | LogLikelihood:
    """Compute ln Z by enumeration of the smaller side, or the log-likelihood of ``data`` with it.

    Documents of different lengths, and users who rate different items, have a ln Z of their own each, so that only the
    log-likelihood of data is defined. That of documents is for sequences of words (:func:`estimate`).

    Args:
        machine: a machine with few states; for a deep belief network, ln Z is that of its top machine.
        data: rows (n, *visible).
        mask: boolean, ``True`` for observed units (:meth:`LogPartition.log_likelihood`).

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> round(hm.likelihood.exact(rbm).value, 6), round(hm.likelihood.exact(rbm, torch.zeros(2, 3)).value, 6)
    (3.465736, -2.079442)
    """
    if data is not None and machine.visible.conserves:
        return documents.exact(machine.machines[-1], data)
    value = machine.machines[-1].log_partition()
    found = LogPartition(
        machine=machine, value=value, standard_error=0.0, interval=(value, value), method="enumeration"
    )
    return found if data is None else found.log_likelihood(data, mask=mask)


# -- population annealing ----------------------------------------------------------------------------------------------


def population(
    machine: BoltzmannMachine,
    n: int = 1000,
    *,
    threshold: float | None = 0.5,
    populations: int | None = None,
    **options: Unpack[Options],
) -> LogPartition:
    """Estimate ln Z by population annealing (Hukushima & Iba 2003, Machta 2010).

    The arguments are those of :func:`harmonium.sampling.population_annealing`, whose states are the ``samples``. The
    estimate of Z is unbiased, so ``interval`` has no upper end. ``details`` has the ``conditional_interval``, with both
    ends, if the populations have found all relevant modes, the ``weights`` of the independent populations
    (:class:`harmonium.likelihood.weights.Weights`), and the ``draws``. All populations miss the same phases, so the
    standard error and the conditional interval include the nats that they ``missed``.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Bernoulli(3))
    >>> rbm.initialize(scale=0.8, seed=0)
    >>> found = hm.likelihood.population(rbm, 2000, betas=10, seed=0)
    >>> low, high = found.details["conditional_interval"]
    >>> low < rbm.log_partition() < high, found.problems
    (True, ())
    """
    options["seed"] = noise.generator(options.get("seed"), machine.device)
    draws = population_annealing(machine, n, threshold=threshold, populations=populations, **options)
    return from_population(machine, draws, phases(machine, seed=options["seed"]))


def from_population(machine: BoltzmannMachine, draws: Population, check: Phases) -> LogPartition:
    """The estimate of ln Z from the states of a population annealing, compared with the phases of the machine."""
    weights = Weights(draws.log_partitions, draws.shares)
    value, ends, n = weights.log_mean.item(), [end.item() for end in weights.interval], len(weights)
    missed = 0.0
    if math.isfinite(value):
        missed = check.missed(value, draws.samples, draws.log_weights, weights.effective_families)
    # a few populations tell their spread with an error of its own: the variance of Student's t distribution
    error = weights.standard_error.item() * (math.sqrt((n - 1) / (n - 3)) if n > 3 else 1.0)
    found = LogPartition(
        machine=machine,
        value=value,
        standard_error=math.hypot(error, missed),
        interval=(ends[0], ends[1]),
        method="population",
        problems=weights.problems(),
        samples=(draws.samples, draws.log_weights),
        details={"weights": weights, "draws": draws},
    )
    found = judge(found, check, missed, repair=False)
    details = {**found.details, "conditional_interval": found.interval}
    return replace(found, interval=(ends[0], math.inf), details=details)


# -- parallel tempering ------------------------------------------------------------------------------------------------


@torch.no_grad()
def tempering(
    machine: BoltzmannMachine,
    *,
    start: ArrayLike | None = None,
    chains: int = 100,
    sweeps: int = 1000,
    betas: Sequence[float] | int | None = None,
    base: BoltzmannMachine | ArrayLike | None = None,
    seed: Seed = None,
) -> LogPartition:
    """Estimate ln Z from the exchanges of parallel tempering (Bennett 1976).

    The weights of a state with the parameters of two neighboring rungs, which decide about an exchange, also give the
    ratio of their partition functions. If the chains mix, the error is much smaller than that of annealing of the same
    cost, because every sweep counts. Unlike annealing it gives no bound: before equilibrium it may be wrong in both
    directions. The estimate is therefore compared between chains that start at ``start`` and others, and between the
    two halves of the sweeps. Chains that all miss the same states agree with each other, so the samples must also have
    visited the phases of the machine (:func:`harmonium.sampling.phases`). If they have not, the sum over the phases
    replaces the estimate where it is precise; it also overrides other problems of an estimate with which it agrees.

    ``samples`` are the last states of the machine. ``details`` has ln Z from the exchanges alone (``exchanged``), the
    ``round_trips``, the ``acceptance`` of exchanges between neighboring rungs (rungs - 1,), the ``betas``, the
    ``phases``, and two differences of ln Z with their errors: of chains that started at ``start`` from the others
    (``starts``), and of the second half of the sweeps from the first (``halves``).

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
    >>> found = hm.likelihood.tempering(rbm, sweeps=200, betas=4, seed=0)
    >>> found.trustworthy, abs(found.value - rbm.log_partition()) < 0.02
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
) -> LogPartition:
    """The estimate of :func:`tempering` along a path; ``check`` are the phases of its target, if they are known."""
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
        for step, (_, state, info) in enumerate(ladders.exchange_sweeps(ladder, state, sweeps, generator)):  # noqa: B020
            trips.update(state)
            if step >= discarded:
                gains.append(info.gain.float().cpu())
        self.first = discarded % 2  # the parity of the pairs of the first sweep that is kept
        self.gains = torch.stack(gains)  # (sweeps, rungs, chains)
        self.samples, self.round_trips = state.layers[0][-1], trips.count

    def estimate(self, base: float, two_starts: bool, check: Phases) -> LogPartition:
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
        error, rates = mean_of(influence).standard_error, torch.stack(acceptance)
        differences = {"halves": mean_of(drift)}
        if two_starts:
            differences["starts"] = mean_of(influence[::2]) - mean_of(influence[1::2])
        found = LogPartition(
            machine=self.ladder.top,
            value=total,
            standard_error=error,
            interval=(total - _ERRORS * error, total + _ERRORS * error),
            method="tempering",
            problems=tuple(self._problems(error, rates, differences)),
            samples=(self.samples, torch.zeros(len(self.samples), dtype=torch.float64)),
            details={
                "exchanged": total,
                "round_trips": self.round_trips,
                "acceptance": rates,
                "betas": tuple(self.ladder.betas.tolist()),
                "phases": check,
                **differences,
            },
        )
        return judge(found, check, check.missed(total, self.samples), repair=True)

    def _problems(self, error: float, acceptance: Tensor, differences: Mapping[str, Estimate]) -> list[str]:
        """Reasons to distrust the estimate that the chains themselves show."""
        found, chains = [], len(self.samples)
        if not error <= _LARGEST_ERROR:
            found.append(f"the standard error is {error:.2f} nats: use more sweeps")
        if not acceptance.min() >= _LEAST_ACCEPTANCE:
            found.append(f"exchanges of two rungs are accepted with a rate of {acceptance.min():.3f}: use more betas")
        if self.round_trips < chains:
            found.append(f"the chains did not mix: {self.round_trips} round trips for {chains} chains")
        for name, difference in differences.items():
            if significant(difference):
                found.append(f"{_PARTS[name]} differ by {difference:+.2f} nats: the chains are not in equilibrium")
        return found


def significant(difference: Estimate) -> bool:
    """Whether two estimates of ln Z from parts of the chains or of the sweeps disagree."""
    return not abs(difference.value) <= _ERRORS * difference.standard_error + _TOLERATED


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
    import scipy.optimize  # slow to import

    def excess(ratio: float) -> float:
        return (torch.sigmoid(down + ratio).sum() - torch.sigmoid(up - ratio).sum()).item()

    return float(scipy.optimize.brentq(excess, low, high, xtol=1e-9))
