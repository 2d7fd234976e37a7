"""The commands. Each imports what it needs when it runs, so that help and mistakes answer quickly."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import Interrupted
from .once import App

if TYPE_CHECKING:
    from ..runs.config import Config
    from ..runs.setup import Setup
    from ..training import Callback

app = App(
    name="harmonium",
    help="Restricted Boltzmann machines: train, measure and study them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = App(help="The data sets that are known by name.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")]
FolderOrFile = Annotated[Path, typer.Argument(metavar="DIR|FILE", help="A run folder or a .safetensors file.")]
OtherData = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE", help="The run's data file, where it has moved.", show_default=False),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"harmonium {__version__}")
        raise typer.Exit


@app.callback()
def harmonium(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Restricted Boltzmann machines: train, measure and study them."""


# -- training -------------------------------------------------------------------------------------------------


@app.command()
def demo(
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run folder; by default runs/demo, or runs/demo-2, … where that exists."),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs.")] = 400,
    quiet: Quiet = False,
) -> None:
    """Train a binary machine on the embedded digits (about half a minute) and write its report."""
    from ..runs import config as schema
    from ..runs.setup import free_folder

    options: dict[str, dict[str, Any]] = {
        "data": {"source": "digits", "binarize": "threshold"},
        "machine": {"hidden": "bernoulli:128"},
        "training": {
            "epochs": epochs,
            "batch_size": 50,
            "negative": "pcd:2",
            "chains": 200,
            "learning_rate": 0.1,
            "schedule": "linear:0.3",
            "l2": 3e-4,
            "metrics_every": max(1, epochs // 100),
        },
    }
    folder = free_folder(Path("runs") / "demo") if run is None else run
    _train(schema.merge(schema.Config(), options), folder, quiet=quiet, report=True)


Setting = typer.Option(show_default=False)


@app.command()
def train(
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="A data set's name, or a .npy, .npz, .csv or .parquet file.")
    ] = None,
    visible: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help="Visible units: bernoulli, potts:21, …; the shape comes from the data."),
    ] = None,
    hidden: Annotated[
        str | None, typer.Option(metavar="UNIT:N", help="Hidden units, such as bernoulli:500. [bernoulli:100]")
    ] = None,
    negative: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD:K",
            help="cd:K, pcd:K, parallel-tempering:K,rungs=N, trajectory-tempering:K, mean-field:K or exact. [pcd:1]",
        ),
    ] = None,
    chains: Annotated[int | None, typer.Option(help="Persistent chains. [as many as rows in a batch]")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the data. [10, or as many as make 2000 updates]")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of a step. [100]")] = None,
    seed: Annotated[int | None, typer.Option(help="All randomness follows from it. [0]")] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run folder, new. [runs/DATA, or runs/DATA-2, …]")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Options from a TOML file; those given here win.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Settings found by measuring: plain, best or best-fixed; those given win."),
    ] = None,
    binarize: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="threshold, sample, redraw (each epoch) or none. [threshold: images]"),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of a named data set. [train]")] = None,
    validation: Annotated[
        str | None, typer.Option(metavar="SPLIT|SHARE", help="Held-out rows: a split, a share such as 0.1, or none.")
    ] = None,
    image: Annotated[
        str | None, typer.Option(metavar="HxW", help="Rows of a file are pictures of this size (or CxHxW).")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="[sgd: from the data, 0.05 with momentum; others: 0.001]")
    ] = None,
    optimizer: Annotated[str | None, typer.Option(metavar="NAME", help="sgd, adam, adamw or rmsprop. [sgd]")] = None,
    momentum: Annotated[float | None, typer.Option(help="Of sgd or rmsprop.")] = None,
    schedule: Annotated[
        str | None, typer.Option(metavar="NAME", help="constant, linear:0.3 or growing:10. [constant]")
    ] = None,
    centered: Annotated[
        bool | None, typer.Option("--centered/--no-centered", help="The centered gradient. [on]")
    ] = None,
    average: Annotated[
        float | None, typer.Option(help="Average the parameters over this last share of the run.")
    ] = None,
    l1: Annotated[float | None, typer.Option("--l1", help="Penalty on |W|.")] = None,
    l2: Annotated[float | None, typer.Option("--l2", help="Penalty on W².")] = None,
    l1_squared: Annotated[
        float | None, typer.Option("--l1-squared", help="Penalty on (Σ|W|)² of hidden units.")
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of the gradient.")] = None,
    zero_sum: Annotated[
        bool | None, typer.Option("--zero-sum/--no-zero-sum", help="Zero-sum gauge of potts units.")
    ] = None,
    initialize: Annotated[str | None, typer.Option(metavar="KIND", help="Weights: normal or sign. [normal]")] = None,
    scale: Annotated[float | None, typer.Option(help="Of the starting weights. [normal: 0.01, sign: √(0.1/N)]")] = None,
    metrics_every: Annotated[int | None, typer.Option(help="Epochs between measurements. [1]")] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Of matrix products: float32 or bfloat16, faster. [float32]")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Of the processor. [torch's choice]")] = None,
    dtype: Annotated[str | None, typer.Option(metavar="TYPE", help="float32 or float64. [float32]")] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda, … [cpu]")] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")] = True,
    quiet: Quiet = False,
) -> None:
    """Train a machine on DATA and keep configuration, metrics, checkpoints and a report in a run folder."""
    from dataclasses import fields

    from ..runs import config as schema
    from ..runs import presets
    from ..runs.setup import free_folder

    given = {**locals(), "source": data}
    options = {
        table: {field.name: given[field.name] for field in fields(kind) if field.name in given}
        for table, kind in (("data", schema.Data), ("machine", schema.Machine), ("training", schema.Training))
    }
    begin = schema.Config() if config is None else schema.read(config)
    if preset is not None:
        begin = schema.merge(begin, {"training": presets.find(preset)})
    chosen = schema.merge(begin, options)
    folder = free_folder(Path("runs") / (Path(chosen.data.source).stem or "run")) if run is None else run
    _train(chosen, folder, quiet=quiet, report=report)


