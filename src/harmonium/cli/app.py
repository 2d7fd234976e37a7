"""The commands and their options. A command imports its implementation when it runs, so that help is fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .calls import calls
from .command import App
from .training_command import train

app = App(
    name="harmonium",
    help="Train, evaluate and analyze restricted Boltzmann machines.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = App(group="data", help="List and describe the named data sets.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")]
FolderOrFile = Annotated[Path, typer.Argument(metavar="DIR|FILE", help="A run folder or a .safetensors file.")]
OtherData = Annotated[
    str | None,
    typer.Option("--data", metavar="FILE", help="Data file of the run, if it has moved.", show_default=False),
]
ImageShape = Annotated[
    str | None,
    typer.Option(
        "--image", metavar="HxW", help="Image size of a row, HxW or CxHxW. [recorded by 'train']", show_default=False
    ),
]
TableFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Table to write; the figure is beside it. [in DIR]"),
]
Figures = Annotated[str, typer.Option(metavar="png|pdf|svg", help="Format of the figures.")]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")]
Json = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]
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
    """Train, evaluate and analyze restricted Boltzmann machines."""


# -- training -------------------------------------------------------------------------------------------------


@app.command()
@calls("running.demo_run")
def demo(
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="New run folder. [runs/demo, or runs/demo-2, …]"),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 150,
    quiet: Quiet = False,
) -> None:
    """Train a binary machine on the built-in digits (about half a minute) and write a report."""


app.command()(train)


@app.command()
@calls("running.resume_run")
def resume(
    folder: Folder,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Continue to this total number of epochs.", show_default=False)
    ] = None,
    data: OtherData = None,
    report: Report = True,
    quiet: Quiet = False,
) -> None:
    """Continue from the last checkpoint; the result is bit-for-bit that of an uninterrupted run."""


# -- using a run ----------------------------------------------------------------------------------------------


@app.command()
@calls("measuring.sample_run")
def sample(
    folder: FolderOrFile,
    n: Annotated[int, typer.Option("-n", min=1, max=10**9, help="Number of samples.")] = 64,
    sweeps: Annotated[int, typer.Option(min=0, help="Gibbs sweeps per chain.")] = 1000,
    start: Annotated[
        str, typer.Option(metavar="random|data", help="Initial states: random, or rows of the data.")
    ] = "random",
    label: Annotated[
        int | None,
        typer.Option(min=0, help="Draw samples of this class; the run needs labels.", show_default=False),
    ] = None,
    tempering: Annotated[
        bool, typer.Option("--tempering", help="Use parallel tempering, for machines whose Gibbs chains do not mix.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random generator.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A .npy, .npz, .csv or .png file; .fasta or .csv for sequences; .txt or .csv for documents. "
            "[samples.npy in DIR, or in the folder of FILE; samples.fasta for a run on sequences of letters, "
            "samples.txt for a run on documents, samples.csv for a run on a table or on ratings]",
        ),
    ] = None,
    data: OtherData = None,
    image: ImageShape = None,
    json: Json = False,
) -> None:
    """Draw samples from a trained machine; a warning says if the chains have not mixed."""


@app.command()
@calls("measuring.evaluate_run")
def evaluate(
    folder: Folder,
    data: OtherData = None,
    betas: Annotated[
        int, typer.Option(min=0, help="Steps of annealed importance sampling in each direction; 0 skips it.")
    ] = 5000,
    samples: Annotated[
        int, typer.Option(min=0, help="Number of samples to draw and compare with the data; 0 skips it.")
    ] = 0,
    sweeps: Annotated[int, typer.Option(min=1, help="Gibbs sweeps per sample, starting from training rows.")] = 1000,
    json: Json = False,
) -> None:
    """Evaluate a trained machine on training rows and on held-out rows; the report then shows these numbers."""


@app.command()
@calls("comparing.compare_runs")
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR DIR…", help="Two or more run folders.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Page to write (HTML).")] = Path("compare.html"),
    json: Json = False,
) -> None:
    """Compare runs: their numbers in a table; learning curves and samples on one page."""


@app.command("select")
@calls("selecting.select_run")
def select_command(
    source: Annotated[str, typer.Argument(metavar="DATA", help="Name of a data set, or a file.")],
    hidden: Annotated[
        str, typer.Option(metavar="N,N,…", help="Hidden layers to compare: 8,16,32 or bernoulli:8,relu:8.")
    ],
    l2: Annotated[str | None, typer.Option(metavar="X,X,…", help="Strengths of the L2 penalty to compare.")] = None,
    l1: Annotated[str | None, typer.Option(metavar="X,X,…", help="Strengths of the L1 penalty to compare.")] = None,
    l1_squared: Annotated[
        str | None, typer.Option(metavar="X,X,…", help="Strengths of the L1² penalty to compare.")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of parts of the rows.")] = 5,
    one_standard_error: Annotated[
        bool,
        typer.Option("--one-standard-error", help="Choose the simplest within one standard error of the best."),
    ] = False,
    visible: Annotated[str | None, typer.Option(metavar="UNIT", help="Visible units. [as in train]")] = None,
    binarize: Annotated[str | None, typer.Option(metavar="METHOD", help="Binarization. [as in train]")] = None,
    array: Annotated[
        str | None, typer.Option(metavar="NAME", help="Array in a .mat, .h5 or .npz file. [as in train]")
    ] = None,
    transpose: Annotated[bool, typer.Option("--transpose", help="The columns of the file are the samples.")] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of each training. [as in train]")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows of a batch. [as in train]")] = None,
    negative: Annotated[str | None, typer.Option(metavar="PHASE", help="Negative phase. [as in train]")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes. [number of processors]")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds and of the training.")] = 0,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Plot: .png, .pdf or .svg.")] = Path("select.png"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose hidden units and a penalty by cross-validation on the training rows, in parallel processes."""


