"""Parallel tempering and trajectory tempering: chains that mix faster by exchanging states with easier machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import noise
from ..checks import count
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..noise import Seed
from ..shown import brief
from . import ladder as ladders
from .base import base_machine
from .ladder import Acceptance, Ladder, LadderState, MachineLadder, PathLadder, exchange_sweeps
from .path import Path, beta_grid, even_steps


@brief
@dataclass(frozen=True)
class Tempered:
    """Samples of the target machine, and diagnostics of the ladder.

    Attributes:
        samples: visible states of the last rung (n, *visible).
        acceptance: acceptance rate of each neighboring pair (rungs - 1,).
        round_trips: number of arrivals at the top rung after a visit to the bottom rung, over all walkers. If it is 0,
            exchanges have not helped the chains to move between modes.
        betas: inverse temperatures of the rungs; ``None`` for trajectory tempering.
        state: last states of all rungs.
    """

    samples: Tensor
    acceptance: Tensor
    round_trips: int
    betas: tuple[float, ...] | None
    state: LadderState


@torch.no_grad()
def parallel_tempering(
    machine: BoltzmannMachine,
    n: int | None = None,
    *,
    sweeps: int = 1000,
    betas: Sequence[float] | int | None = None,
    base: BoltzmannMachine | ArrayLike | None = None,
    start: ArrayLike | None = None,
    seed: Seed = None,
) -> Tempered:
    """Draw ``n`` samples by ``sweeps`` sweeps and exchanges on a ladder from ``base`` to the machine.

    Args:
        machine: any machine with a finite partition function.
        n: number of samples; by default the number of rows of ``start``, or 100.
        sweeps: number of Gibbs sweeps, each followed by a round of exchanges.
        betas: inverse temperatures of the rungs, their number, or ``None`` to choose both from trial runs.
        base: data whose single-site statistics the bottom rung matches, another machine, or by default a machine
            without biases and couplings.
        start: initial visible states (m, *visible) of all rungs, repeated if there are fewer than ``n``.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3))
    >>> hm.sampling.parallel_tempering(rbm, 10, sweeps=5, betas=4, seed=0).samples.shape
    torch.Size([10, 6])
    """
    machine.check_normalizable()
    generator = noise.generator(seed, machine.device)
    path = Path(machine, base_machine(machine, base))
    if betas is None or isinstance(betas, int):
        betas = choose_betas(path, rungs=betas, generator=generator)
    if len(betas) < 2 or betas[-1] != 1:
        raise InvalidOption(f"betas: expected two or more increasing values, the last one 1, found {list(betas)}")
    return _run(PathLadder(path, betas), n, sweeps, start, generator, tuple(betas))


@torch.no_grad()
def trajectory_tempering(
    machines: Sequence[BoltzmannMachine],
    n: int | None = None,
    *,
    sweeps: int = 1000,
    start: ArrayLike | None = None,
    seed: Seed = None,
) -> Tempered:
    """Draw ``n`` samples of the last of ``machines``, the checkpoints of one run from early to late.

    The checkpoints are the rungs of a ladder and exchange states (Béreux et al. 2024).
    """
    rungs = MachineLadder(machines)
    for machine in machines:
        machine.check_normalizable()
    generator = noise.generator(seed, machines[-1].device)
    return _run(rungs, n, sweeps, start, generator, None)


def _run(
    ladder: Ladder,
    n: int | None,
    sweeps: int,
    start: ArrayLike | None,
    generator: Generator | None,
    betas: tuple[float, ...] | None,
) -> Tempered:
    if count("sweeps", sweeps) < 0 or (n is not None and count("n", n) < 1):
        raise InvalidOption(f"expected sweeps ≥ 0 and n ≥ 1, found sweeps={sweeps}, n={n}")
    if start is None:
        visible = anywhere(ladder, 100 if n is None else n, generator)
    else:
        visible = ladder.top.checked_states(start, "start", n)
    state = ladders.start(ladder, visible, generator)
    trips, acceptance = RoundTrips(state), Acceptance(ladder)
    for _, state, info in exchange_sweeps(ladder, state, sweeps, generator):  # noqa: B020
        acceptance.add(info)
        trips.update(state)
    return Tempered(state.layers[0][-1], acceptance.rates, trips.count, betas, state)


def anywhere(ladder: Ladder, chains: int, generator: Generator | None) -> Tensor:
    """Visible states of every rung, drawn without couplings: (rungs, chains, *visible)."""
    visible = ladder.top.independent(chains * ladder.size, generator)
    return visible.view(ladder.size, chains, *visible.shape[1:])


class RoundTrips:
    """Count the arrivals of walkers at the top rung after a visit to the bottom rung."""

    def __init__(self, state: LadderState) -> None:
        self._from_bottom = torch.zeros_like(state.walker, dtype=torch.bool)
        self._count = torch.zeros((), dtype=torch.int64, device=state.walker.device)

    def update(self, state: LadderState) -> None:
        """Update the count with the present positions of the walkers."""
        self._from_bottom.scatter_(0, state.walker[:1], True)
        arrived = self._from_bottom.gather(0, state.walker[-1:])
        self._count += arrived.sum()
        self._from_bottom.scatter_(0, state.walker[-1:], False)

    @property
    def count(self) -> int:
        """The number of round trips so far."""
        return int(self._count.item())


@torch.no_grad()
def choose_betas(
    path: Path,
    *,
    rungs: int | None = None,
    chains: int = 50,
    sweeps: int = 60,
    rounds: int = 5,
    generator: Generator | None = None,
) -> list[float]:
    """Choose betas with equal rejection rates between neighbors, from trial runs.

    The cumulative rejection rate of a trial ladder is the barrier Λ(β). Rungs at equal steps of Λ have equal rejection
    rates, and about 2Λ rungs give the most round trips per rung. ``rungs`` fixes the number of rungs.
    """
    if rungs is not None and rungs < 2:
        raise InvalidOption(f"rungs: expected two or more, found {rungs}")
    number = rungs or 8
    betas = beta_grid(number - 1)
    for _ in range(rounds):
        ladder = PathLadder(path, betas)
        state = ladders.start(ladder, anywhere(ladder, chains, generator), generator)
        acceptance = Acceptance(ladder)
        for step, (_, _, info) in enumerate(exchange_sweeps(ladder, state, sweeps, generator)):
            if step >= sweeps // 2:
                acceptance.add(info)
        rejection = 1 - acceptance.rates
        if rungs is None:
            number = int(min(100, max(4, 2 * rejection.sum().item() + 2)))
        betas = equal_rejection(betas, rejection, number)
    return betas


def equal_rejection(betas: Sequence[float], rejection: Tensor, number: int) -> list[float]:
    """``number`` betas between which exchanges are rejected equally often.

    ``rejection`` (rungs - 1,) are the rejection rates between the neighbors of ``betas``.
    """
    return even_steps(betas, rejection.double().clamp_min(1e-3), number - 1)
