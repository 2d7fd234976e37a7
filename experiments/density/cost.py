"""The planned cost of an experiment, from short measurements with the first settings of the search."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from harmonium.errors import NotLearned
from harmonium.machines import enumeration

from .settings import EXACT, EXACT_RATES, EXACT_SHARE, NEGATIVES, Budget, Settings, candidates, first
from .trained import Rows, estimate, train

_UPDATES = 30
_BETAS = (20, 60)


@dataclass(frozen=True)
class Cost:
    """Seconds of one core for one update with one sweep and for each further sweep, and for an estimate."""

    update: float
    sweep: float
    exact: float
    estimate: float
    beta: float

    def training(self, settings: Settings, updates: int) -> float:
        """The seconds of a training."""
        if settings.negative == EXACT:
            return updates / EXACT_SHARE * self.exact
        return updates * (self.update + (settings.sweeps - 1) * self.sweep)

    def seconds(self, name: str, visible: str, columns: int, budget: Budget) -> tuple[float, float]:
        """The planned seconds of the search, and of the final trainings with their estimates.

        The final settings are not known before the search. They are planned with the second number of sweeps.
        """
        best, tried = first(name, visible), set[Settings]()
        for stage in budget.stages:
            tried |= set(candidates(stage, name, best, columns))
        search = sum(
            self.training(settings, budget.search_updates) + self.estimate + budget.search_betas * self.beta
            for settings in tried
        )
        final = self.training(replace(best, negative=NEGATIVES[1]), budget.updates)
        return search, budget.seeds * (final + self.estimate + budget.betas * self.beta)


def measure(rows: Rows, visible: str, batch_size: int) -> Cost:
    """Time a few updates and annealing steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotLearned)  # the trainings are short
        return _measure(rows, visible, batch_size)


def _measure(rows: Rows, visible: str, batch_size: int) -> Cost:
    best = first(rows.name, visible)
    few = replace(rows, train=rows.train[torch.arange(_UPDATES * batch_size) % len(rows.train)])
    times = {
        negative: _seconds(lambda negative=negative: train(few, replace(best, negative=negative), _UPDATES, 100, 0))
        for negative in NEGATIVES[:2]
    }
    update = times[NEGATIVES[0]] / _UPDATES
    more = replace(best, negative=NEGATIVES[1]).sweeps - 1
    (exact_settings, *_) = candidates(EXACT, rows.name, best, rows.train.shape[1])
    assert exact_settings.learning_rate == EXACT_RATES[0]
    exact = _seconds(lambda: train(few, exact_settings, EXACT_SHARE, _UPDATES * batch_size, 0))
    fixed, beta = _annealing(rows, best)
    return Cost(
        update,
        max(0.0, times[NEGATIVES[1]] / _UPDATES - update) / more,
        exact,
        fixed,
        beta,
    )


def _annealing(rows: Rows, settings: Settings) -> tuple[float, float]:
    """The seconds of an estimate without its annealing steps, and of each step; 0 for a machine that is enumerated."""
    machine, data = rows.machine(settings), rows.encoded("validation", settings.visible)
    if enumeration.enumerable(machine):
        return 0.0, 0.0
    machine.initialize(data, seed=0)
    short, long = (_seconds(lambda betas=betas: estimate(machine, data, betas, 0)) for betas in _BETAS)
    beta = max(0.0, long - short) / (_BETAS[1] - _BETAS[0])
    return max(0.0, short - beta * _BETAS[0]), beta


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