def _train(config: Config, run: Path, *, quiet: bool, report: bool) -> None:
    from ..runs.setup import new_folder, prepare

    run = new_folder(run)
    setup = prepare(config)
    made = not run.exists()
    with _interruptible(run):
        try:
            _fit(setup, run, quiet=quiet, announce=lambda: _plan(setup, run))
        except Exception:
            if made and not (run / "checkpoints" / "last.safetensors").exists():
                shutil.rmtree(run, ignore_errors=True)  # nothing to go on from: leave nothing
            raise
        _finish(setup, run, quiet=quiet, report=report)


@app.command()
def resume(
    folder: Folder,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Go on to this many epochs in all.", show_default=False)
    ] = None,
    data: OtherData = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")] = True,
    quiet: Quiet = False,
) -> None:
    """Go on from the last checkpoint, to the bit as if training had never stopped."""
    from ..errors import InvalidOption
    from ..runs.setup import epochs_done, prepare, read_config
    from ..training import Run

    config = read_config(folder)
    done = epochs_done(folder)
    if epochs is not None:
        if epochs < done:
            raise InvalidOption(
                f"{folder}: {done} epochs are done already; expected --epochs of at least that, found {epochs}"
            )
        config.training.epochs = epochs
    if config.training.epochs is not None and done >= config.training.epochs:
        print(f"{folder}: finished, all {done} epochs are done; nothing to resume (--epochs N goes on to N)")
        return
    if data is not None:
        config.data.source = data
    if done:
        Run(folder).read_metrics()  # a damaged table is found before anything is changed
    setup = prepare(config)
    if not quiet:
        begin = f"goes on after epoch {done}" if done else "no checkpoint yet: begins again"
        print(f"{folder}: {begin}, to epoch {setup.config.training.epochs}")
    if epochs is not None and done:
        Run(folder).write_config(setup.config.to_dict())
    with _interruptible(folder):
        _fit(setup, folder, quiet=quiet, resume=True)
        _finish(setup, folder, quiet=quiet, report=report)


def _fit(
    setup: Setup, run: Path, *, quiet: bool, resume: bool = False, announce: Callable[[], None] | None = None
) -> None:
    from ..runs.setup import train as begin
    from . import show

    callbacks: list[Callback] = []
    if announce is not None and not quiet:
        callbacks.append(show.Announcement(announce))
    if not quiet and not sys.stderr.isatty():
        callbacks.append(show.PlainLines())
    begin(setup, run, resume=resume, progress=not quiet, callbacks=callbacks)


