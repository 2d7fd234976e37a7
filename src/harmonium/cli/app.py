"""The commands and their options. The work is in the other modules, which a command imports when it runs, so that help
and mistakes answer quickly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..options.presets import preset_names
from .declared import by_table, with_run_options
from .once import App

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
PresetName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"Settings found by measuring: {preset_names()}; options that are given win."),
]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")]
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
    from .running import demo_run

    demo_run(run, epochs=epochs, quiet=quiet)


@app.command()
@with_run_options
def train(
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run folder, new. [runs/DATA, or runs/DATA-2, …]")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Options from a TOML file; those given here win.")
    ] = None,
    preset: PresetName = None,
    report: Report = True,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Train a machine on DATA and keep configuration, metrics, checkpoints and a report in a run folder."""
    from .running import train_run

    train_run(by_table(given), run, config=config, preset=preset, quiet=quiet, report=report)


@app.command()
def resume(
    folder: Folder,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Continue to this many epochs in all.", show_default=False)
    ] = None,
    data: OtherData = None,
    report: Report = True,
    quiet: Quiet = False,
) -> None:
    """Continue from the last checkpoint, bit-for-bit as if training had never stopped."""
    from .running import resume_run

    resume_run(folder, epochs=epochs, data=data, quiet=quiet, report=report)


# -- looking at a run -----------------------------------------------------------------------------------------


@app.command()
def sample(
    folder: FolderOrFile,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of samples.")] = 64,
    sweeps: Annotated[int, typer.Option(min=0, help="Gibbs sweeps of each chain.")] = 1000,
    start: Annotated[str, typer.Option(metavar="random|data", help="Where chains start.")] = "random",
    seed: Annotated[int, typer.Option(help="Seed of the chains.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A .npy, .npz, .csv or .png file; by default samples.npy in DIR or beside FILE."
        ),
    ] = None,
    data: OtherData = None,
) -> None:
    """Draw samples from a trained machine."""
    from .measuring import sample_run

    sample_run(folder, n=n, sweeps=sweeps, start=start, seed=seed, out=out, data=data)


@app.command()
def evaluate(
    folder: Folder,
    data: OtherData = None,
    betas: Annotated[
        int, typer.Option(min=0, help="Steps of annealed importance sampling, each way; 0 leaves it out.")
    ] = 5000,
    samples: Annotated[
        int, typer.Option(min=0, help="Also draw so many samples and compare them with the data; 0 leaves it out.")
    ] = 0,
    sweeps: Annotated[int, typer.Option(min=1, help="Gibbs sweeps of the samples, from training rows.")] = 1000,
) -> None:
    """Measure a trained machine on the training rows and on rows it has not seen."""
    from .measuring import evaluate_run

    evaluate_run(folder, data=data, betas=betas, samples=samples, sweeps=sweeps)


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
    from .tasks import denoise_run, numbers

    denoise_run(folder, data=data, levels=numbers("levels", levels), n=n, method=method, neighbors=neighbors, seed=seed)


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
    n: Annotated[int, typer.Option("-n", min=1, help="Of the strongest to print.")] = 20,
    gauge: Annotated[str | None, typer.Option(metavar="NAME", help="lattice-gas or zero-sum. [by the units]")] = None,
) -> None:
    """Print the strongest interactions between visible units that the hidden units bring about."""
    from .views import interactions_run

    interactions_run(folder, data=data, order=order, n=n, gauge=gauge)


@app.command()
def info(path: FolderOrFile) -> None:
    """Show the contents of a run folder or a file: machine, training, last metrics, files."""
    from .about import describe

    describe(path)


@app.command("report")
def report_command(folder: Folder, data: OtherData = None) -> None:
    """Write report.html, one self-contained page about the run."""
    from .running import report_run

    report_run(folder, data=data)


# -- published results and data sets --------------------------------------------------------------------------


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
    preset: PresetName = None,
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
    from .data_sets import list_data

    list_data()


@data_app.command("info")
def data_info(name: Annotated[str, typer.Argument(metavar="NAME", help="A data set's name.")]) -> None:
    """Show all that is known of a data set."""
    from .data_sets import describe_data

    describe_data(name)
