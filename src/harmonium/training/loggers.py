"""Callbacks that send the metrics of training to TensorBoard or to Weights & Biases, which are optional packages."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..errors import InvalidOption
from ..extras import require
from .callbacks import Callback, Progress


class MetricLogger(Callback):
    """Base class: call :meth:`log` with the finite metrics of every ``every``-th epoch and of the last one.

    Callbacks that add metrics, such as :class:`harmonium.MixingTime`, must come before it in the list.
    """

    def __init__(self, every: int = 1) -> None:
        if every < 1:
            raise InvalidOption(f"every: expected at least 1, found {every}")
        self.every = every

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch % self.every == 0 or progress.epoch in (progress.epochs, 1):
            found = {name: float(value) for name, value in progress.metrics.items() if name != "epoch"}
            self.log({name: value for name, value in found.items() if math.isfinite(value)}, progress.epoch)

    def log(self, values: dict[str, float], epoch: int) -> None:
        """Send the metrics of an epoch."""
        raise NotImplementedError


class TensorBoard(MetricLogger):
    """Write the metrics as TensorBoard events: ``tensorboard --logdir FOLDER`` shows them.

    Needs ``pip install tensorboard``.

    Args:
        folder: folder of the events, for example that of the run.
        every: number of epochs between the points of the curves.
    """

    def __init__(self, folder: str | Path, every: int = 1) -> None:
        super().__init__(every)
        self.folder = Path(folder)
        self._module = require("torch.utils.tensorboard", "TensorBoard needs")
        self._writer: Any = None

    def on_start(self, progress: Progress) -> None:
        self._writer = self._module.SummaryWriter(str(self.folder))

    def log(self, values: dict[str, float], epoch: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)

    def on_end(self, progress: Progress) -> None:
        self._writer.close()


class WeightsAndBiases(MetricLogger):
    """Send the metrics to a run of Weights & Biases.

    Needs ``pip install wandb``. If the program has started a run with ``wandb.init``, that run is used
    and not finished.

    Args:
        project: name of the project of a new run.
        every: number of epochs between the points of the curves.
        options: further arguments of ``wandb.init``, such as ``name`` or ``mode="offline"``.
    """

    def __init__(self, project: str | None = None, every: int = 1, **options: Any) -> None:
        super().__init__(every)
        self._wandb = require("wandb", "WeightsAndBiases needs")
        self.project, self.options = project, options
        self._own: Any = None

    def on_start(self, progress: Progress) -> None:
        if self._wandb.run is None:
            config = {"machine": progress.machine.config(), "negative": repr(progress.negative)}
            config |= {"epochs": progress.epochs}
            self._own = self._wandb.init(**{"project": self.project, "config": config, **self.options})

    def log(self, values: dict[str, float], epoch: int) -> None:
        self._wandb.log({"epoch": epoch, **values}, step=epoch)

    def on_end(self, progress: Progress) -> None:
        if self._own is not None:
            self._own.finish()