def _finish(setup: Setup, run: Path, *, quiet: bool, report: bool) -> None:
    from ..training import Run
    from . import show

    if report:
        _write_report(setup, run)
    if quiet:
        return
    last = Run(run).read_metrics()[-1]
    rows = {name.replace("_", " "): show.number(value) for name, value in last.items()}
    rows["seconds"] = show.duration(last["seconds"])
    show.facts("done", {**rows, "run folder": run})
    if report:
        print(f"Look at {run / 'report.html'} in a browser.")


def _write_report(setup: Setup, run: Path) -> Path:
    from .. import report
    from ..runs.rows import load_test

    name, test = load_test(setup.config, setup.rows)
    return report.write(
        run,
        data=report.some_rows(setup.rows.train, setup.machine),
        test=None if test is None else report.some_rows(test, setup.machine),
        test_name=name,
        image=setup.rows.image,
        letters=setup.rows.letters,
    )


def _plan(setup: Setup, run: Path) -> None:
    from . import show

    config, rows = setup.config, setup.rows
    chosen, held = config.training, rows.held_out
    words = {"threshold": "by threshold", "sample": "by a draw", "redraw": "by a new draw each epoch"}
    how = words.get(config.data.binarize or "")
    binarized = f", binarized {how}" if how else ""
    parameters = sum(p.numel() for p in setup.machine.parameters() if p.requires_grad)
    extras = [
        f"{name.replace('_', '-')} {value if value is not True else ''}".strip()
        for name in ("centered", "l1", "l2", "l1_squared", "clip", "zero_sum", "average")
        if (value := getattr(chosen, name)) not in (None, False)
    ]
    rounded = "" if chosen.precision == "float32" else f" (products {chosen.precision})"
    momentum = "" if chosen.momentum is None else f", momentum {chosen.momentum:g}"
    chains = "" if chosen.chains is None else f", {chosen.chains} chains"
    rate = "chosen from the data" if chosen.learning_rate is None else f"{chosen.learning_rate:g}"
    show.facts(
        "harmonium train",
        {
            "data": f"{rows.title} ({config.data.source}){binarized}",
            "rows": f"{len(rows.train):,} to learn from, " + (f"{len(held):,} held out" if held else "none held out"),
            "machine": f"RBM {config.machine.visible} – {config.machine.hidden}, {parameters:,} parameters, "
            f"{config.machine.dtype}{rounded} on {chosen.device}, {chosen.threads} thread{'s' * (chosen.threads != 1)}",
            "negative phase": chosen.negative + chains,
            "optimizer": f"{chosen.optimizer}, learning rate {rate}{momentum}",
            "schedule": f"{chosen.schedule}, {chosen.epochs} epochs of batches of {chosen.batch_size}",
            "transforms": ", ".join(extras) or "none",
            "seed": chosen.seed,
            "run folder": run,
        },
    )


