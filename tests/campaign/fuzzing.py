"""Random command lines and random calls of the public interface: each works or raises an error of the package."""

from __future__ import annotations

import contextlib
import io
import math
import os
import random
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from counting import Counts, Deadline, Hang, at_most, timed
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import harmonium as hm
from harmonium import interactions, likelihood, meanfield, quality, sampling, spectra, tasks
from harmonium.cli import main
from harmonium.errors import HarmoniumError

# -- command lines ----------------------------------------------------------------------------------------------------

SMALL = st.integers(1, 4).map(str)
STRANGE = st.sampled_from(
    [
        "",
        "-1",
        "0",
        "nan",
        "inf",
        "1e30",
        "9" * 400,
        "x",
        "--",
        "\u2603",
        "a b",
        "'",
        "/",
        "~nosuchuser/x",
        "0.5",
        "1,2",
        "none",
        "[]",
        "bernoulli",
        "digits",
        "../..",
        "\n",
    ]
)
UNITS = st.sampled_from(
    [
        "3",
        "bernoulli:3",
        "spin:2",
        "gaussian:2",
        "relu:3",
        "potts:2x3",
        "poisson:2",
        "binomial:2,trials=3",
        "multinary:2,levels=3",
        "truncated-gaussian:2,low=0,high=1",
        "bernoulli:2+spin:1",
        "bernoulli:2,kernel=2",
        "bernoulli:0",
        "bernoulli:99999999999",
        "binomial:2,trials=1e30",
        "gaussian:2,learn=bias/precision",
        "potts:3",
        "dbm",
        "multinomial:3",
    ]
)
VALUES: dict[str, st.SearchStrategy[str]] = {
    "--hidden": UNITS,
    "--visible": UNITS,
    "--epochs": st.sampled_from(["1", "2"]),
    "--batch-size": SMALL,
    "--seed": SMALL,
    "--learning-rate": st.sampled_from(["0.1", "1e-3", "1e30", "0"]),
    "--negative": st.sampled_from(
        ["pcd:1", "cd:2", "mean-field:2", "exact", "parallel-tempering:1,rungs=3", "reconstruction", "deep-pcd:1"]
    ),
    "--optimizer": st.sampled_from(["sgd", "adam", "adamw", "rmsprop"]),
    "--schedule": st.sampled_from(["constant", "linear:0.3", "growing:2", "linear:9"]),
    "--l2": SMALL,
    "--l1": SMALL,
    "--clip": SMALL,
    "--momentum": st.just("0.9"),
    "--average": st.just("0.5"),
    "--validation": st.sampled_from(["0.2", "none", "test"]),
    "--binarize": st.sampled_from(["threshold", "sample", "redraw", "none"]),
    "--machine": st.sampled_from(["rbm", "dbm", "dbn"]),
    "--image": st.sampled_from(["2x3", "6x1", "3x3"]),
    "--dtype": st.sampled_from(["float32", "float64"]),
    "--threads": st.sampled_from(["1", "100000"]),
    "--device": st.sampled_from(["cpu", "cuda", "hpu", "meta"]),
    "--chains": SMALL,
    "--preset": st.sampled_from(["best", "fast", "nothing"]),
    "--precision": st.sampled_from(["float32", "bfloat16"]),
    "-n": SMALL,
    "--sweeps": st.sampled_from(["1", "3"]),
    "--start": st.sampled_from(["random", "data"]),
    "--betas": st.sampled_from(["2", "0"]),
    "--method": st.sampled_from(["tap", "naive", "gibbs", "adatap"]),
    "--levels": st.sampled_from(["0.1", "0.1,0.2", "x"]),
    "--order": st.sampled_from(["1", "2", "3"]),
    "--layer": SMALL,
    "--gauge": st.sampled_from(["lattice-gas", "zero-sum"]),
    "--samples": st.sampled_from(["0", "50"]),
    "--pretrain": st.sampled_from(["0", "1"]),
    "--similarity": st.just("0.8"),
    "--cutoff": st.just("8"),
}
FLAGS = ["--quiet", "--no-report", "--relative", "--verify", "--no-centered", "--zero-sum", "--previous", "--help"]
OF_A_RUN = [
    "info",
    "sample",
    "evaluate",
    "denoise",
    "spectrum",
    "landscape",
    "interactions",
    "resume",
    "contacts",
    "mutants",
]


