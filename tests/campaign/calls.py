"""Random calls of the public interface: each works or raises an error of the package."""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from arguments import MANY, NUMBERS, PATHS, SHAPES, WHOLE, any_data
from counting import Counts, Hang, at_most, timed
from estimator_calls import estimator_calls, is_of_sklearn
from task_calls import task_calls

import harmonium as hm
from harmonium import interactions, likelihood, meanfield, quality, sampling, spectra, tasks
from harmonium.errors import HarmoniumError


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
    few, many = choice.choice(WHOLE), choice.choice(MANY)
    bits = torch.eye(6).repeat(4, 1)
    return {
        "units": lambda: _units(choice),
        "RBM": lambda: hm.RBM(choice.choice(SHAPES), choice.choice(SHAPES)),
        "RBM of units": lambda: hm.RBM(_units(choice), _units(choice)).check_normalizable(),
        "DeepBeliefNetwork": lambda: hm.DeepBeliefNetwork.of([choice.choice(SHAPES), 2, choice.choice(SHAPES)]),
        "sample": lambda: rbm.sample(few, sweeps=k, seed=0),
        "sample from": lambda: rbm.sample(3, sweeps=1, start=any_data(choice), seed=0),
        "sample given": lambda: rbm.sample(3, sweeps=1, given=any_data(choice), seed=0),
        "sample many": lambda: rbm.sample(many, sweeps=1, start=choice.choice([None, bits]), seed=0),
        "free_energy": lambda: rbm.free_energy(any_data(choice), check=choice.random() < 0.7),
        "hidden_mean": lambda: rbm.hidden_mean(any_data(choice)),
        "reconstruct": lambda: rbm.reconstruct(any_data(choice)),
        "energy": lambda: rbm.energy(any_data(choice), any_data(choice)),
        "log_probability": lambda: rbm.log_probability(any_data(choice)),
        "initialize": lambda: hm.RBM(6, 2).initialize(any_data(choice), seed=0),
        "fit": lambda: hm.fit(hm.RBM(6, 2), any_data(choice), epochs=1, batch_size=20, seed=0, progress=False),
        "fit options": lambda: hm.fit(hm.RBM(6, 2), bits, epochs=few, batch_size=k, learning_rate=x, progress=False),
        "fit many": lambda: hm.fit(hm.RBM(6, 2), bits, epochs=1, batch_size=many or 10**30, progress=False),
        "fit many chains": lambda: hm.fit(
            hm.RBM(6, 2), bits, epochs=1, negative=hm.PCD(1, chains=many or 10**13), progress=False
        ),
        "fit weighted": lambda: hm.Weighted(any_data(choice), any_data(choice)),
        "redrawn": lambda: hm.Redrawn(any_data(choice)),
        "exact": lambda: likelihood.exact(rbm),
        "ais": lambda: likelihood.ais(rbm, runs=few, betas=k, seed=0),
        "ais many": lambda: likelihood.ais(rbm, runs=choice.choice([2, many]), betas=choice.choice([2, many]), seed=0),
        "ais base": lambda: likelihood.ais(rbm, runs=2, betas=2, base=any_data(choice), seed=0),
        "pseudo": lambda: likelihood.pseudo(rbm, any_data(choice)),
        "tap": lambda: meanfield.tap(rbm, start=any_data(choice), damping=x, iterations=3),
        "naive": lambda: meanfield.naive(rbm, start=k, iterations=few, seed=0),
        "naive many": lambda: meanfield.naive(rbm, start=many, iterations=2, seed=0),
        "clamped": lambda: meanfield.tap(rbm, clamped=any_data(choice), iterations=2),
        "denoise": lambda: tasks.denoise(rbm, any_data(choice), tasks.BinarySymmetric(x)),
        "gaussian noise": lambda: tasks.AdditiveGaussian(x).corrupt(any_data(choice), seed=0),
        "impute": lambda: tasks.impute(rbm, any_data(choice)),
        "impute mask": lambda: tasks.impute(rbm, any_data(choice), missing=any_data(choice)),
        "data_modes": lambda: spectra.data_modes(any_data(choice)),
        "spectrum": lambda: spectra.spectrum(rbm, layer=k),
        "correlations": lambda: quality.correlations(any_data(choice), any_data(choice), seed=0),
        "principal": lambda: quality.principal(any_data(choice), any_data(choice), seed=0),
        "compare": lambda: quality.compare(any_data(choice), any_data(choice), seed=0),
        "n_body": lambda: interactions.strongest(rbm, k, few),
        "CD": lambda: hm.CD(few),
        "PCD": lambda: hm.PCD(few, chains=k),
        "tempering": lambda: sampling.parallel_tempering(rbm, 2, betas=[0.0, x, 1.0], sweeps=few, seed=0),
        "tempering many": lambda: sampling.parallel_tempering(rbm, many, betas=[0.0, 0.5, 1.0], sweeps=1, seed=0),
        "population many": lambda: sampling.population_annealing(rbm, many or 10**30, betas=2, seed=0),
        "L2": lambda: hm.L2(x),
        "Linear": lambda: hm.Linear(n),
        "Average": lambda: hm.Average(x),
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
        groups = (lambda: _calls(rbm, choice), lambda: task_calls(choice, folder), lambda: estimator_calls(choice))
        names = [(group, name) for group in groups for name in group()]
        for k in range(n):
            group, name = names[k % len(names)]
            _call(counts, name, group()[name])
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
        if is_of_sklearn(error):
            counts.outcomes["refused by scikit-learn"] += 1
            return
        kind = type(error).__name__
        counts.problem(f"raw {kind} of {name}", f"{name}: {kind}: {error}\n{traceback.format_exc()[-1200:]}")
    else:
        counts.outcomes["done"] += 1
