"""The tables of a run's configuration: ``[data]``, ``[machine]`` and ``[training]``."""

from __future__ import annotations

from dataclasses import dataclass

from .declared import ELSEWHERE, option

_DATA_FILE = "Filled in by a run, to recognize a data file whose content has changed."


@dataclass
class DataOptions:
    """The rows: a data set's name or a file, and how they are binarized and split."""

    source: str = option(
        "", "A data set's name, or a .npy, .npz, .csv or .parquet file.", metavar="DATA", plan=ELSEWHERE
    )
    binarize: str | None = option(
        None,
        "Make gray values binary: threshold, sample, redraw (each epoch) or none.",
        details="`threshold`: 1 above half of the range (of a file: above half of its largest value). `sample`: 1 with "
        "the value, as a share of the largest, as probability, drawn once. `redraw`: the same, drawn anew in every "
        "epoch (held-out rows: once), as for the published MNIST likelihoods.",
        metavar="HOW",
        unset="threshold for named images with Bernoulli units, else none",
        plan=ELSEWHERE,
    )
    split: str | None = option(
        None, "Split of a named data set to train on.", metavar="NAME", unset="train", plan=("rows", "split {}")
    )
    validation: str | float | None = option(
        None,
        "Held-out rows for the free-energy gap: a split, a share such as 0.1, or none.",
        metavar="SPLIT|SHARE",
        unset="the validation or test split of a named data set; of a file, none",
        plan=("rows", "validation {}"),
    )
    image: str | None = option(
        None,
        "Rows of a file are pictures of this size (or CxHxW).",
        details="Known without it for named data sets and for `.npy` files of pictures.",
        metavar="HxW",
    )
    rows: int | None = option(None, "Number of rows.", details=_DATA_FILE, recorded=True)
    bytes: int | None = option(None, "Size of the file.", details=_DATA_FILE, recorded=True)
    sha256: str | None = option(None, "Checksum of the file.", details=_DATA_FILE, recorded=True)


@dataclass
class MachineOptions:
    """The machine and its initial parameters."""

    visible: str | None = option(
        None,
        "Visible units: bernoulli, potts:21, …; the shape comes from the data.",
        metavar="UNIT",
        unset="suggested by the data set; bernoulli for a file of 0 and 1",
        plan=ELSEWHERE,
    )
    hidden: str | int = option(
        "bernoulli:100",
        "Hidden units, such as bernoulli:500; a number alone means Bernoulli units.",
        metavar="UNIT:N",
        plan=ELSEWHERE,
    )
    initialize: str = option(
        "normal",
        "Initial weights: normal or sign.",
        metavar="KIND",
        choices=("normal", "sign"),
        plan=("initial weights", "{}"),
    )
    scale: float | None = option(
        None,
        "Scale of the initial weights.",
        unset="normal: 0.01, sign: √(0.1/N)",
        plan=("initial weights", "scale {}"),
    )
    dtype: str = option("float32", "Type of the parameters: float32 or float64.", metavar="TYPE", plan=("device", "{}"))


@dataclass
class TrainingOptions:
    """How the machine learns. An empty value is chosen from the data and the machine, and then recorded."""

    epochs: int | None = option(
        None, "Passes over the data.", at_least=1, unset="10, or as many as make 2000 updates", plan=("epochs", "{}")
    )
    batch_size: int = option(
        100,
        "Rows per update.",
        details="The last batch of an epoch has the remaining rows, with its share of the learning rate, so that every "
        "row has the same weight. (With several processes, rows that would give one process more than another are "
        "left out of the epoch; each epoch is shuffled anew.)",
        at_least=1,
        plan=("epochs", "batches of {}"),
    )
    seed: int = option(0, "Seed of all randomness.", plan=("seed", "{}"))
    negative: str = option(
        "pcd:1",
        "Negative phase: cd:K, pcd:K, parallel-tempering:K,rungs=N, trajectory-tempering:K, mean-field:K,method=tap or "
        "exact (small machines).",
        metavar="METHOD:K",
        plan=("negative phase", "{}"),
    )
    chains: int | None = option(
        None, "Number of persistent chains.", unset="the batch size", plan=("negative phase", "{} chains")
    )
    optimizer: str = option("sgd", "sgd, adam, adamw or rmsprop.", metavar="NAME", plan=("optimizer", "{}"))
    learning_rate: float | None = option(
        None,
        "Learning rate.",
        above=0,
        unset="sgd: chosen from the data, or 0.05 with momentum; others: 0.001",
        plan=("optimizer", "learning rate {}"),
        plan_unset="learning rate chosen from the data",
        flags=("--lr",),
    )
    momentum: float | None = option(
        None, "Momentum of sgd or rmsprop.", at_least=0, below=1, unset="none", plan=("optimizer", "momentum {}")
    )
    schedule: str = option(
        "constant",
        "constant, linear:0.3 or growing:10.",
        details="`linear:0.3`: constant for 30 % of the run, then linear to zero. `growing:10`: k = ⌈epoch/10⌉ sweeps "
        "and the learning rate divided by k.",
        metavar="NAME",
        plan=("schedule", "{}"),
    )
    centered: bool = option(True, "Let the optimizer act in centered coordinates.", plan=("transforms", "centered"))
    average: float | None = option(
        None,
        "At the end, average the parameters over this last share of the run.",
        metavar="SHARE",
        plan=("transforms", "average {}"),
    )
    l1: float | None = option(None, "Penalty on |W|.", plan=("transforms", "l1 {}"))
    l2: float | None = option(None, "Penalty on W².", plan=("transforms", "l2 {}"))
    l1_squared: float | None = option(None, "Penalty on (Σ|W|)² of hidden units.", plan=("transforms", "l1-squared {}"))
    clip: float | None = option(None, "Largest norm of the gradient.", plan=("transforms", "clip {}"))
    zero_sum: bool = option(False, "Zero-sum gauge of Potts units.", plan=("transforms", "zero-sum"))
    metrics_every: int = option(1, "Epochs between measurements.", at_least=1)
    precision: str = option(
        "float32",
        "Precision of matrix products: float32 or bfloat16, faster on some processors.",
        details='"bfloat16" rounds the factors and results of the matrix products of an update; parameters, means and '
        "noise keep their type. About 1.6 times as many updates a second on processors with such products.",
        metavar="TYPE",
        choices=("float32", "bfloat16"),
        plan=("device", "matrix products in {}"),
    )
    threads: int | None = option(
        None, "Number of CPU threads.", at_least=1, unset="torch's choice", plan=("device", "threads: {}")
    )
    device: str = option("cpu", "cpu, cuda, …", metavar="NAME", plan=("device", "{}"))