@contextmanager
def _interruptible(run: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; 'harmonium resume {run}' goes on from the last checkpoint") from None


# -- looking at a run -----------------------------------------------------------------------------------------


@app.command()
def sample(
    folder: FolderOrFile,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of samples.")] = 64,
    steps: Annotated[int, typer.Option(min=0, help="Gibbs sweeps of each chain.")] = 1000,
    start: Annotated[str, typer.Option(metavar="random|data", help="Where chains start.")] = "random",
    seed: Annotated[int, typer.Option(help="Of the chains.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A .npy, .npz, .csv or .png file; by default samples.npy in DIR or beside FILE."
        ),
    ] = None,
    data: OtherData = None,
) -> None:
    """Draw samples from a trained machine."""
    from ..errors import InvalidOption, unknown
    from . import output

    if start not in ("random", "data"):
        raise unknown("start", start, ("random", "data"))
    _exists(folder)
    path = (folder if folder.is_dir() else folder.parent) / "samples.npy" if out is None else out
    output.check(path)
    machine, rows = _open(folder, data, need_rows=start == "data" or path.suffix == ".png")
    begin = None
    if start == "data":
        if rows is None:
            raise InvalidOption(f"{folder}: --start data needs a run folder, which knows its data; found a file")
        from ..report import some_rows

        begin = some_rows(rows.train, machine, n, seed=seed)
    samples = machine.sample(n, steps=steps, start=begin, seed=seed)
    output.write(path, samples, machine, None if rows is None else rows.image)
    print(f"{n} samples after {steps} sweeps: {path}")


def _exists(path: Path) -> None:
    from ..errors import RunError

    if not path.exists():
        raise RunError(f"{path}: no such file or folder; expected a run folder or a .safetensors file")


def _open(folder: Path, source: str | None, need_rows: bool) -> tuple[Any, Any]:
    """The machine of a run folder or of a file, and its rows where they are needed and known."""
    from .. import files
    from ..runs.setup import reopen

    if need_rows and folder.is_dir():
        setup = reopen(folder, source)
        return setup.machine, setup.rows
    return files.load(folder), None


@app.command()
def evaluate(
    folder: Folder,
    data: OtherData = None,
    temperatures: Annotated[
        int, typer.Option(min=0, help="Steps of annealed importance sampling, each way; 0 leaves it out.")
    ] = 5000,
    samples: Annotated[
        int, typer.Option(min=0, help="Also draw so many samples and compare them with the data; 0 leaves it out.")
    ] = 0,
    steps: Annotated[int, typer.Option(min=1, help="Gibbs sweeps of the samples, from training rows.")] = 1000,
) -> None:
    """Measure a trained machine on the training rows and on rows it has not seen."""
    from ..errors import InvalidOption
    from ..quality.inputs import FEWEST_ROWS
    from ..report import evaluation, some_rows
    from ..runs.rows import load_test
    from ..runs.setup import reopen
    from . import show

    if 0 < samples < FEWEST_ROWS:
        raise InvalidOption(f"samples: expected 0 or at least {FEWEST_ROWS}, found {samples}")
    setup = reopen(folder, data)
    name, test = load_test(setup.config, setup.rows)
    train_rows = some_rows(setup.rows.train, setup.machine, 20_000)
    test_rows = None if test is None else some_rows(test, setup.machine, 20_000)
    subject = evaluation.Subject(setup.machine, train_rows, test_rows, temperatures=temperatures)
    rows = evaluation.evaluate(subject)
    seen = f"{len(train_rows):,} training rows" + ("" if test_rows is None else f", {len(test_rows):,} {name} rows")
    show.table(
        f"{folder}: {setup.rows.title}, {seen}",
        ["measure", "in", "train", name, "better", "how"],
        [[r.name, r.unit, show.number(r.train, 5), show.number(r.test, 5), r.better, r.note] for r in rows],
        numbers=(2, 3),
    )
    if samples:
        _compare(folder, setup.machine, train_rows, test_rows, samples, steps)


def _compare(folder: Path, machine: Any, train: Any, test: Any, n: int, steps: int) -> None:
    """Compare samples with unseen rows where there are some, else with the training rows; table and picture."""
    from .. import files, plots, quality
    from . import show

    drawn = machine.sample(n, steps=steps, start=train, seed=0)
    found = quality.compare(drawn, train if test is None else test, train=None if test is None else train, seed=0)
    show.table(
        f"{n:,} samples after {steps} sweeps from training rows",
        ["samples against data", "value", "error", "ideal"],
        [[r.name, show.number(r.value, 4), show.number(r.error, 2), show.number(r.ideal, 4)] for r in found.table()],
        numbers=(1, 2, 3),
    )
    print(found.verdict)
    path = folder / "quality.png"
    files.write_figure(path, plots.quality(found))
    print(path)


@app.command()
def denoise(
    folder: Folder,
    data: OtherData = None,
    levels: Annotated[
        str | None,
        typer.Option(metavar="P,P,…", help="Of the noise: flips of binary units, else its width. [a range]"),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=2, help="Rows to denoise, of those not seen in training.")] = 200,
    method: Annotated[str, typer.Option(metavar="tap|naive|gibbs", help="Of inference.")] = "tap",
    neighbors: Annotated[int, typer.Option(min=1, help="Of the baseline of nearest neighbors.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
) -> None:
    """Clean noisy rows with a trained machine, beside what single pixels and nearest neighbors would give."""
    from .tasks import denoise_run

    chosen = () if levels is None else tuple(_number("levels", part) for part in levels.split(","))
    denoise_run(folder, data=data, levels=chosen, n=n, method=method, neighbors=neighbors, seed=seed)


def _number(name: str, text: str) -> float:
    from ..errors import InvalidOption

    try:
        return float(text)
    except ValueError:
        raise InvalidOption(f"{name}: expected numbers with commas between, found '{text}'") from None


@app.command()
def spectrum(
    folder: Folder,
    data: OtherData = None,
    layer: Annotated[int, typer.Option(min=0, help="The lower layer of the coupling.")] = 0,
    relative: Annotated[
        bool, typer.Option("--relative", help="Weights in units of the free units' spread: as those of ±1 spins.")
    ] = False,
) -> None:
    """Show the singular values of the weights along the run, and the modes beside the data's principal axes."""
    from .views import spectrum_run

    spectrum_run(folder, data=data, layer=layer, relative=relative)


@app.command()
def landscape(
    folder: Folder,
    data: OtherData = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Rows of the data to start from.")] = 1000,
    method: Annotated[str, typer.Option(metavar="tap|naive|adatap", help="Of mean field.")] = "tap",
    seed: Annotated[int, typer.Option(help="Of the choice of rows.")] = 0,
) -> None:
    """Count the mean-field solutions along the run: too few, too many, or healthy."""
    from .views import landscape_run

    landscape_run(folder, data=data, n=n, method=method, seed=seed)


@app.command()
def interactions(
    folder: Folder,
    data: OtherData = None,
    order: Annotated[int, typer.Option(min=1, help="Units that interact.")] = 2,
    count: Annotated[int, typer.Option("-n", min=1, help="Of the strongest to print.")] = 20,
    gauge: Annotated[str | None, typer.Option(metavar="NAME", help="lattice-gas or zero-sum. [by the units]")] = None,
) -> None:
    """Print the strongest interactions between visible units that the hidden units bring about."""
    from .views import interactions_run

    interactions_run(folder, data=data, order=order, count=count, gauge=gauge)


@app.command()
def info(path: FolderOrFile) -> None:
    """Say what is in a run folder or a file: machine, training, last metrics, files."""
    from .about import describe

    _exists(path)
    describe(path)


@app.command("report")
def report_command(folder: Folder, data: OtherData = None) -> None:
    """Write report.html, one self-contained page about the run."""
    from ..runs.setup import reopen

    print(_write_report(reopen(folder, data), folder))


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name, such as mnist/500. Without it, list all names.")
    ] = None,
    scale: Annotated[
        str,
        typer.Option(metavar="quick|full", help="quick: minutes on a laptop; full: the settings of the paper."),
    ] = "quick",
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New folder for the results. [runs/NAME, or runs/NAME-2, …]")
    ] = None,
    preset: Annotated[str | None, typer.Option(metavar="NAME", help="Training settings: plain or best.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="Option of the experiment.")
    ] = None,
) -> None:
    """Reproduce a published result: figures, numbers, and a verdict on every claim."""
    from .reproduce import list_experiments, run_experiment

    if name is None:
        list_experiments()
    else:
        run_experiment(name, scale, run, preset, option or ())


