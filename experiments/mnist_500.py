"""A binary machine of 784×500 units on MNIST: the test log-likelihood, from both sides.

There are two binarizations, whose numbers cannot be compared: *stochastic*, where gray values are probabilities and
pixels are redrawn in each epoch (as in the published numbers), and *threshold*, where a pixel is 1 if its gray value is
above 127. With the configuration "best" the second one uses "best-fixed".
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from harmonium import likelihood, plots, runs
from harmonium.errors import unknown
from harmonium.machines import BoltzmannMachine
from harmonium.presets import read_configuration
from harmonium.runs import config as schema
from harmonium.runs import rows, setup
from harmonium.training import Metric, Run

from .judging import sides
from .record import Record

#: epochs by scale: about two minutes, and at most a quarter of an hour, on two cores
EPOCHS = {"quick": {"stochastic": 50, "threshold": 50}, "full": {"stochastic": 400, "threshold": 300}}
#: temperatures of the final annealings: with fewer the two directions agree by chance
TEMPERATURES = {"quick": 20_000, "full": 80_000}
BINARIZATIONS = {"stochastic": "redraw", "threshold": "threshold"}
#: test log-likelihoods in nats that were published, or measured with other programs, by binarization
REFERENCES = {
    "stochastic": {
        "contrastive divergence, k = 25 (Salakhutdinov & Murray 2008)": -86.34,
        "deep Boltzmann machine, 500-1000 (Salakhutdinov & Hinton 2009), a bound": -84.62,
    },
    "threshold": {},
}
GOALS = {"stochastic": -84.0, "threshold": -66.5}
LARGEST_GAP = 0.5
_POINTS = 10  # of the curve
_FEW = 1000  # temperatures for a point of it


def run(
    record: Record,
    scale: str,
    config: str = "best",
    binarize: str = "both",
    epochs: int = 0,
    betas: int = 0,
    precision: str = "float32",
    seed: int = 0,
) -> None:
    """Train and measure with one binarization or both; ``epochs`` and ``betas`` replace those of the scale."""
    if binarize not in (*BINARIZATIONS, "both"):
        raise unknown("binarization", binarize, [*BINARIZATIONS, "both"])
    read_configuration(config)  # raises for an unknown one
    for name in BINARIZATIONS if binarize == "both" else [binarize]:
        settings = read_configuration("best-fixed" if (config, name) == ("best", "threshold") else config)["training"]
        chosen = {**settings, "epochs": epochs or EPOCHS[scale][name], "precision": precision, "seed": seed}
        _one(record, name, chosen, betas or TEMPERATURES[scale], scale)


def _one(record: Record, name: str, settings: dict[str, Any], betas: int, scale: str) -> None:
    epochs, seed = settings["epochs"], settings["seed"]
    options: dict[str, dict[str, Any]] = {
        "data": {"source": "mnist", "binarize": BINARIZATIONS[name]},
        "machine": {"hidden": "bernoulli:500"},
        "training": settings,
    }
    ready = setup.prepare(schema.merge(schema.Config(), options))
    _, source = rows.load_test(ready.config, ready.rows)
    assert source is not None
    test = source.rows(torch.arange(len(source)), ready.machine)
    some = ready.rows.train.rows(torch.arange(10_000), ready.machine)
    record.say(f"{name}: {epochs} epochs")
    watched = Metric("test_log_likelihood", _forward(test, some), every=max(1, epochs // _POINTS))
    folder = record.folder / name
    result = runs.train(ready, folder, resume=Run(folder).exists(), callbacks=[watched])  # continues after a kill
    found = likelihood.estimate(ready.machine, test, betas=betas, seed=seed)
    assert isinstance(ready.machine, BoltzmannMachine)
    train = found.log_partition.log_likelihood(some).value
    forward, reverse = sides(found)
    parts = [found.log_partition.details[name] for name in ("forward", "reverse")]
    minutes = result.history[-1]["seconds"] / 60
    _write(record, name, result.history, (reverse, forward))
    record.numbers[name] = {
        "minutes": minutes,
        "epochs": epochs,
        "threads": ready.config.machine.threads,
        "test": found.value,
        "test_forward": forward,
        "test_reverse": reverse,
        "gap": forward - reverse,
        "interval": [end if math.isfinite(end) else None for end in found.interval],  # JSON has no infinity
        "effective_sample_size": [part.details["effective_runs"] for part in parts],
        "problems": found.problems,
        "train": train,
    }
    when = f"after {minutes:.1f} minutes of training ({train:.2f} on training rows)"
    measured = f"{forward:.2f} forward, {reverse:.2f} reverse, {when}"
    record.say(f"{name}: {measured}")
    worse = min(forward, reverse)
    for words, value in REFERENCES[name].items():
        record.claim(f"{name}: above {value} nats, {words}", measured, worse >= value)
    if scale == "full":
        record.claim(f"{name}: at least {GOALS[name]} nats from both sides", measured, worse >= GOALS[name])
    record.claim(
        f"{name}: forward and reverse agree within {LARGEST_GAP} nats",
        f"a gap of {forward - reverse:.2f} nats" + "".join(f"; {problem}" for problem in found.problems),
        abs(forward - reverse) <= LARGEST_GAP and found.trustworthy,
    )


def _forward(test: Tensor, base: Tensor) -> Any:
    def value(machine: BoltzmannMachine) -> float:
        return likelihood.ais(machine, betas=_FEW, base=base, check=False, seed=0).log_likelihood(test).value

    return value


def _write(record: Record, name: str, history: list[dict[str, float]], final: tuple[float, float]) -> None:
    """Write the curve. Its points are short forward annealings of parameters that are not averaged: a rough guide."""
    curve = [
        {"minutes": row["seconds"] / 60, "epoch": row["epoch"], "test_log_likelihood": row["test_log_likelihood"]}
        for row in history
        if "test_log_likelihood" in row
    ]
    record.table(f"{name}_curve", curve)
    record.figure(
        f"{name}_curve",
        plots.likelihood_curve(
            [row["minutes"] for row in curve],
            [row["test_log_likelihood"] for row in curve],
            references=REFERENCES[name],
            final=final,
            title=f"MNIST, {name}: 784×500 binary units",
        ),
    )
