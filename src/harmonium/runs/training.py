"""Train a configured machine into a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..data import TableEncoder
from ..training import Callback, LabelError, Progress, Result, Run
from ..training.loop import measured_every
from ..training.train import train as train_machine
from .rows.tables import NAME
from .setup import Setup


def train(
    setup: Setup,
    run: str | Path,
    *,
    resume: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Train the machine as configured and write the results into a run folder, whose lock is held meanwhile.

    A deep machine is first trained layer by layer, in a folder for each. An interrupted run continues where it stopped.
    """
    config, rows = setup.config, setup.rows
    own: list[Callback] = [] if rows.table is None else [_SaveTable(rows.table, Run(run))]
    if config.data.labels and rows.weighted_held_out is not None:
        own.insert(0, LabelError(rows.weighted_held_out, measured_every(config.training.epochs or 1)))
    named = {name: table for name, table in config.tables().items() if name != "training"}
    return train_machine(
        setup.machine,
        rows.weighted,
        config.training,
        validation=rows.weighted_held_out,
        callbacks=[*callbacks, *own],
        run=run,
        resume=resume,
        progress=progress,
        tables=named if config.data.source and config.data.mean is None else None,
        threads=config.machine.threads,
    )


class _SaveTable(Callback):
    """Callback that writes the encoder of a table to the run folder, with its first files."""

    def __init__(self, table: TableEncoder, run: Run) -> None:
        self._table, self._run = table, run

    def on_start(self, progress: Progress) -> None:
        self._table.save(self._run.folder / NAME)
