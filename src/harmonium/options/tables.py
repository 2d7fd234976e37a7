"""The tables ``[data]``, ``[machine]`` and ``[training]`` of a run's configuration."""

from __future__ import annotations

from dataclasses import dataclass

from .declared import ELSEWHERE, option

_DATA_FILE = "Written by the run, to detect later changes of the data file."


@dataclass
class DataOptions:
    """The data: name of a data set or a file, binarization and split."""

    source: str = option(
        "",
        "Name of a data set, or a file: .npy, .npz, .csv, .parquet, .arrow, .mat, .h5, sequences in .fasta, .a3m, "
        ".sto, .csv, .tsv, ratings in u.data, .dat, .inter, .csv, .tsv, documents in .txt, .csv, .tsv or a folder, or "
        "a folder of images.",
        metavar="DATA",
        plan=ELSEWHERE,
    )
    binarize: str | None = option(
        None,
        "Binarization of gray values: threshold, sample, redraw or none.",
        details="`threshold`: 1 if above half of the range (for a file: half of its largest value). `sample`: 1 with "
        "probability value / largest value, sampled once. `redraw`: the same, sampled again in every epoch (validation "
        "rows: once), as in the published MNIST likelihoods.",
        metavar="METHOD",
        unset="threshold for image data sets with Bernoulli units, else none",
        plan=ELSEWHERE,
    )
    split: str | None = option(
        None, "Training split of a named data set.", metavar="NAME", unset="train", plan=("rows", "split {}")
    )
    validation: str | float | None = option(
        None,
        "Validation rows for the free-energy gap: name of a split, a fraction of the rows such as 0.1, or none.",
        metavar="SPLIT|FRACTION",
        unset="the validation or test split of a named data set; none for a file",
        plan=ELSEWHERE,
    )
    image: str | None = option(
        None,
        "Image size of the rows of a file: HxW or CxHxW.",
        details="Not needed for named data sets and for `.npy` files of images.",
        metavar="HxW",
    )
    array: str | None = option(
        None,
        "Name of the array in a .mat, .h5 or .npz file.",
        metavar="NAME",
        unset="the only matrix of the file, or the one named data, x or X",
        plan=("data", "array {}"),
    )
    transpose: bool = option(
        False,
        "The columns of the file are the samples, and its rows the units.",
        details="For example, a matrix of spikes with a neuron in each row.",
        plan=("data", "transposed"),
    )
    alphabet: str | None = option(
        None,
        "Letters of a file of sequences: protein, rna, dna, or the letters in the order of their states, such as HP-.",
        metavar="NAME|LETTERS",
        unset="protein, rna or dna, detected from the letters",
        plan=("alphabet", "{}"),
    )
    columns: str | list[str] | None = option(
        None,
        "Kind of a column of a table: NAME=KIND with binary, category, real, count, count:N (0 to N) or ignore.",
        details="Repeat the option for several columns; in a file, give a list. A `.csv`, `.parquet` or `.arrow` file "
        "with names of columns is a table if it has other values than 0 and 1. Missing cells are summed out "
        "(`docs/tables.md`).",
        metavar="NAME=KIND",
        unset="chosen from the cells",
        plan=ELSEWHERE,
    )
    labels: bool = option(
        False,
        "Add the label of each row as a visible Potts unit, for 'harmonium classify'.",
        details="A named data set has its own labels; in a file, the last column is the label, a whole number from 0. "
        "The default method is then `discriminative+0.01*cd:1`.",
        plan=("rows", "with labels"),
    )
    ratings: str | None = option(
        None,
        "Scale of a file of ratings: LOW:HIGH, or LOW:HIGH:STEP such as 0.5:5:0.5.",
        details="A file of ratings has a user, an item and a rating in each line: `u.data`, `ratings.dat`, `.inter`, "
        "or `.csv` and `.tsv` with such columns. `--validation 0.1` holds out a tenth of the ratings.",
        metavar="LOW:HIGH",
        unset="the smallest and the largest rating of the file, in steps of 1 or less",
        plan=("ratings", "from {}"),
    )
    similarity: float | None = option(
        None,
        "Weight each sequence by 1 / (number of sequences with at least this share of equal sites), such as 0.8.",
        details="For data of Potts units. The sum of the weights is the effective number of sequences. Validation rows "
        "are weighted in the same way, so that the free-energy gap compares like with like.",
        above=0,
        metavar="FRACTION",
        unset="all sequences have the same weight",
        plan=("rows", "weighted by similarity {}"),
    )
    vocabulary: int | None = option(
        None,
        "Number of words of documents, the most frequent first.",
        at_least=1,
        metavar="N",
        unset="2000 for documents",
        plan=("vocabulary", "{} words"),
    )
    stop_words: str | None = option(
        None,
        "Words of documents to leave out: english, a text file of words, or none.",
        metavar="NAME|FILE",
        unset="none",
        plan=("vocabulary", "without stop words: {}"),
    )
    window: int | None = option(
        None,
        "Rows are frames of sequences, each given this number of frames before it (a conditional RBM).",
        details="The file has a frame in each row; a folder of such files has several sequences. `--validation 0.2` "
        "holds out the last fifth of every sequence. The default visible units are Gaussian units, for which every "
        "channel is standardized (`docs/conditional.md`).",
        at_least=1,
        metavar="N",
        unset="rows are independent",
        plan=("rows", "each given the {} frames before it"),
    )
    robust: bool = option(
        False,
        "Frames that a linear autoregression predicts badly have small weights; with --window.",
        details="A few frames that cannot be predicted, such as turns and jumps, dominate squared errors "
        "(`docs/conditional.md`).",
        plan=("rows", "with robust weights"),
    )
    rows: int | None = option(None, "Number of rows.", details=_DATA_FILE, recorded=True)
    bytes: int | None = option(None, "Size of the file.", details=_DATA_FILE, recorded=True)
    sha256: str | None = option(None, "Checksum of the file.", details=_DATA_FILE, recorded=True)


