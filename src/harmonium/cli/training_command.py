"""The command ``train``: an option for each value of a plan, for the machine, and for the kinds of data."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ..checks import literal
from ..presets import configurations
from .calls import load

_option: Any = partial(typer.Option, show_default=False)


def train(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Name of a data set, or a file: .npy, .npz, .csv, .parquet, .arrow, .mat, .h5, sequences in .fasta, "
            ".a3m, .sto, .csv, .tsv, ratings in u.data, .dat, .inter, .csv, .tsv, documents in .txt, .csv, .tsv or a "
            "folder, or a folder of images.",
        ),
    ] = None,
    # -- the data
    binarize: Annotated[
        str | None,
        _option(
            metavar="METHOD",
            help="Binarization of gray values: threshold (1 above half of the range), sample (1 with probability value "
            "/ largest value), redraw (sampled again in every epoch) or none. [threshold for image data sets with "
            "Bernoulli units, else none]",
        ),
    ] = None,
    split: Annotated[str | None, _option(metavar="NAME", help="Training split of a named data set. [train]")] = None,
    validation: Annotated[
        str | None,
        _option(
            metavar="SPLIT|FRACTION",
            help="Validation rows for the free-energy gap: name of a split, a fraction of the rows such as 0.1, or "
            "none. [the validation or test split of a named data set; none for a file]",
        ),
    ] = None,
    image: Annotated[str | None, _option(metavar="HxW", help="Image size of the rows of a file: HxW or CxHxW.")] = None,
    array: Annotated[
        str | None,
        _option(
            metavar="NAME",
            help="Name of the array in a .mat, .h5 or .npz file. [the only matrix, or the one named data, x or X]",
        ),
    ] = None,
    transpose: Annotated[
        bool | None,
        _option("--transpose/--no-transpose", help="The columns of the file are the samples, and its rows the units."),
    ] = None,
    alphabet: Annotated[
        str | None,
        _option(
            metavar="NAME|LETTERS",
            help="Letters of a file of sequences: protein, rna, dna, or the letters in the order of their states. "
            "[detected from the letters]",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        _option(
            metavar="NAME=KIND",
            help="Kind of a column of a table: binary, category, real, count, count:N or ignore; repeat for several. "
            "[chosen from the cells]",
        ),
    ] = None,
    labels: Annotated[
        bool | None,
        _option(
            "--labels/--no-labels",
            help="Add the label of each row as a visible Potts unit, for 'harmonium classify'; in a file, the label is "
            "the last column.",
        ),
    ] = None,
    ratings: Annotated[
        str | None,
        _option(
            metavar="LOW:HIGH",
            help="Scale of a file of ratings: LOW:HIGH, or LOW:HIGH:STEP such as 0.5:5:0.5. [from the ratings]",
        ),
    ] = None,
    similarity: Annotated[
        float | None,
        _option(
            metavar="FRACTION",
            help="Weight each sequence by 1 / (number of sequences with at least this share of equal sites), such as "
            "0.8. [equal weights]",
        ),
    ] = None,
    vocabulary: Annotated[
        int | None, _option(metavar="N", help="Number of words of documents, the most frequent first. [2000]")
    ] = None,
    stop_words: Annotated[
        str | None,
        _option(
            metavar="NAME|FILE", help="Words of documents to leave out: english, a text file of words, or none. [none]"
        ),
    ] = None,
    window: Annotated[
        int | None,
        _option(
            metavar="N",
            help="Rows are frames of sequences, each given this number of frames before it (a conditional RBM).",
        ),
    ] = None,
    robust: Annotated[
        bool | None,
        _option(
            "--robust/--no-robust",
            help="Frames that a linear autoregression predicts badly have small weights; with --window.",
        ),
    ] = None,
    # -- the machine
    machine: Annotated[
        str | None,
        _option(
            metavar="KIND",
            help="Kind of machine: rbm (restricted Boltzmann machine), dbm (deep Boltzmann machine) or dbn (deep "
            "belief network). [rbm for one hidden layer, dbm for several]",
        ),
    ] = None,
    visible: Annotated[
        str | None,
        _option(
            metavar="UNIT",
            help="Type of the visible units: bernoulli, potts:21, …; the shape comes from the data. [from the data]",
        ),
    ] = None,
    hidden: Annotated[
        list[str] | None,
        _option(
            metavar="UNIT:N",
            help="Type and number of hidden units, such as bernoulli:500, or bernoulli:32,kernel=5,stride=2 for "
            "feature maps; repeat for several layers, from the visible layer up. [bernoulli:100]",
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        _option(
            metavar="NAME",
            help="What each machine of a dbn learns from the machine below: samples or means of its hidden units. "
            "[samples]",
        ),
    ] = None,
    dtype: Annotated[
        str | None, _option(metavar="TYPE", help="Data type of the parameters: float32 or float64. [float32]")
    ] = None,
    device: Annotated[str | None, _option(metavar="NAME", help="PyTorch device: cpu, cuda, … [cpu]")] = None,
    threads: Annotated[
        int | None,
        _option(metavar="N", help="Number of CPU threads. [the PyTorch default, no more than there are free cores]"),
    ] = None,
    # -- the plan
    negative: Annotated[
        str | None,
        _option(
            metavar="METHOD:K",
            help="Method of the negative phase: cd:K, pcd:K,chains=N, parallel-tempering:K,rungs=N, "
            "trajectory-tempering:K, unbiased-cd:K, mean-field:K,method=tap, reconstruction:K, langevin:K, "
            "gibbs-langevin:K,steps=N, exact, discriminative (with labels), deep-pcd:K,iterations=N, or a sum such as "
            "discriminative+0.01*cd:1. [exact for small machines, otherwise pcd:1; cd:1 for documents, for ratings and "
            "with a window; cd:5 with hidden counts; deep-pcd:1 for deep machines; with labels, that sum]",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        _option(
            metavar="N",
            help="Number of passes over the data. [4000 updates, or 10 passes over the distinct rows if these are "
            "more]",
        ),
    ] = None,
    pretrain: Annotated[
        int | None,
        _option(
            metavar="N",
            help="Number of epochs of each layer of a dbm or dbn before all are trained together; 0 for none. [dbm: "
            "the number of epochs; dbn: only these, unless --epochs is given]",
        ),
    ] = None,
    batch_size: Annotated[int | None, _option(metavar="N", help="Number of rows per update. [100]")] = None,
    optimizer: Annotated[
        str | None,
        _option(
            metavar="NAME",
            help="Optimizer: sgd, sgd,momentum=0.9, adam, adamw or rmsprop. [sgd; adam for exact gradients, documents, "
            "ratings and labels]",
        ),
    ] = None,
    learning_rate: Annotated[
        str | None,
        _option(
            "--learning-rate",
            "--lr",
            metavar="X",
            help="Learning rate: a number, or auto to choose it from the data. [auto for sgd, and for adam with exact "
            "gradients; 0.05 with momentum; ratings 0.003; labels 0.005; else 0.001]",
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        _option(
            metavar="NAME",
            help="Learning-rate schedule: constant, linear:0.3 (constant for 30 % of the run, then linear to zero) or "
            "growing:10. [linear:0.5; linear:0.3 with labels; constant if a learning rate is given]",
        ),
    ] = None,
    penalties: Annotated[
        list[str] | None,
        _option(
            metavar="NAME:X",
            help="Penalty of the weights: l1:X, l2:X, l1-squared:X, l2-to-mean:X or smooth:X (neighboring pixels); "
            "repeat for several. [none; l2-to-mean:0.01 for ratings]",
        ),
    ] = None,
    constraints: Annotated[
        list[str] | None,
        _option(
            metavar="NAME",
            help="Constraint of the parameters: zero-sum (gauge of Potts units), or average:0.3 (over the last 30 % of "
            "the run); repeat for several. [none]",
        ),
    ] = None,
    centered: Annotated[
        str | None,
        _option(
            metavar="X",
            help="Smoothing of the offsets of centered coordinates, or false for plain coordinates. [0.01]",
        ),
    ] = None,
    initialize: Annotated[
        str | None,
        _option(
            metavar="NAME",
            help="Initial weights: normal:0.01, sign, or along the principal modes of the data (modes). [normal]",
        ),
    ] = None,
    precision: Annotated[
        str | None,
        _option(
            metavar="TYPE",
            help="Precision of matrix products: float32, bfloat16 (faster on some CPUs), or auto. [float32]",
        ),
    ] = None,
    seed: Annotated[
        int | None, _option(metavar="N", help="Seed of the random generator. [a number of torch's generator]")
    ] = None,
    # -- the run
    run: Annotated[Path | None, _option(metavar="DIR", help="New run folder. [runs/DATA, or runs/DATA-2, …]")] = None,
    config: Annotated[
        str | None,
        _option(
            metavar="FILE|NAME",
            help=f"TOML file with options, or one of {', '.join(configurations())}; options given here override it.",
        ),
    ] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Train a machine on DATA; write configuration, metrics, checkpoints and a report to a run folder."""
    given: dict[str, Any] = dict(locals())
    own = {name: given.pop(name) for name in ("run", "config", "report", "quiet")}
    values = {name: _value(value) for name, value in given.items()}
    for name in ("learning_rate", "centered"):
        values[name] = None if values[name] is None else literal(values[name])
    load("running.train_run")(values, **own)


def _value(given: Any) -> Any:
    """Return a value of the command line; an empty list is None."""
    return (list(given) or None) if isinstance(given, (list, tuple)) else given
