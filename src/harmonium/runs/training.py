"""Train a configured machine into a run folder: all layers jointly, or the machines of a stack one after the other."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import files, training
from ..data import TableEncoder
from ..machines import DeepBeliefNetwork
from ..training import Callback, LabelError, Progress, Result, Run
from ..training.arguments import Arguments, keywords_of
from ..training.defaults import label_scale
from ..training.distributed import writing
from ..training.greedy import machine_folder
from ..training.loop import Training
from ..training.specs import default_negative, negative_phase
from . import tables
from .setup import Setup

_PER_RUN = ("epoch", "seconds", "samples_per_second", "weight_norm")  # metrics with one value for the whole stack


def train(
    setup: Setup,
    run: str | Path,
    *,
    resume: bool = False,
    progress: bool = True,
    callbacks: list[Callback] | None = None,
) -> Result:
    """Train the machine as configured and write the results into a run folder, whose lock is held meanwhile.

    Greedy training and pretraining write a run for each RBM into the folder. An interrupted one continues where it
    stopped; it is skipped if there is a checkpoint of the whole machine.
    """
    with writing(run):
        return _train(setup, run, resume, progress, callbacks or [])


def _train(setup: Setup, run: str | Path, resume: bool, progress: bool, callbacks: list[Callback]) -> Result:
    machine, chosen, folder = setup.config.machine, setup.config.training, Run(run)
    folder.hold()
    callbacks = [*(callbacks or []), *([] if setup.rows.table is None else [_SaveTable(setup.rows.table, folder)])]
    rows, held_out = setup.rows.weighted, setup.rows.weighted_held_out
    watching = (
        [LabelError(held_out, chosen.metrics_every or 1)] if setup.config.data.labels and held_out is not None else []
    )
    callbacks = [*watching, *callbacks]
    common: dict[str, Any] = {"progress": progress, "callbacks": callbacks, "validation": held_out}
    if setup.arguments is not None:
        return training.fit(setup.machine, rows, run=run, resume=resume, **common, **setup.arguments)
    small = machine.scale is None and setup.config.data.labels and machine.initialize != "modes"
    scale = label_scale(setup.machine) if small else machine.scale
    initialize: Any = {"weights": machine.initialize, **({} if scale is None else {"scale": scale})}
    joint = {**common, **keywords_of(chosen, setup.rows.image), "config": setup.config.to_dict()}
    greedy = chosen.training == "greedy"
    if (greedy or chosen.pretrain) and not (resume and folder.last.exists()):
        if not (resume and folder.exists()):
            folder.check_new()
        # reports a mistake in the options before the training of the first RBM, which may take hours
        Training(Arguments.of(copy.deepcopy(setup.machine), rows, initialize=initialize, **joint))
        folder.clean()
        folder.write_config(setup.config.to_dict())
        _train_greedily(
            setup, run, epochs=chosen.epochs if greedy else chosen.pretrain, initialize=initialize, **common
        )
        initialize, resume = False, True
    if greedy:
        return Result(setup.machine, gather(setup.machine, folder))
    return training.fit(setup.machine, rows, initialize=initialize, run=run, resume=resume, **joint)


class _SaveTable(Callback):
    """Callback that writes the encoder of a table to the run folder, with its first files."""

    def __init__(self, table: TableEncoder, run: Run) -> None:
        self._table, self._run = table, run

    def on_start(self, progress: Progress) -> None:
        self._table.save(self._run.folder / tables.NAME)


def _train_greedily(setup: Setup, run: str | Path, **given: Any) -> None:
    """Train every RBM in a folder of its own; the RBMs of a deep Boltzmann machine use the default negative phase."""
    options = keywords_of(setup.config.training, setup.rows.image)
    if not isinstance(setup.machine, DeepBeliefNetwork):
        chains = setup.config.training.chains
        options["negative"] = None if chains is None else negative_phase(default_negative(1), chains)
    training.pretrain(setup.machine, setup.rows.weighted, run=run, resume=True, **{**options, **given})


def gather(network: Any, run: Run) -> list[dict[str, float]]:
    """Write the metrics, the trajectory and the checkpoint of a network from the runs of its machines.

    The network at an epoch has all machines at that epoch, although they were trained one after the other. Returns the
    metrics of all epochs; those of machine k end in _k.
    """
    runs = [Run(machine_folder(run.folder, k)) for k in range(len(network.machines))]
    run.check_held()
    history = joined([part.read_metrics() for part in runs])
    run.write_metrics(history)
    earlier = copy.deepcopy(network)
    for kept in zip(*(part.trajectory() for part in runs), strict=True):
        for machine, (_, path) in zip(earlier.machines, kept, strict=True):
            files.load_parameters(machine, path, files.read_tensors(path)[0])
        run.write_snapshot(earlier, kept[0][0])
    run.write_checkpoint(network, {"epoch": history[-1]["epoch"]})
    return history


def joined(histories: Sequence[Sequence[dict[str, float]]]) -> list[dict[str, float]]:
    """Join the metrics of machines that were trained for the same epochs.

    >>> joined([[{"epoch": 1, "seconds": 2.0, "gap": 0.5}], [{"epoch": 1, "seconds": 1.0, "gap": 0.25}]])
    [{'epoch': 1, 'seconds': 3.0, 'gap_1': 0.5, 'gap_2': 0.25}]
    """
    found = []
    for rows in zip(*histories, strict=True):
        row = {"epoch": rows[0]["epoch"], "seconds": sum(part["seconds"] for part in rows)}
        if all("samples_per_second" in part for part in rows):
            row["samples_per_second"] = round(1 / sum(1 / part["samples_per_second"] for part in rows), 1)
        if all("weight_norm" in part for part in rows):
            row["weight_norm"] = sum(part["weight_norm"] ** 2 for part in rows) ** 0.5
        for k, part in enumerate(rows):
            row |= {f"{name}_{k + 1}": value for name, value in part.items() if name not in _PER_RUN}
        found.append(row)
    return found
