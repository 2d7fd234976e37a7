"""Schedules of the learning rate, the number of sweeps and the batch size during training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import InvalidOption


@dataclass(frozen=True)
class Clock:
    """Progress of training: ``epoch`` and ``step`` (updates) count from 1; ``fraction`` of the run (0 to 1) is done."""

    epoch: int
    epochs: int
    fraction: float
    step: int = 0


@dataclass(frozen=True)
class Setting:
    """Result of a schedule: ``rate`` multiplies the optimizer's learning rate; None leaves a value unchanged."""

    rate: float = 1.0
    k: int | None = None
    batch_size: int | None = None


Schedule = Callable[[Clock], Setting]


@dataclass(frozen=True)
class Constant:
    """Constant learning rate."""

    def __call__(self, clock: Clock) -> Setting:
        return Setting()


@dataclass(frozen=True)
class Linear:
    """Learning rate that is constant for the fraction ``constant`` of the run, then decreases linearly to zero.

    >>> Linear(0.3)(Clock(epoch=7, epochs=10, fraction=0.65)).rate
    0.5
    """

    constant: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.constant < 1:
            raise InvalidOption(f"constant: expected a fraction of the run in [0, 1), found {self.constant}")

    def __call__(self, clock: Clock) -> Setting:
        return Setting(rate=min(1.0, (1 - clock.fraction) / (1 - self.constant)))


@dataclass(frozen=True)
class Growing:
    """k = ⌈epoch/every⌉ sweeps per update and learning rate η = η₀/k, as in Bulso & Roudi (2021).

    >>> Growing()(Clock(epoch=11, epochs=500, fraction=0.02))
    Setting(rate=0.5, k=2, batch_size=None)
    """

    every: int = 10

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InvalidOption(f"every: expected at least 1 epoch, found {self.every}")

    def __call__(self, clock: Clock) -> Setting:
        k = math.ceil(clock.epoch / self.every)
        return Setting(rate=1 / k, k=k)


#: schedules by their names in files and on the command line
SCHEDULES = {"constant": Constant, "linear": Linear, "growing": Growing}
