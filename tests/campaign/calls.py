"""Random calls of the public interface: each works or raises an error of the package."""

from __future__ import annotations

import math
import random
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from counting import Counts, Hang, at_most, timed

import harmonium as hm
from harmonium import interactions, likelihood, meanfield, quality, sampling, spectra, tasks
from harmonium.errors import HarmoniumError

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