def command_lines(folder: Path) -> st.SearchStrategy[list[str]]:
    """Command lines for files in a folder: mostly plausible, sometimes strange."""
    sources = st.sampled_from([str(folder / name) for name in ("rows.npy", "gray.csv", "rows.fasta", "none.npy", ".")])
    runs = st.sampled_from(
        [str(folder / name) for name in ("run", "empty", "run/checkpoints/last.safetensors", "rows.npy")]
    )
    option = st.sampled_from(sorted(VALUES)).flatmap(
        lambda name: st.one_of(VALUES[name], VALUES[name], VALUES[name], STRANGE).map(lambda value: [name, value])
    )
    options = st.lists(st.one_of(option, st.sampled_from(FLAGS).map(lambda flag: [flag])), max_size=4)
    train = st.tuples(st.just("train"), st.one_of(sources, STRANGE)).map(
        lambda words: [*words, "--epochs", "1", "--hidden", "2", "--run", str(folder / "new"), "--no-report"]
    )
    of_run = st.tuples(st.sampled_from(OF_A_RUN), runs).map(list)
    other = st.sampled_from(
        [["data", "list"], ["data", "info", "digits"], ["data"], [], ["reproduce"], ["nonsense"], ["-h"]]
    )
    begin = st.one_of(train, of_run, of_run, other)
    return st.tuples(begin, options).map(lambda parts: [*parts[0], *(word for part in parts[1] for word in part)])