@dataclass
class MachineOptions:
    """The machine and its initial parameters."""

    machine: str | None = option(
        None,
        "Kind of machine: rbm (restricted Boltzmann machine), dbm (deep Boltzmann machine) or dbn (deep belief "
        "network).",
        metavar="KIND",
        choices=("rbm", "dbm", "dbn"),
        unset="rbm for one hidden layer, dbm for several",
        plan=ELSEWHERE,
    )
    visible: str | None = option(
        None,
        "Type of the visible units: bernoulli, potts:21, …; the shape comes from the data.",
        metavar="UNIT",
        unset="suggested by the data set; potts for sequences; ratings for ratings; multinomial for documents; "
        "bernoulli for a file with values 0 and 1",
        plan=ELSEWHERE,
    )
    hidden: str | int | list[str | int] = option(
        "bernoulli:100",
        "Type and number of hidden units, such as bernoulli:500; a number alone means Bernoulli units.",
        details="Repeat the option for several hidden layers, from the visible layer up; in a file, give a list. "
        "`bernoulli:32,kernel=5,stride=2` is a layer of 32 feature maps with kernels of 5×5; further settings are "
        "`padding=N`, `pool=N` and `biases=map` or `position`.",
        metavar="UNIT:N",
        plan=ELSEWHERE,
    )
    inputs: str | None = option(
        None,
        "What each machine of a dbn learns from the machine below: samples or means of its hidden units.",
        metavar="NAME",
        choices=("samples", "means"),
        unset="samples",
    )
    initialize: str = option(
        "normal",
        "Initial weights: normal, sign, or along the principal modes of the data (modes).",
        details="`modes` saves the first part of learning, in which a machine with small weights finds the modes.",
        metavar="NAME",
        choices=("normal", "sign", "modes"),
        plan=("initial weights", "{}"),
    )
    scale: float | None = option(
        None,
        "Scale of the initial weights.",
        unset="normal: 0.01, sign: √(0.1/N), modes: 4 (of the input to a hidden unit); with labels 1/√(visible units)",
        plan=("initial weights", "scale {}"),
    )
    dtype: str = option(
        "float32", "Data type of the parameters: float32 or float64.", metavar="TYPE", plan=("device", "{}")
    )


