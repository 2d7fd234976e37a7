"""Build machine and data from a configuration, and reopen run folders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from .. import __version__, files, noise
from ..checks import whole
from ..errors import InvalidOption, RunError
from ..machines import Machine, layout
from ..paths import expand
from ..training import Run, Smooth
from ..training.loop import data_mean
from ..training.plan import Plan
from ..training.threads import choose_threads
from . import config as schema
from . import machine as machines
from . import rows

_TOLERANCE = 1e-6  # of the mean of all values


@dataclass
class Setup:
    """A run that is ready to start: the complete configuration, the machine and the rows."""

    config: schema.Config
    machine: Machine
    rows: rows.Rows


def prepare(config: schema.Config) -> Setup:
    """Load the data, build the machine and choose what the configuration leaves open."""
    config = replace(config, training=replace(config.training, seed=noise.resolve_seed(config.training.seed)))
    described, hidden = machines.parse(config.machine)
    if config.data.labels and described.machine != "rbm":
        raise InvalidOption(f"labels: expected --machine rbm, found {described.machine}")
    for number, layer in enumerate(hidden, 1):
        layout.check(layer, number)
    _use_threads(config)  # after the checks of the options, because it may warn
    loaded = rows.load(config)
    machine = machines.build(described, layout.layer(loaded.visible), hidden, loaded.train.context)
    loaded.visible = layout.as_built(loaded.visible, machine.visible)
    machine.to(dtype=layout.dtype(config.machine.dtype), device=layout.device(config.machine.device))
    resolved = schema.Config(
        data=loaded.config,
        machine=replace(described, visible="+".join(map(str, loaded.visible)), threads=torch.get_num_threads()),
        training=_for_images(config.training, loaded).resolved(machine, loaded.weighted),
        harmonium=__version__,
    )
    return Setup(resolved, machine, loaded)


def _use_threads(config: schema.Config) -> None:
    threads = config.machine.threads
    torch.set_num_threads(choose_threads() if threads is None else threads)


def _for_images(plan: Plan, loaded: rows.Rows) -> Plan:
    """Return the plan with the shape of the images in the penalties of neighboring pixels."""
    if plan.penalties is None or loaded.image is None:
        return plan
    known = [
        replace(part, shape=loaded.image) if isinstance(part, Smooth) and part.shape is None else part
        for part in plan.penalties
    ]
    return replace(plan, penalties=known)


# -- a run folder ---------------------------------------------------------------------------------------------


def read_config(folder: str | Path) -> schema.Config:
    """Read the configuration of a run folder; a run of ``hm.fit`` has no source of its data."""
    run = Run(folder)
    if not run.config_path.exists():
        what = "not a run folder (no config.toml)" if run.folder.exists() else "no such folder; expected a run folder"
        raise RunError(f"{run.folder}: {what}")
    run.read_config()  # raises for a damaged file
    try:
        return schema.read(run.config_path, own_objects=True)
    except InvalidOption as error:
        raise RunError(str(error)) from None


def started_by_fit(folder: str | Path) -> bool:
    """Return whether a run was started with ``hm.fit``, so that its configuration does not name its data."""
    return not Run(folder).recorded("data", "source")


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


def moved(folder: Path, config: schema.Config, source: str | None) -> schema.Config:
    """Return the configuration with the data file at its new place; raise if it cannot be that of the run.

    The contents of a file are compared with the recorded checksum when it is read. A named data set has a fixed
    content and cannot move. A run of ``hm.fit`` needs the source of its rows.
    """
    recorded = config.data.source
    if source is None:
        if not recorded:
            raise RunError(
                f"{folder}: expected --data NAME or FILE; a run of hm.fit does not record where its data are"
            )
        return config
    alike = schema.is_path(recorded) == schema.is_path(source) and (schema.is_path(source) or source == recorded)
    if recorded and not alike:
        what = "the training file" if schema.is_path(recorded) else "the data set"
        raise RunError(f"data: expected {what} of the run ({recorded}), found '{source}'")
    return replace(config, data=replace(config.data, source=source))


def reopen(folder: str | Path, source: str | None = None) -> Setup:
    """Return a run folder as a :class:`Setup` with the machine of its last checkpoint.

    A run of ``hm.fit`` needs the ``source`` of its rows, the name of a data set or a file.
    """
    run, config = Run(folder), read_config(folder)
    if not config.data.source:
        return _with_rows(run, config, source)
    setup = prepare(moved(run.folder, config, source))
    _check_checkpoint(run)
    tensors, _ = files.read_tensors(run.last)
    files.load_parameters(setup.machine, run.last, tensors)
    return setup


def to_continue(folder: str | Path, config: schema.Config, source: str | None = None) -> Setup:
    """Return a run folder as a :class:`Setup` to continue with ``config``, that of the run with more epochs."""
    run = Run(folder)
    if config.data.source:  # its parameters come from the last intact checkpoint
        return prepare(moved(run.folder, config, source))
    schema.read(run.config_path)  # raises for objects that only a program knows
    setup = _with_rows(run, config, source)
    expected, found = config.data.mean, data_mean(setup.rows.train.mean(setup.machine))
    if expected is not None and abs(found - expected) > _TOLERANCE * max(1.0, abs(expected)):
        raise RunError(
            f"data: expected the rows of the run, whose values have the mean {expected:.7g}, found the mean {found:.7g}"
        )
    return setup


def _with_rows(run: Run, config: schema.Config, source: str | None) -> Setup:
    """Return the machine of a run of ``hm.fit`` with the rows of ``source``."""
    _check_checkpoint(run)
    named = moved(run.folder, config, source)
    machine = files.load(run.folder)
    _use_threads(config)
    loaded = rows.load(named)
    expected = config.data.rows
    if expected is not None and len(loaded.train) != expected:
        raise RunError(f"data: expected the {expected} rows of the run, found {len(loaded.train)} in '{source}'")
    machine.to(device=layout.device(config.machine.device))
    return Setup(replace(named, data=loaded.config), machine, loaded)


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
    folder = expand(run)
    Run(folder).check_new()
    return folder