# -- data sets ------------------------------------------------------------------------------------------------


@data_app.command("list")
def data_list() -> None:
    """List the data sets, and which are at hand."""
    from .. import data
    from . import show

    rows = []
    for name in data.names():
        facts, status = data.info(name), data.status(name)
        found = status if status in ("embedded", "missing") else "found"
        sizes = " + ".join(f"{n:,} {split}" for split, n in facts.splits.items())
        rows.append(
            [name, found, facts.kind, "×".join(map(str, facts.shape)), sizes, facts.suggested_visible, facts.license]
        )
    show.table("data sets", ["name", "status", "kind", "shape", "rows", "units", "license"], rows)
    if any(row[1] == "missing" for row in rows):
        print("How to get a missing one: harmonium data info NAME")


@data_app.command("info")
def data_info(name: Annotated[str, typer.Argument(metavar="NAME", help="A data set's name.")]) -> None:
    """Say all that is known of a data set."""
    from .. import data
    from . import show

    facts, status = data.info(name), data.status(name)
    rows: dict[str, Any] = {
        "name": facts.name,
        "status": status,
        "kind": facts.kind,
        "shape": "×".join(map(str, facts.shape)),
        "rows": ", ".join(f"{n:,} {split}" for split, n in facts.splits.items()),
        "split": facts.split_rule,
        "suggested units": facts.suggested_visible,
        "labels": facts.label_meaning or "none",
        "license": facts.license,
        "citation": facts.citation,
        "source": facts.source,
        "how to obtain": facts.obtain,
    }
    if facts.note:
        rows["note"] = facts.note
    for file in facts.files:
        rows[file.name] = f"{file.size:,} bytes, sha256 {file.sha256}"
    show.facts(facts.title, rows)
