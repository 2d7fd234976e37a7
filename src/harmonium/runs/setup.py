"""Build machine and data from a configuration, and reopen run folders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from .. import __version__, files, noise, options
from ..allocation import limited
from ..checks import whole
from ..couplings.base import check_scale
from ..errors import InvalidData, InvalidOption, RunError
from ..machines import Machine
from ..options import MachineOptions, TrainingOptions
from ..paths import expanded
from ..training import Run, recorded
from ..training.arguments import keywords_of
from ..training.defaults import default_epochs, default_metrics_every, default_schedule
from ..training.precision import BFLOAT16
from ..training.precision import resolved as resolved_precision
from ..training.specs import (
    default_negative,
    default_optimizer,
    default_phase,
    default_rate,
    negative_for,
    negative_phase,
)
from ..training.threads import check_threads, choose_threads
from . import config as schema
from . import fitted, rows, specs
from . import machine as machines


@dataclass
class Setup:
    """A run that is ready to start: the complete configuration, the machine and the rows."""

    config: schema.Config
    machine: Machine
    rows: rows.Rows
    arguments: dict[str, Any] | None = None  # of ``hm.fit``, for a run that was started with it


def prepare(config: schema.Config) -> Setup:
    """Load the data, build the machine and fill in the options that the configuration leaves open."""
    chosen = rows.training_defaults(config)
    for table in (config.data, config.machine, chosen):
        options.check(table)
    if chosen.threads is not None:
        check_threads(chosen.threads)
    noise.check_seed(chosen.seed)
    if config.machine.scale is not None:
        check_scale(config.machine.scale)
    described, hidden = machines.parse(config.machine)
    chosen = _stages(described, chosen, config.data.labels)
    keywords_of(chosen)  # a mistake in the options is reported before the data are read
    for number, layer in enumerate(hidden, 1):
        specs.check(layer, number)
    # after the checks of the options, because it may warn
    threads = choose_threads() if chosen.threads is None else chosen.threads
    torch.set_num_threads(threads)
    loaded = rows.load(config)
    machine = machines.build(described, specs.layer(loaded.visible), hidden, loaded.train.context)
    loaded.visible = specs.as_built(loaded.visible, machine.visible)
    machine.to(dtype=specs.dtype(config.machine.dtype), device=specs.device(chosen.device))
    first = machine.machines[0]
    if config.training.negative is None and not config.data.labels:
        given = (chosen.chains, chosen.optimizer, chosen.learning_rate, chosen.momentum)
        usual = all(value is None for value in given) and chosen.precision != BFLOAT16
        negative, chains = default_phase(machine, loaded.train, chosen.batch_size, exact=usual)
        chosen = replace(chosen, negative=negative, chains=chosen.chains or chains)
    exact = chosen.negative == "exact"
    optimizer = chosen.optimizer or default_optimizer(
        first.visible.conserves, chosen.learning_rate, chosen.momentum, exact=exact
    )
    rate = chosen.learning_rate or default_rate(optimizer, chosen.momentum, exact=exact)
    epochs = chosen.epochs or default_epochs(loaded.train, machine, chosen.batch_size)
    pretrain = epochs if chosen.pretrain is None and described.machine == "dbm" else chosen.pretrain
    from_data = rate is None or (chosen.optimizer is None and chosen.learning_rate is None and chosen.momentum is None)
    schedule = default_schedule(from_data=from_data) if chosen.schedule is None else chosen.schedule
    phase = keywords_of(chosen).get("negative") or negative_phase(negative_for(machine))
    filled = replace(
        chosen,
        precision=resolved_precision(chosen.precision, machine, phase),
        optimizer=optimizer,
        learning_rate=rate,
        schedule=schedule,
        epochs=epochs,
        metrics_every=chosen.metrics_every or default_metrics_every(epochs),
        pretrain=pretrain,
        threads=threads,
    )
    resolved = schema.Config(
        data=loaded.config,
        machine=replace(described, visible="+".join(map(str, loaded.visible))),
        training=filled,
        harmonium=__version__,
    )
    return Setup(resolved, machine, loaded)


def _stages(machine: MachineOptions, chosen: TrainingOptions, labels: bool) -> TrainingOptions:
    """Check the options of greedy and joint training, and fill in those that depend on the kind of machine."""
    kind = machine.machine
    if chosen.pretrain and kind == "rbm":
        raise InvalidOption(f"pretrain: expected 0 for a machine with one hidden layer, found {chosen.pretrain}")
    if chosen.training == "greedy" and kind != "dbn":
        raise InvalidOption(f"training: greedy expects --machine dbn, found {kind}; a dbm has --pretrain EPOCHS")
    order = chosen.training or ("greedy" if kind == "dbn" else None)
    if chosen.pretrain and order == "greedy":
        raise InvalidOption(f"pretrain: expected 0 with --training greedy, found {chosen.pretrain}")
    if labels and kind != "rbm":
        raise InvalidOption(f"labels: expected --machine rbm, found {kind}")
    depth = 2 if kind == "dbm" else 1
    return replace(chosen, training=order, negative=chosen.negative or default_negative(depth))


# -- a run folder ---------------------------------------------------------------------------------------------


def read_config(folder: str | Path) -> schema.Config:
    """Read the configuration of a run folder; a run of ``hm.fit`` has no source of its data."""
    run = Run(folder)
    if not run.config_path.exists():
        what = "not a run folder (no config.toml)" if run.folder.exists() else "no such folder; expected a run folder"
        raise RunError(f"{run.folder}: {what}")
    tables = run.read_config()
    if schema.written_by_fit(tables):
        return fitted.config_of(tables, files.load(run.folder) if run.last.exists() else None)
    try:
        return schema.read(run.config_path)
    except InvalidOption as error:
        raise RunError(str(error)) from None


def epochs_done(folder: str | Path) -> int:
    """Return the number of epochs of the last checkpoint, or 0 if there is none."""
    run = Run(folder)
    if not run.last.exists():
        return 0
    _, state = run.read_state()
    try:
        return whole("epoch", state["epoch"])
    except (KeyError, ValueError) as error:
        raise RunError(f"{run.last}: expected a training state, found none ({error})") from None


def moved(config: schema.Config, source: str | None) -> schema.Config:
    """Return the configuration with the data file at its new place; raise if it cannot be that of the run.

    The contents of a file are compared with the recorded checksum when it is read. A named data set has a fixed
    content and cannot move.
    """
    if source is None:
        return config
    recorded = config.data.source
    if schema.is_path(recorded) != schema.is_path(source) or not (schema.is_path(source) or source == recorded):
        what = "the training file" if schema.is_path(recorded) else "the data set"
        raise RunError(f"data: expected {what} of the run ({recorded}), found '{source}'")
    return replace(config, data=replace(config.data, source=source))


def reopen(folder: str | Path, source: str | None = None) -> Setup:
    """Return a run folder as a :class:`Setup` with the machine of its last checkpoint.

    A run of ``hm.fit`` needs the ``source`` of its rows, the name of a data set or a file.
    """
    config, run = read_config(folder), Run(folder)
    if started_by_fit(folder):
        return _with_rows(run, config, source)
    _check_size(run, config)
    setup = prepare(moved(config, source))
    _check_checkpoint(run)
    tensors, _ = files.read_tensors(run.last)
    files.load_parameters(setup.machine, run.last, tensors)
    return setup


def started_by_fit(folder: str | Path) -> bool:
    """Return whether a run was started with ``hm.fit``, so that its configuration does not name its data."""
    return schema.written_by_fit(Run(folder).read_config())


def to_continue(folder: str | Path, config: schema.Config, source: str | None = None) -> Setup:
    """Return a run folder as a :class:`Setup` to continue with ``config``, that of the run with more epochs."""
    run = Run(folder)
    if not started_by_fit(folder):
        _check_size(run, config)
        return prepare(moved(config, source))
    arguments = recorded.arguments(run.read_config(), str(folder))
    setup = _with_rows(run, config, source)
    fitted.check_mean(run.read_config(), setup.rows.train, setup.machine)
    return replace(setup, arguments={**arguments, "epochs": config.training.epochs})


def _with_rows(run: Run, config: schema.Config, source: str | None) -> Setup:
    """Return the machine of a run of ``hm.fit`` with the rows of ``source``."""
    _check_checkpoint(run)
    if source is None:
        raise RunError(
            f"{run.folder}: expected --data NAME or FILE; a run of hm.fit does not record where its data are"
        )
    config = replace(config, data=replace(config.data, source=source))
    loaded = rows.load(config)
    expected = config.data.rows
    if expected is not None and len(loaded.train) != expected:
        raise RunError(f"data: expected the {expected} rows of the run, found {len(loaded.train)} in '{source}'")
    return Setup(replace(config, data=loaded.config), files.load(run.folder), loaded)


def _check_size(run: Run, config: schema.Config) -> None:
    """Raise, before memory is used, if the hidden layers have more numbers than the newest checkpoint."""
    if not run.last.exists():
        return
    tensors, _ = run.read_state()
    try:
        with limited(sum(t.numel() for t in tensors.values())):
            for number, layer in enumerate(machines.parse(config.machine)[1], 1):
                specs.check(layer, number)
    except InvalidData as error:
        raise RunError(f"{run.config_path}: {error}") from None


def _check_checkpoint(run: Run) -> None:
    if not run.last.exists():
        raise RunError(
            f"{run.folder}: expected a checkpoint, found none; 'harmonium resume {run.folder}' restarts the run"
        )


def free_folder(wanted: str | Path) -> Path:
    """Return ``wanted``, or the first of ``wanted-2``, ``wanted-3``, … that does not exist."""
    wanted = Path(wanted)
    candidate, k = wanted, 2
    while candidate.exists():
        candidate, k = wanted.with_name(f"{wanted.name}-{k}"), k + 1
    return candidate


def new_folder(run: str | Path) -> Path:
    """Return the folder for a new run; raises before any work is done if it is not new or empty."""
    folder = expanded(run)
    Run(folder).check_new()
    return folder