@app.command()
@calls("tables.impute_run")
def impute(
    folder: Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A table with missing cells: .csv, .tsv or .parquet.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Completed table to write. [imputed.csv in DIR]")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="exact|gibbs|tap|naive", help="Inference method. [exact for up to 16 hidden units, else gibbs]"
        ),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Fill in a random draw of the missing cells, not their most probable values.")
    ] = False,
    sweeps: Annotated[int, typer.Option(min=2, help="Gibbs sweeps per row.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of the random generator.")] = 0,
) -> None:
    """Fill in the missing cells of a table with the machine of a run on a table."""


@app.command()
@calls("tasks.classify_run")
def classify(
    folder: Folder,
    data: OtherData = None,
    json: Json = False,
) -> None:
    """Classify the test rows, or the held-out rows, of a run with labels: error and table of confusions."""


@app.command()
@calls("tasks.denoise_run")
def denoise(
    folder: Folder,
    data: OtherData = None,
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="P,P,…", help="Noise levels: flip probabilities (binary units) or standard deviations. [a range]"
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=2, help="Number of held-out rows to denoise.")] = 200,
    method: Annotated[
        str | None,
        typer.Option(metavar="exact|tap|naive|gibbs", help="Inference method. [exact for few hidden units, else tap]"),
    ] = None,
    neighbors: Annotated[int, typer.Option(min=1, help="Number of neighbors of the nearest-neighbor baseline.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    json: Json = False,
) -> None:
    """Denoise rows with a trained machine, and compare with single-pixel and nearest-neighbor baselines."""


@app.command()
@calls("views.spectrum_run")
def spectrum(
    folder: Folder,
    data: OtherData = None,
    layer: Annotated[int, typer.Option(min=0, help="Index of the lower layer of the coupling.")] = 0,
    relative: Annotated[
        bool,
        typer.Option(
            "--relative", help="Scale weights by the standard deviations of the free units, comparable to ±1 spins."
        ),
    ] = False,
    figures: Figures = "png",
    json: Json = False,
) -> None:
    """Show the singular values of the weights during training, compared with noise and with the data."""


@app.command()
@calls("views.landscape_run")
def landscape(
    folder: Folder,
    data: OtherData = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of data rows to start from.")] = 1000,
    method: Annotated[str, typer.Option(metavar="tap|naive|adatap", help="Mean-field method.")] = "tap",
    seed: Annotated[int, typer.Option(help="Seed of the choice of rows.")] = 0,
    figures: Figures = "png",
    json: Json = False,
) -> None:
    """Count the mean-field solutions during training, and report if there are too few or too many."""


@app.command()
@calls("views.interactions_run")
def interactions(
    folder: Folder,
    data: OtherData = None,
    order: Annotated[int, typer.Option(min=1, help="Order: number of units in an interaction.")] = 2,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of interactions to print, strongest first.")] = 20,
    gauge: Annotated[
        str | None, typer.Option(metavar="NAME", help="Gauge: lattice-gas or zero-sum. [depends on the units]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plot to write for order 2: .png, .pdf or .svg. [interactions.png in DIR]"),
    ] = None,
    json: Json = False,
) -> None:
    """Print the strongest effective interactions between visible units."""


@app.command()
@calls("sequences.contacts_run")
def contacts(
    folder: Folder,
    data: OtherData = None,
    contact_map: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="Known contacts: pairs of sites counted from 1, pairs and distances, or a matrix.",
        ),
    ] = None,
    cutoff: Annotated[float, typer.Option(help="Distance below which two sites are in contact.")] = 8.0,
    separation: Annotated[int, typer.Option(min=1, help="Smallest distance of two sites along the sequence.")] = 5,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of pairs to print.")] = 20,
    out: TableFile = None,
    figures: Figures = "png",
    json: Json = False,
) -> None:
    """Predict contacts from a run on sequences: pairs of sites by the corrected norms of their couplings."""


