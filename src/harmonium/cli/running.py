"""The commands ``demo``, ``train``, ``resume`` and ``report``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from .. import files
from ..errors import InvalidOption, MissingExtra, RunError
from ..machines import BoltzmannMachine
from ..runs import config as schema
from ..runs import setup as recipe
from ..runs.rows import Rows, load_test
from ..runs.rows.tables import NAME as TABLE
from ..runs.training import train
from ..training import Callback, MixingTime, Run
from ..training.distributed import writing
from ..training.greedy import machine_folder
from ..training.plan import Plan
from . import INTERRUPTED, Interrupted, Terminated, output, show
from .steps import step
from .tables import described

#: the mixing time is measured in the middle and at the end of a run, with few chains; more would slow down training
_MEASUREMENTS, _MIXING_SWEEPS, _MIXING_CHAINS = 2, 500, 32
_BINARIZED = {"threshold": "by threshold", "sample": "by sampling", "redraw": "by sampling anew each epoch"}


def demo_run(run: Path | None, *, epochs: int, quiet: bool) -> None:
    """Train a binary machine on the built-in digits and write a report."""
    chosen = {
        **{"source": "digits", "binarize": "threshold", "hidden": "bernoulli:128", "epochs": epochs, "batch_size": 50},
        **{"negative": "pcd:2,chains=200", "learning_rate": 0.1, "schedule": "linear:0.3", "penalties": "l2:3e-4"},
    }
    folder = recipe.free_folder(Path("runs") / "demo") if run is None else run
    train_run(chosen, folder, config=None, quiet=quiet, report=True)


def train_run(given: Mapping[str, Any], run: Path | None, *, config: str | None, quiet: bool, report: bool) -> None:
    """Train with the options of a file and those that are given, which override them."""
    kinds = {"data": fields(schema.DataOptions), "machine": fields(schema.MachineOptions), "training": fields(Plan)}
    tables = {name: {one.name: given[one.name] for one in known if one.name in given} for name, known in kinds.items()}
    torch.manual_seed(0)  # the same command gives the same result
    chosen = schema.merge(schema.Config() if config is None else schema.read(config), tables)
    folder = recipe.free_folder(Path("runs") / (Path(chosen.data.source).stem or "run")) if run is None else run
    _train(chosen, folder, quiet=quiet, report=report)


def resume_run(folder: Path, *, epochs: int | None, data: str | None, quiet: bool, report: bool) -> None:
    """Continue from the last checkpoint, to a total of ``epochs`` if given."""
    recipe.read_config(folder)  # raises for another folder, before the lock creates one
    with writing(folder), _interruptible(folder):
        setup = _continued(folder, epochs, data, quiet)
        if setup is not None:
            began = time.perf_counter()
            _fit(setup, folder, quiet=quiet, resume=True)
            _finish(setup, folder, began, quiet=quiet, report=report)


def _continued(folder: Path, epochs: int | None, data: str | None, quiet: bool) -> recipe.Setup | None:
    """Check and prepare the rest of a run, without changing anything; None if nothing is left to do."""
    config, run = recipe.read_config(folder), Run(folder)
    done = recipe.epochs_done(folder)
    if epochs is not None:
        if epochs < done:
            raise InvalidOption(
                f"{folder}: expected --epochs of at least {done}, the number already done, found {epochs}"
            )
        if config.training.epochs == 0:
            raise InvalidOption(f"{folder}: greedy training cannot be extended; expected no --epochs, found {epochs}")
        config.training = replace(config.training, epochs=epochs)
    wanted = config.training.epochs or config.training.pretrain
    if wanted is not None and done >= wanted:
        print(f"{folder}: all {done} epochs are done, nothing to resume; --epochs N continues to N epochs")
        return None
    if done:
        run.read_metrics()  # raises for a damaged table before anything is changed
    setup = recipe.to_continue(folder, config, data)
    if not quiet:
        begin = f"continues after epoch {done}" if done else "no checkpoint yet, starts from the beginning"
        if not done and machine_folder(folder, 0).exists():
            begin = "continues the greedy training"
        print(f"{folder}: {begin}, to epoch {wanted}")
    return setup


def report_run(folder: Path, *, data: str | None = None, image: str | None = None) -> None:
    """Write ``report.html`` into the run folder; for a run of ``hm.fit`` without ``data``, only what needs no rows."""
    if data is None and recipe.started_by_fit(folder):
        from .. import report

        print(report.write(folder, image=output.picture_of(files.load(folder), image)))
        print("The page shows no data and no likelihoods; --data NAME or FILE adds them.")
        return
    setup = recipe.reopen(folder, data)
    setup.rows.image = output.picture_of(setup.machine, image) or setup.rows.image
    print(_write_report(setup, folder))


def plan(setup: recipe.Setup, run: Path) -> dict[str, str]:
    """Describe the training to come, line by line: data, machine and plan."""
    config, rows = setup.config, setup.rows
    how = _BINARIZED.get(config.data.binarize or "")
    parameters = sum(p.numel() for p in setup.machine.parameters() if p.requires_grad)
    held_out = f"{len(rows.held_out):,} held out ({config.data.validation})" if rows.held_out else "none held out"
    if rows.held_out_ratings is not None:
        held_out = f"{len(rows.held_out_ratings.user):,} ratings held out"
    hidden = config.machine.hidden if isinstance(config.machine.hidden, list) else [config.machine.hidden]
    layers = " – ".join(map(str, [config.machine.visible, *hidden]))
    lines = {
        "data": f"{rows.title} ({config.data.source})" + (f", binarized {how}" if how else ""),
        "rows": f"{len(rows.train):,} for training, {held_out}",
        "machine": f"{type(setup.machine).__name__} {layers}, {parameters:,} parameters",
    }
    own = ("source", "binarize", "validation", "columns", "rows", "bytes", "sha256", "mean")
    given = {name: value for name, value in config.tables()["data"].items() if name not in own}
    lines |= {name.replace("_", " "): "yes" if value is True else value for name, value in given.items()}
    if rows.config.similarity is not None and rows.weights is not None:
        lines["rows"] += f" (effective number {rows.weights.sum().item():,.1f})"
    if rows.table is not None:
        lines |= described(rows.table)
    if rows.notes:
        lines[_noted(rows)] = "; ".join(rows.notes)
    chosen, machine = config.training, config.machine
    where = f"{machine.device}, {machine.dtype}, {machine.threads} threads"
    for name, words in chosen.words().items():
        reason = chosen.reasons.get(name)
        lines[name.replace("_", " ")] = words if reason in (None, words) else f"{words} ({reason})"
    return {**lines, "device": where, "run folder": str(run)}


def _noted(rows: Rows) -> str:
    """Return what the notes on the rows are about."""
    kinds = {"sequences": rows.letters, "documents": rows.read_words}
    return next((name for name, known in kinds.items() if known is not None), "note")


def _train(config: schema.Config, run: Path, *, quiet: bool, report: bool) -> None:
    run = recipe.new_folder(run)
    setup = recipe.prepare(config)
    with writing(run), _interruptible(run):
        recipe.new_folder(run)  # another process may have finished in the meantime
        began, folder = time.perf_counter(), Run(run)
        folder.hold()
        try:
            _fit(setup, run, quiet=quiet, announce=lambda: show.facts("harmonium train", plan(setup, run)))
        except Exception:
            if folder.is_held() and _never_saved(folder):
                folder.discard(TABLE)  # nothing to resume from
            raise
        _finish(setup, run, began, quiet=quiet, report=report)


def _never_saved(run: Run) -> bool:
    """Return whether no checkpoint was ever written, also none that a user has deleted since: one follows each row."""
    try:
        return not any(run.folder.rglob("last.safetensors")) and len(run.read_metrics()) < 2
    except RunError:  # the table is damaged, and was written
        return False


def _fit(
    setup: recipe.Setup, run: Path, *, quiet: bool, resume: bool = False, announce: Callable[[], None] | None = None
) -> None:
    callbacks: list[Callback] = []
    if announce is not None and not quiet:
        callbacks.append(show.Announcement(announce))
    if not quiet and len(setup.machine.couplings) > 1:
        callbacks.append(show.Stages())
    if _mixes(setup):
        often = max(1, (setup.config.training.epochs or 1) // _MEASUREMENTS)
        callbacks.insert(0, MixingTime(every=often, sweeps=_MIXING_SWEEPS, chains=_MIXING_CHAINS))
    if setup.rows.held_out_ratings is not None:
        from .ratings import held_out_error

        callbacks.insert(0, held_out_error(setup))
    train(setup, run, resume=resume, progress=not quiet, callbacks=callbacks)


def _mixes(setup: recipe.Setup) -> bool:
    """Return whether the chains of the machine have one common distribution, so that a mixing time can be measured."""
    machine = setup.machine
    single = isinstance(machine, BoltzmannMachine) and machine.context is None
    return single and not machine.visible.conserves and not setup.config.training.pretrain


def _finish(setup: recipe.Setup, run: Path, began: float, *, quiet: bool, report: bool) -> None:
    """Write the report and print the metrics at the end; training has begun at the time ``began`` of the clock."""
    trained, missing = time.perf_counter(), None
    if report:
        try:
            with nullcontext() if quiet else step("report"):
                _write_report(setup, run)
        except MissingExtra as error:  # the machine is trained and saved all the same
            missing = error
    times = f"training {show.duration(trained - began)}"
    if report and missing is None:
        times += f", report {show.duration(time.perf_counter() - trained)}"
    if not quiet:
        last = Run(run).read_metrics()[-1]
        show.facts("done", {"time": times, **show.metrics(last, _MIXING_SWEEPS), "run folder": run})
    if missing is not None:
        print(f"{run}: no report; {missing}", file=sys.stderr)
    elif report and not quiet:
        print(f"Open {run / 'report.html'} in a browser.")


def _write_report(setup: recipe.Setup, run: Path) -> Path:
    from .. import report

    if setup.machine.machines[0].context is not None:
        from .frames import sequences_of

        name, frames = sequences_of(setup)
        return report.write(run, test_name=name, sequences=frames)
    name, test = load_test(setup.config, setup.rows)
    return report.write(
        run,
        data=report.some_rows(setup.rows.train, setup.machine, seed=0),
        test=None if test is None else report.some_rows(test, setup.machine, seed=0),
        test_name=name,
        image=setup.rows.image,
        letters=setup.rows.letters,
    )


@contextmanager
def _interruptible(run: Path) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        status = stop.status if isinstance(stop, Terminated) else INTERRUPTED
        if not Run(run).exists():
            raise Interrupted("stopped before the first checkpoint; nothing is left to resume", status) from None
        raise Interrupted(f"stopped; 'harmonium resume {run}' continues from the last checkpoint", status) from None