def commands(n: int, number: int, folder: Path) -> Counts:
    """Run ``n`` random command lines in this process."""
    counts = Counts("command lines")
    _files(folder)
    former = os.getcwd()
    os.chdir(folder)

    @seed(number)
    @settings(
        max_examples=n, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(command_lines(folder))
    def run(words: list[str]) -> None:
        _command(counts, words)

    try:
        with timed(counts), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
            extra = random.Random(number)
            examples = command_lines(folder)
            while counts.tried < n and not Deadline.passed():  # hypothesis stops early if it finds no new example
                words = [w for w in _draw(examples, extra)]
                _command(counts, words)
    finally:
        os.chdir(former)
    return counts


def _draw(strategy: st.SearchStrategy[list[str]], choice: random.Random) -> list[str]:
    found: list[list[str]] = []

    @seed(choice.randrange(2**60))
    @settings(
        max_examples=50, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(words: list[str]) -> None:
        found.append(words)

    collect()
    return choice.choice(found)


def _files(folder: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2, (30, 6))
    np.save(folder / "rows.npy", bits.astype(np.uint8))
    np.savetxt(folder / "gray.csv", np.random.default_rng(1).random((30, 6)), delimiter=",")
    (folder / "rows.fasta").write_text("".join(f">s{k}\nACDE{'AC'[k % 2]}G\n" for k in range(20)))
    (folder / "empty").mkdir()
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        warnings.simplefilter("ignore")
        main(
            [
                "train",
                str(folder / "rows.npy"),
                "--hidden",
                "3",
                "--epochs",
                "2",
                "--run",
                str(folder / "run"),
                "-q",
                "--no-report",
                "--validation",
                "0.2",
            ]
        )


def _command(counts: Counts, words: list[str]) -> None:
    import shutil

    if Deadline.passed():
        return
    counts.tried += 1
    out, err = io.StringIO(), io.StringIO()
    status: Any = None
    try:
        with at_most(60), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(words)
    except SystemExit as end:
        status = end.code
    except Hang:
        counts.problem("hang", words)
        return
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"raw {type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"
        counts.problem(kind, f"{words}: {error}")
    counts.outcomes[f"status {status}"] += 1
    if status == 2 and not 1 <= len(err.getvalue().strip().splitlines()) <= 8:
        counts.problem("long or empty message", f"{words}: {err.getvalue()[:300]}")
    shutil.rmtree("new", ignore_errors=True)


# -- calls ------------------------------------------------------------------------------------------------------------

NUMBERS: list[Any] = [-1, 0, 1, 2, 3, 5, 0.5, -0.0, 1e-300, 1e30, 1e38, math.nan, math.inf, -math.inf, np.int64(2)]
WHOLE: list[int] = [-5, -1, 0, 1, 2, 3, 4]
PATHS = ["", "none", ".", "/", "a\0b.npy", "~nosuchuser/a.csv", "x" * 5000]
SHAPES: list[Any] = [1, 2, 3, 0, -1, (2,), (2, 3), (0,), (), (1,) * 200, (2, 2, 2), 2.5, "2"]


def _data(choice: random.Random) -> Any:
    """Data of any kind, most of them with rows of six bits."""
    bits = np.random.default_rng(choice.randrange(1000)).integers(0, 2, (choice.choice([1, 5, 45]), 6))
    kinds: list[Callable[[], Any]] = [
        lambda: bits,
        lambda: bits.astype(float),
        lambda: torch.tensor(bits).float(),
        lambda: bits.tolist(),
        lambda: bits * 1e38,
        lambda: bits * math.nan,
        lambda: bits * 1j,
        lambda: bits.astype(str),
        lambda: bits[:, :3],
        lambda: bits[:0],
        lambda: bits[0],
        lambda: None,
        lambda: "text",
        lambda: 3,
        lambda: [],
        lambda: [[]],
        lambda: torch.tensor(bits).bool(),
        lambda: bits.astype(">f8"),
        lambda: bits[::-1],
        lambda: bits.reshape(-1, 2, 3),
        lambda: bits * 255,
        lambda: -bits,
        lambda: bits + 0.5,
        lambda: {"a": 1},
        lambda: [object()] * 6,
    ]
    return choice.choice(kinds)()


def _units(choice: random.Random) -> Any:
    shape, number = choice.choice(SHAPES), choice.choice(NUMBERS)
    u = hm.units
    makers: list[Callable[[], Any]] = [
        lambda: u.Bernoulli(shape),
        lambda: u.Spin(shape),
        lambda: u.Gaussian(shape, precision=number),
        lambda: u.ReLU(shape, precision=number),
        lambda: u.Binomial(shape, trials=number),
        lambda: u.Poisson(shape),
        lambda: u.Potts(shape),
        lambda: u.Multinomial(shape),
        lambda: u.Multinary(shape, levels=number),
        lambda: u.TruncatedGaussian(shape, low=number, high=choice.choice(NUMBERS)),
        lambda: u.DoubleReLU(shape),
        lambda: u.TruncatedGaussBernoulli(shape, low=number, high=choice.choice(NUMBERS)),
        lambda: u.AtMostOne(shape),
        lambda: u.Bernoulli(shape, bias=number),
        lambda: u.Mixed(u.Bernoulli(shape), u.Spin(2)),
        lambda: u.Bernoulli(shape, shared=choice.choice([(0,), (5,), 3, ()])),
    ]
    return choice.choice(makers)()


def _calls(rbm: Any, choice: random.Random) -> dict[str, Callable[[], Any]]:
    n, k, x = (choice.choice(pool) for pool in (NUMBERS, WHOLE, NUMBERS))
    few = choice.choice(WHOLE)
    return {
        "units": lambda: _units(choice),
        "RBM": lambda: hm.RBM(choice.choice(SHAPES), choice.choice(SHAPES)),
        "RBM of units": lambda: hm.RBM(_units(choice), _units(choice)).check_normalizable(),
        "DeepBeliefNetwork": lambda: hm.DeepBeliefNetwork.of([choice.choice(SHAPES), 2, choice.choice(SHAPES)]),
        "sample": lambda: rbm.sample(few, sweeps=k, seed=0),
        "sample from": lambda: rbm.sample(3, sweeps=1, start=_data(choice), seed=0),
        "sample given": lambda: rbm.sample(3, sweeps=1, given=_data(choice), seed=0),
        "free_energy": lambda: rbm.free_energy(_data(choice), check=choice.random() < 0.7),
        "hidden_mean": lambda: rbm.hidden_mean(_data(choice)),
        "reconstruct": lambda: rbm.reconstruct(_data(choice)),
        "energy": lambda: rbm.energy(_data(choice), _data(choice)),
        "log_probability": lambda: rbm.log_probability(_data(choice)),
        "initialize": lambda: hm.RBM(6, 2).initialize(_data(choice), seed=0),
        "fit": lambda: hm.fit(hm.RBM(6, 2), _data(choice), epochs=1, batch_size=20, seed=0, progress=False),
        "fit options": lambda: hm.fit(
            hm.RBM(6, 2), torch.eye(6).repeat(4, 1), epochs=few, batch_size=k, learning_rate=x, progress=False
        ),
        "fit weighted": lambda: hm.Weighted(_data(choice), _data(choice)),
        "redrawn": lambda: hm.Redrawn(_data(choice)),
        "exact": lambda: likelihood.exact(rbm),
        "ais": lambda: likelihood.ais(rbm, runs=few, betas=k, seed=0),
        "ais base": lambda: likelihood.ais(rbm, runs=2, betas=2, base=_data(choice), seed=0),
        "pseudo": lambda: likelihood.pseudo_log_likelihood(rbm, _data(choice)),
        "tap": lambda: meanfield.tap(rbm, start=_data(choice), damping=x, iterations=3),
        "naive": lambda: meanfield.naive(rbm, start=k, iterations=few, seed=0),
        "clamped": lambda: meanfield.tap(rbm, clamped=_data(choice), iterations=2),
        "denoise": lambda: tasks.denoise(rbm, _data(choice), tasks.BinarySymmetric(x)),
        "gaussian noise": lambda: tasks.AdditiveGaussian(x).corrupt(_data(choice), seed=0),
        "impute": lambda: tasks.impute(rbm, _data(choice)),
        "impute mask": lambda: tasks.impute(rbm, _data(choice), missing=_data(choice)),
        "data_modes": lambda: spectra.data_modes(_data(choice)),
        "spectrum": lambda: spectra.spectrum(rbm, layer=k),
        "correlations": lambda: quality.correlations(_data(choice), _data(choice), seed=0),
        "principal": lambda: quality.principal(_data(choice), _data(choice), seed=0),
        "compare": lambda: quality.compare(_data(choice), _data(choice), seed=0),
        "n_body": lambda: interactions.strongest(rbm, k, few),
        "CD": lambda: hm.CD(few),
        "PCD": lambda: hm.PCD(few, chains=k),
        "tempering": lambda: sampling.parallel_tempering(rbm, 2, betas=[0.0, x, 1.0], sweeps=few, seed=0),
        "L2": lambda: hm.L2(x),
        "LinearDecay": lambda: hm.LinearDecay(n),
        "Average": lambda: hm.Average(x),
        "Clip": lambda: hm.Clip(x),
        "load": lambda: hm.load(choice.choice(PATHS)),
        "read": lambda: hm.data.read(choice.choice(PATHS)),
        "data.load": lambda: hm.data.load(choice.choice(["digits", "digit", ""]), split=choice.choice(["test", ""])),
    }


def calls(n: int, number: int, folder: Path) -> Counts:
    """Make ``n`` random calls of public functions, with values of the declared types and data of any kind."""
    counts = Counts("API calls")
    choice = random.Random(number)
    rbm = hm.RBM(6, 3)
    rbm.initialize(torch.eye(6).repeat(3, 1), seed=0)
    with timed(counts), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = list(_calls(rbm, choice))
        for k in range(n):
            name = names[k % len(names)]
            _call(counts, name, _calls(rbm, choice).get(name, lambda: None))
    return counts


def _call(counts: Counts, name: str, call: Callable[[], Any]) -> None:
    counts.tried += 1
    try:
        with at_most(60):
            call()
    except HarmoniumError as error:
        counts.outcomes["refused"] += 1
        if len(str(error)) > 1500:
            counts.problem("long message", f"{name}: {error}")
    except Hang:
        counts.problem(f"hang in {name}", name)
    except BaseException as error:
        kind = type(error).__name__
        counts.problem(f"raw {kind} of {name}", f"{name}: {kind}: {error}\n{traceback.format_exc()[-1200:]}")
    else:
        counts.outcomes["done"] += 1
