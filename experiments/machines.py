"""Trained machines: each is trained once, kept in a folder that is named by its settings, and shared by figures.

A kept machine is a run folder. A second figure, or the same figure after an interruption, continues from it. Figures
share machines if they are given the same folder, ``-o machines=DIR``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch

from harmonium import files
from harmonium.machines import Machine
from harmonium.signatures import complete_constructor
from harmonium.training import Result, Run, fit

from .record import Record


class MachineOptions(TypedDict, total=False):
    """Options of the trained machines of every experiment (:class:`Machines`)."""

    epochs: int
    rows: int
    machines: str
    seed: int


class Machines:
    """The folder of the trained machines of an experiment. Each paper derives its own settings from it.

    Args:
        record: the record of the experiment.
        scale: "quick" or "full".
        data: name of the data set.
        epochs: number of epochs instead of that of the scale.
        rows: number of training rows instead of that of the scale.
        machines: folder of the trained machines; by default ``machines`` in the folder of the record.
        seed: seed of the trainings.
    """

    def __init_subclass__(cls) -> None:
        complete_constructor(cls)

    def __init__(
        self,
        record: Record,
        scale: str,
        data: str,
        *,
        epochs: int = 0,
        rows: int = 0,
        machines: str = "",
        seed: int = 0,
    ) -> None:
        self.record, self.scale, self.data, self.seed = record, scale, data, seed
        self.given_epochs, self.given_rows = epochs, rows
        self.folder = Path(machines) if machines else record.folder / "machines"

    def train(
        self,
        name: str,
        machine: Machine,
        data: Any,
        *,
        words: str,
        prepare: Callable[[], None] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> Result:
        """Train ``machine`` in place and keep it, or load what is kept; a training that was stopped continues.

        Args:
            name: of its folder, see :func:`name_by_settings`.
            machine: a new machine.
            data: training rows.
            words: what is trained, for the line that announces it.
            prepare: sets starting values; not called for a machine that is kept.
            seed: of the training; that of the experiment by default.
            options: of ``fit``.
        """
        run = self.folder / name
        known = Run(run).exists()
        if not known:
            self.record.say(f"training: {words}")
            if prepare is not None:
                prepare()
        return fit(machine, data, run=run, resume=known, seed=self.seed if seed is None else seed, **options)


def name_by_settings(*kind: object, rows: int, epochs: int, seed: int, start: str = "") -> str:
    """The name of the folder of a trained machine.

    Args:
        kind: what distinguishes it from other machines, such as data set, activation function and size.
        rows: number of training rows.
        epochs: number of epochs.
        seed: seed of the training.
        start: how training starts, if there are several ways.

    >>> name_by_settings("mnist", "step", 50, rows=60000, epochs=10, seed=0)
    'mnist-step-50-rows-60000-epochs-10-seed-0'
    """
    parts = [*kind, "rows", rows, "epochs", epochs, *([start] if start else []), "seed", seed]
    return "-".join(map(str, parts))


def kept_errors(path: Path, classify: Callable[[], np.ndarray]) -> np.ndarray:
    """Which test images are classified wrongly (n,), 0 or 1: read from ``path``, or found by ``classify`` and written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "errors.txt"
    >>> kept_errors(path, lambda: np.array([0.0, 1.0])).tolist(), path.read_text()
    ([0.0, 1.0], '01\\n')
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(path, "".join(str(int(x)) for x in classify()) + "\n")
    return np.array([int(x) for x in path.read_text().strip()], dtype=float)


def plain_gradients(rate: float, batch: int, rows: int) -> dict[str, Any]:
    """Options of ``fit`` for plain stochastic gradients: no momentum, no centering, at most ``batch`` of the ``rows``.

    >>> plain_gradients(0.01, 100, 60)["batch_size"]
    60
    """
    return {
        "batch_size": min(batch, rows),
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=rate),
        "centered": False,
        "progress": False,
    }
