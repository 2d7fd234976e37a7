"""The planned cost of an experiment, from short measurements with the first settings of the search."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from harmonium import fit, likelihood
from harmonium.errors import NotLearned
from harmonium.machines import enumeration

from .settings import EXACT, EXACT_BATCH, EXACT_SHARE, NEGATIVES, Budget, Settings
from .trained import Rows, sampling_sweeps, train

#: updates of the measurements, whose difference counts; exact updates; annealing steps and sweeps
_UPDATES, _EXACT_UPDATES, _STEPS = (10, 200), (1, 4), (10, 100)


@dataclass(frozen=True)
class Cost:
    """Seconds of one core.

    Attributes:
        update: of an update with one sweep.
        sweep: of each further sweep.
        exact: of an update with exact gradients.
        estimate: of an estimate of the likelihood, without what follows.
        beta: of an annealing step.
        sampling_sweep: of a sweep of the tempering that gives the samples for the reverse direction.
    """

    update: float
    sweep: float
    exact: float
    estimate: float = 0.0
    beta: float = 0.0
    sampling_sweep: float = 0.0

    def training(self, settings: Settings, updates: int) -> float:
        """The seconds of a training."""
        exact = updates / EXACT_SHARE * self.exact if settings.exact else 0.0
        return updates * (self.update + (settings.sweeps - 1) * self.sweep) + exact

    def likelihood(self, betas: int) -> float:
        """The seconds of an estimate of the likelihood."""
        return self.estimate + betas * self.beta + sampling_sweeps(betas) * self.sampling_sweep

    def seconds(self, visible: str, budget: Budget) -> tuple[float, float]:
        """The planned seconds of the search, and of the final trainings with their estimates.

        The final settings are not known before the search. They are planned with the last of the negative phases.
        """
        best, tried = budget.first(visible), set[tuple[Settings, tuple[int, int]]]()
        for stage in budget.stages:
            tried |= {(settings, budget.lengths(stage)) for settings in budget.candidates(stage, best)}
        search = sum(self.training(settings, updates) + self.likelihood(betas) for settings, (updates, betas) in tried)
        final = self.training(replace(best, negative=budget.negatives[-1]), budget.updates)
        return search, budget.seeds * (final + self.likelihood(budget.betas))


def measure(rows: Rows, visible: str, budget: Budget) -> Cost:
    """Time a few updates and annealing steps."""
    best, batch_size = budget.first(visible), budget.batch_size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotLearned)  # the trainings are short
        one, several = (
            _slope(partial(_train, rows, replace(best, negative=way), batch_size), _UPDATES) for way in NEGATIVES[:2]
        )
        exact = max(
            (
                _slope(partial(_train_exactly, rows, tried), _EXACT_UPDATES)
                for tried in budget.candidates(EXACT, best)[:1]
            ),
            default=0.0,  # not tried
        )
    further = replace(best, negative=NEGATIVES[1]).sweeps - 1
    return Cost(one, max(0.0, several - one) / further, exact, *_annealing(rows, best))


def _train(rows: Rows, settings: Settings, batch_size: int, updates: int) -> None:
    """Train for one epoch of ``updates`` updates."""
    few = replace(rows, train=rows.train[torch.arange(updates * batch_size) % len(rows.train)])
    train(few, settings, updates, batch_size, 0)


def _train_exactly(rows: Rows, settings: Settings, updates: int) -> None:
    """Train for ``updates`` updates with exact gradients."""
    data = rows.encoded("train", settings.visible)[torch.arange(updates * EXACT_BATCH) % len(rows.train)]
    fit(rows.machine(settings), data, negative=EXACT, epochs=1, batch_size=EXACT_BATCH, progress=False)


def _annealing(rows: Rows, settings: Settings) -> tuple[float, float, float]:
    """The seconds of an estimate, of its annealing steps and of its sweeps; 0 for a machine that is enumerated."""
    machine, data = rows.machine(settings), rows.encoded("validation", settings.visible)
    if enumeration.enumerable(machine):
        return 0.0, 0.0, 0.0
    machine.initialize(data, seed=0)

    def estimate(betas: int, sweeps: int) -> None:
        likelihood.estimate(machine, data, betas=betas, sampling_sweeps=sweeps, seed=0)

    few, _ = _STEPS
    beta = _slope(lambda betas: estimate(betas, few), _STEPS)
    sweep = _slope(lambda sweeps: estimate(few, sweeps), _STEPS)
    return max(0.0, _seconds(lambda: estimate(few, few)) - few * (beta + sweep)), beta, sweep


def _slope(work: Callable[[int], None], amounts: tuple[int, int]) -> float:
    """The seconds per unit of work, without what a call costs in any case."""
    few, more = amounts
    work(few)  # the first call is slower
    return max(0.0, _seconds(lambda: work(more)) - _seconds(lambda: work(few))) / (more - few)


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
