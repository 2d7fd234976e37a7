"""Training checkpoints, from which a run resumes bit-for-bit."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import files
from ..errors import CheckpointError, HarmoniumError, RunError
from . import distributed
from .run import Run, to_toml
from .state import continued, load_optimizer

if TYPE_CHECKING:
    from .batches import Source
    from .loop import Training

_TABLES = ("machine", "training")  # of a configuration, with options
#: entries of a configuration that may change when a run continues
CHANGEABLE = (("training", "epochs"), ("machine", "threads"), ("machine", "device"), ("data", "source"))
#: what reading a state of another form raises
_DAMAGE = (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError)

Kept = tuple[dict[str, Tensor] | None, dict[str, Any], list[dict[str, float]]]  # tensors, state and metrics


def begin(folder: str | Path | None, resume: bool, rank: int) -> tuple[Run | None, bool]:
    """Return the run folder (only in the first process) and whether there is a checkpoint to resume from."""
    run = Run(folder) if folder is not None and rank == 0 else None
    if run is not None:
        if not (resume and run.exists()):
            run.check_new()
        run.hold()
        run.clean()
        resume = resume and run.last.exists()  # a run that stopped before its first checkpoint starts over
    return run, distributed.of_first(resume)


def save(training: Training, *, snapshot: bool) -> None:
    """Write the metrics, the newest checkpoint and, if ``snapshot``, the machine of this epoch."""
    if training.world > 1:
        distributed.check_equal(
            epoch=training.epoch, step=training.step, parameters=distributed.checksum(training.machine.parameters())
        )
    if not training.keep:
        return
    own = {
        "negative": [learner.state for learner in training.learners],
        "generator": training.generator.get_state(),
        "sources": [source.state_dict() for source in _sources(training)],
    }
    processes = distributed.gather(own)
    if training.run is None:
        return
    try:
        training.run.check_held()
        _write(training, training.run, processes, snapshot=snapshot)
    except (HarmoniumError, OSError):
        training.run.check_held()  # names the cause if the folder has been moved in the meantime
        raise


def _write(training: Training, run: Run, processes: list[Any], *, snapshot: bool) -> None:
    if not training.step:
        run.write_metrics(training.history)
    if snapshot:
        run.write_snapshot(training.machine, training.epoch)
    run.write_checkpoint(
        training.machine,
        {
            "epoch": training.epoch,
            **({"step": training.step} if training.step else {}),
            "updates": training.updates,
            "of": fingerprint(training),
            "options": options_of(training.config),
            "batch_size": training.batch_size,
            "k": getattr(training.negative, "k", None),
            "optimizer": training.optimizer.state_dict(),
            "learners": [learner.tree() for learner in training.learners],
            "processes": processes,  # each process has its own chains and random numbers
        },
    )


def read(training: Training) -> Kept:
    """Read the newest checkpoint in the first process, and send its state to all; only the first has the tensors.

    The machine takes the type of the real numbers of the file, before anything of this type is allocated.
    """
    run, tensors, state = training.run, None, None
    dtype = training.machine.dtype
    if run is not None:
        tensors, saved = run.read_state()
        fitting = files.parameters_for(training.machine, run.last, tensors)  # raises if they do not fit
        dtype = next(t.dtype for t in fitting.values() if t.is_floating_point())
        state = saved, run.read_metrics()
    training.machine.to(dtype=distributed.of_first(dtype))
    return tensors, *distributed.of_first(state)


def restore(training: Training, kept: Kept) -> None:
    """Restore the state of a checkpoint; raise if it was written with different arguments."""
    tensors, state, rows = kept
    try:
        _check(training, state)
        _load(training, tensors, state)
    except HarmoniumError:
        raise
    except _DAMAGE as error:  # an intact checksum, but not the state that this version writes
        raise CheckpointError(f"{_place(training)}: the training state is damaged ({error})") from error
    training.history.extend(row for row in rows if row["epoch"] <= training.epoch)
    training.seconds = training.history[-1].get("seconds", 0.0) if training.history else 0.0


def _check(training: Training, state: dict[str, Any]) -> None:
    """Raise if the state does not belong to these arguments; changes nothing."""
    _check_options(training, state["options"])
    if len(state["processes"]) != training.world:
        found = len(state["processes"])
        raise RunError(f"processes: expected {found}, as in the run to resume, found {training.world}")
    for name, value in fingerprint(training).items():
        if state["of"].get(name) != value:
            raise RunError(f"{name}: expected {state['of'].get(name)}, as in the run, found {value}")


def options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a configuration that must not change on resume, by their names in the file.

    >>> options_of({"training": {"epochs": 3, "batch_size": 10}, "machine": {"threads": 2}})
    {'training.batch_size': 10}
    """
    tables = tomllib.loads(to_toml(config))  # as they are read from the file
    entries = [((table, key), value) for table in _TABLES for key, value in tables.get(table, {}).items()]
    return {".".join(place): value for place, value in entries if place not in CHANGEABLE}


def _check_options(training: Training, began: Mapping[str, Any]) -> None:
    """Raise if an option, in this call or in the configuration of the run, is not the one with which the run began."""
    now = options_of(training.config)
    _compare(began, now, {**began, **now})
    written = training.run and training.run.recorded()
    if written:  # by the command line, whose options have other tables
        options = options_of(written)
        _compare(began, options, began.keys() & options.keys())


def _compare(began: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str]) -> None:
    changed = [name for name in sorted(names) if now.get(name) != began.get(name)]
    if changed:
        found = ", ".join(f"{name} {now.get(name, 'none')} (was {began.get(name, 'none')})" for name in changed)
        raise RunError(
            f"options: expected those with which the run began, found {found}; only epochs, threads and device "
            "may change, other options need a new run"
        )


@torch.no_grad()
def _load(training: Training, tensors: dict[str, Tensor] | None, state: dict[str, Any]) -> None:
    machine = training.machine
    if training.run is not None and tensors is not None:
        files.load_parameters(machine, training.run.last, tensors)
    distributed.share_parameters(machine)
    training.epoch, training.step, training.updates = state["epoch"], state.get("step", 0), state["updates"]
    training.batch_size = state["batch_size"]
    if state["k"] is not None:
        training.use(training.negative.with_sweeps(state["k"]))
    load_optimizer(training.optimizer, state["optimizer"])
    own = state["processes"][training.rank]
    for learner, tree, phase in zip(training.learners, state["learners"], own["negative"], strict=True):
        learner.load(continued(tree, learner.tree()))
        learner.state = continued(phase, learner.state, learner.phase.grows)
        learner.phase.check_state(learner.machine, learner.state)
    training.generator.set_state(own["generator"])
    for source, kept in zip(_sources(training), own["sources"], strict=False):  # validation rows may be left out
        source.load_state_dict(kept)


def _place(training: Training) -> str:
    return "checkpoint" if training.run is None else str(training.run.last)


def _sources(training: Training) -> list[Source]:
    """Return the rows of the training and of the validation, which have a state if values are missing."""
    return [source for source in (training.source, training.validation) if source is not None]


def fingerprint(training: Training) -> dict[str, Any]:
    """Return the arguments that must not change on resume. It contains no times, so equal runs write equal files."""
    return {
        "seed": training.seed,
        "rows": len(training.source),
        "negative phase": type(training.negative).__name__,
        "optimizer": type(training.optimizer).__name__,
    }
