"""Callbacks: code of the user's own at the start, after each epoch and at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ..machines import BoltzmannMachine
from .negative import NegativePhase


@dataclass
class Progress:
    """What a callback sees. ``metrics`` of the epoch may be added to; they go into the history and the run's table."""

    machine: BoltzmannMachine
    negative: NegativePhase
    epoch: int
    epochs: int
    metrics: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    stop: bool = False


class Callback:
    """Override what is needed; set ``progress.stop`` to end training after the epoch."""

    def on_start(self, progress: Progress) -> None:
        """Before the first step."""

    def on_epoch(self, progress: Progress) -> None:
        """After every epoch, before it is recorded."""

    def on_end(self, progress: Progress) -> None:
        """After the last step."""


class Metric(Callback):
    """Record ``function(machine)`` as ``name``, every ``every`` epochs.

    >>> Metric("norm", lambda machine: 0.0).name
    'norm'
    """

    def __init__(self, name: str, function: Any, every: int = 1) -> None:
        self.name, self.function, self.every = name, function, every

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch % self.every == 0 or progress.epoch == progress.epochs:
            with torch.no_grad():
                progress.metrics[self.name] = float(self.function(progress.machine))