@app.command()
@calls("sequences.mutants_run")
def mutants(
    folder: Folder,
    sequence: Annotated[
        str, typer.Option(metavar="NAME|LETTERS", help="Wild type: name of a training sequence, or its letters.")
    ],
    data: OtherData = None,
    out: TableFile = None,
    figures: Figures = "png",
    json: Json = False,
) -> None:
    """Compute ln p(mutant) - ln p(wild type) for all single mutations of a sequence."""


@app.command()
@calls("sequences.logos_run")
def logos(
    folder: Folder,
    data: OtherData = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of hidden units, strongest first.")] = 6,
    sweeps: Annotated[int, typer.Option(min=1, help="Gibbs sweeps per sample, starting from training rows.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    figures: Figures = "png",
) -> None:
    """Draw sequence logos of the training sequences, of samples, and of the weights of hidden units."""


@app.command()
@calls("ratings.recommend_run")
def recommend(
    folder: Folder,
    user: Annotated[
        list[str] | None,
        typer.Option(
            "--user",
            metavar="NAME",
            help="A user of the file; repeat for several. Without it, print the errors.",
            show_default=False,
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of items for each user.")] = 10,
    data: OtherData = None,
    method: Annotated[str, typer.Option(metavar="exact|mean-field", help="How ratings are predicted.")] = "exact",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Table to write (CSV).", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Recommend items from a run on ratings, those with the highest expected ratings."""


@app.command("forecast")
@calls("frames.forecast_run")
def forecast_command(
    folder: Folder,
    frames: Annotated[int, typer.Option(min=1, help="Number of frames to generate.")] = 100,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of continuations of each sequence.")] = 1,
    after: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Continue the sequence of this file, or those of a folder. [the training sequences]",
            show_default=False,
        ),
    ] = None,
    sweeps: Annotated[int, typer.Option(min=1, help="Gibbs sweeps for each frame.")] = 30,
    means: Annotated[
        bool, typer.Option("--means", help="Frames are means given the hidden units, not draws; smoother.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random generator.")] = 0,
    data: OtherData = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Table (.csv) to write; the figure is beside it. [in DIR]"),
    ] = None,
) -> None:
    """Continue sequences with the machine of a run with --window, frame after frame."""


@app.command()
@calls("documents.topics_run")
def topics(
    folder: Folder,
    data: OtherData = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of words of each topic.")] = 10,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Table (.csv) of topics, words and weights. [none]")
    ] = None,
    json: Json = False,
) -> None:
    """Print the words of each hidden unit of a run on documents."""


@app.command()
@calls("about.info_run")
def info(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR|FILE]", help="A run folder or a .safetensors file; without it, the installation."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the checksums of all files instead; status 2 if one is damaged.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the contents of a run folder or a file: machine, training, last metrics, files. Alone, the installation."""


@app.command()
@calls("about.convert_file")
def convert(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A run folder, or a .safetensors, .mat, .h5, .dat or .txt file.")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A .safetensors, .h5 (rbms) or .onnx file.")],
) -> None:
    """Convert a machine from or to a file of another library; see docs/convert.md for the formats."""


@app.command("report")
@calls("running.report_run")
def report_command(folder: Folder, data: OtherData = None, image: ImageShape = None) -> None:
    """Write report.html, one self-contained page about the run."""


# -- published results and data sets --------------------------------------------------------------------------


@app.command()
@calls("reproduce.reproduce_run")
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
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="Option of the experiment.")
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce a published result: figures, numbers, and a verdict on every claim."""


# -- data sets ------------------------------------------------------------------------------------------------


@data_app.command("list")
@calls("data_sets.list_data")
def data_list(json: Json = False) -> None:
    """List the data sets, and which are available on this computer."""


@data_app.command("info")
@calls("data_sets.describe_data")
def data_info(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a data set.")], json: Json = False
) -> None:
    """Show the details of a data set: size, files, license, citation, how to obtain it."""