@dataclass
class TrainingOptions:
    """The training settings. A value of None is chosen from the data and the machine, and then recorded."""

    epochs: int | None = option(
        None,
        "Number of passes over the data.",
        at_least=1,
        unset="4000 updates, or 10 passes over the distinct rows if these are more",
        plan=("epochs", "{}"),
    )
    batch_size: int = option(
        100,
        "Number of rows per update.",
        details="The last batch of an epoch contains the remaining rows; its learning rate is scaled by its size, so "
        "every row has the same weight. (With several processes, each gets the same number of rows and the remainder "
        "is skipped in that epoch; rows are shuffled in every epoch.)",
        at_least=1,
        plan=("epochs", "batches of {}"),
    )
    seed: int = option(0, "Seed of the random generator.", plan=("seed", "{}"))
    training: str | None = option(
        None,
        "Training of a dbn: greedy (one machine after the other) or joint (all machines in every update).",
        metavar="NAME",
        choices=("greedy", "joint"),
        unset="greedy for a dbn",
        plan=("epochs", "{}"),
    )
    pretrain: int | None = option(
        None,
        "Number of epochs of greedy training of each layer before the joint training of a dbm or dbn; 0 for none.",
        details="Each pair of layers is trained as an RBM, from the visible layer up, with the other training options; "
        "in a dbm with `pcd:1`.",
        metavar="EPOCHS",
        at_least=0,
        unset="dbm: the number of epochs; others: 0",
        plan=("epochs", "pretraining {}"),
    )
    negative: str | None = option(
        None,
        "Method of the negative phase: cd:K, pcd:K, parallel-tempering:K,rungs=N, trajectory-tempering:K, "
        "unbiased-cd:K, mean-field:K,method=tap, reconstruction:K, langevin:K and gibbs-langevin:K,steps=N "
        "(real-valued units), exact (small machines), discriminative (with labels) or, for deep machines, "
        "deep-pcd:K,positive=gibbs,iterations=N.",
        details="A sum of methods has the sum of their losses: `discriminative+0.01*cd:1` is the hybrid training of a "
        "classifier.",
        metavar="METHOD:K",
        unset="exact for small machines (at most 2^18 values in the sum over states; complete rows; no optimizer, "
        "learning rate, momentum, chains or bfloat16 given), otherwise pcd:1; cd:1 for documents, for ratings and with "
        "a window; cd:5 with hidden counts; deep-pcd:1 for deep machines; discriminative+0.01*cd:1 with labels",
        plan=("negative phase", "{}"),
        plan_unset="chosen from the machine",
    )
    chains: int | None = option(
        None,
        "Number of persistent chains.",
        unset="the batch size; up to 1000 for small machines with the default negative phase",
        plan=("negative phase", "{} chains"),
    )
    optimizer: str | None = option(
        None,
        "Optimizer: sgd, adam, adamw or rmsprop.",
        metavar="NAME",
        unset="sgd; adam with exact gradients, for documents, for ratings and with labels, if neither a learning rate "
        "nor a momentum is given",
        plan=("optimizer", "{}"),
        plan_unset="optimizer chosen from the machine",
    )
    learning_rate: float | None = option(
        None,
        "Learning rate.",
        above=0,
        unset="sgd, and adam with exact gradients: chosen from the data; 0.05 with momentum; others: 0.001; "
        "ratings: 0.003; labels: 0.005",
        plan=("optimizer", "learning rate {}"),
        plan_unset="learning rate chosen from the data",
        flags=("--lr",),
    )
    momentum: float | None = option(
        None, "Momentum of sgd or rmsprop.", at_least=0, below=1, unset="none", plan=("optimizer", "momentum {}")
    )
    schedule: str | None = option(
        None,
        "Learning-rate schedule: constant, linear:0.3 or growing:10.",
        details="`linear:0.3`: constant for 30 % of the run, then linear to zero. `growing:10`: k = ⌈epoch/10⌉ sweeps "
        "per update, and the learning rate divided by k.",
        metavar="NAME",
        unset="linear:0.5 if the learning rate is chosen from the data, or no option of the optimizer is given, and "
        "for ratings; linear:0.3 with labels; else constant",
        plan=("schedule", "{}"),
    )
    centered: bool = option(
        True,
        "Use centered gradients, and standardized ones for Gaussian visible units.",
        details="The optimizer acts on the machine of standardized data; the machine stays in the units of the data.",
        plan=("transforms", "centered"),
    )
    average: float | None = option(
        None,
        "Average the parameters over this last fraction of the run.",
        metavar="FRACTION",
        plan=("transforms", "average {}"),
    )
    l1: float | None = option(None, "Strength of the L1 penalty Σ|W|.", plan=("transforms", "l1 {}"))
    l2: float | None = option(None, "Strength of the L2 penalty ½ΣW².", plan=("transforms", "l2 {}"))
    l1_squared: float | None = option(
        None, "Strength of the L1² penalty, (Σ|W|)² per hidden unit.", plan=("transforms", "l1-squared {}")
    )
    l2_to_mean: float | None = option(
        None,
        "Strength of the L2 penalty on the difference of each site's weights from their mean over sites.",
        details="For ratings and other units with many sites, some of which have few data.",
        unset="ratings: 0.01; others: none",
        plan=("transforms", "l2-to-mean {}"),
    )
    smooth: float | None = option(
        None,
        "Strength of the penalty on differences of the weights of neighboring pixels, for images.",
        details="Rows of a file need `--image` to be images.",
        plan=("transforms", "smooth {}"),
    )
    zero_sum: bool = option(False, "Use the zero-sum gauge for Potts units.", plan=("transforms", "zero-sum"))
    metrics_every: int | None = option(
        None, "Number of epochs between measurements.", at_least=1, unset="1, or more if there are more than 200 epochs"
    )
    precision: str = option(
        "float32",
        "Precision of matrix products: float32, bfloat16 (faster on some CPUs), or auto.",
        details="`bfloat16` rounds the inputs and outputs of the matrix products of an update; parameters, means and "
        "noise keep their data type. About 1.6 times as many updates per second on CPUs that support such products. "
        "`auto` is bfloat16 where the device has such products and the method supports them. The result of a seed then "
        "depends on the device.",
        metavar="TYPE",
        choices=("float32", "bfloat16", "auto"),
        plan=("device", "matrix products in {}"),
    )
    threads: int | None = option(
        None,
        "Number of CPU threads.",
        details="Threads of a product wait for each other, many times longer if other processes use their cores. "
        "By default there are no more threads than free cores. The number is recorded, and a resumed run uses it "
        "again. The environment variable OMP_NUM_THREADS also gives the number.",
        at_least=1,
        unset="the PyTorch default, and no more than there are free cores",
        plan=("device", "threads: {}"),
    )
    device: str = option("cpu", "PyTorch device: cpu, cuda, …", metavar="NAME", plan=("device", "{}"))
