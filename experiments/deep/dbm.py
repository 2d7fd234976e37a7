"""MNIST with 784–500–1000 binary units: a deep Boltzmann machine against an RBM trained for the same time.

Both continue from the same RBM, trained with a constant learning rate: the RBM itself, and a deep machine with a new,
weakly coupled layer on top of it, which has the same likelihood. The pixels are redrawn in each epoch with the gray
values as probabilities, as for the published bound. The number of epochs of the RBM is chosen such that it does not
take less CPU time than the deep machine.

ln Z comes from annealing in both directions. ln p*(v) of the deep machine is a mean-field bound on all test rows, and
an annealing of the hidden layers for some of them, which is closer (``hidden="annealing"``).
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from harmonium import data as datasets
from harmonium import likelihood
from harmonium.likelihood import LogLikelihood, LogPartition
from harmonium.machines import RBM, BoltzmannMachine
from harmonium.training import (
    L2,
    PCD,
    Average,
    Callback,
    DeepPCD,
    Linear,
    Progress,
    Redrawn,
    deepen,
)
from harmonium.units import Bernoulli

from ..judging import Measured, Verdict, claim, log_partition, sides
from ..machines import Machines
from ..options import override, parse_layers
from ..record import Record

PUBLISHED = -84.62  # variational bound in nats, 784–500–1000 (Salakhutdinov & Hinton 2009)
LARGEST_GAP = 0.5  # nats between the two directions of the annealing
MARGIN = 0.1  # nats by which the deep machine must exceed the RBM
LONGER = 1.1  # largest ratio of the CPU times of the deep machine and the RBM
RATE, DECAY, BATCH, AVERAGED = 0.1, 1.5e-4, 100, 0.3  # those of the preset "best"
SCALE = 0.02  # of the new weights


@dataclass(frozen=True)
class Settings:
    """The settings of a scale. ``rows`` test rows are used for the annealing of the hidden layers."""

    start: int  # epochs of the common start
    rbm: int  # further epochs of the RBM
    dbm: int  # epochs of the deep machine
    betas: int
    rows: int


SETTINGS = {
    "quick": Settings(start=10, rbm=34, dbm=10, betas=5000, rows=500),
    "full": Settings(start=60, rbm=200, dbm=60, betas=40_000, rows=2000),
}


def run(
    record: Record,
    scale: str,
    data: str = "mnist",
    hidden: str | int = "500,1000",
    positive: str = "gibbs",
    start: int = 0,
    rbm: int = 0,
    dbm: int = 0,
    betas: int = 0,
    rows: int = 0,
    precision: str = "float32",
    machines: str = "",
    seed: int = 0,
) -> None:
    """Train and measure both; ``start``, ``rbm``, ``dbm`` (epochs), ``betas``, ``rows`` replace those of the scale."""
    chosen = override(SETTINGS[scale], start=start, rbm=rbm, dbm=dbm, betas=betas, rows=rows)
    below, above = parse_layers(hidden, "500,1000")
    gray, test = datasets.load(data), datasets.load(data, split="test", binarize="sample", seed=seed)
    trained = _Trained(Machines(record, scale, data, machines=machines, seed=seed), Redrawn(gray), precision)

    common = RBM(Bernoulli(gray.shape[1]), Bernoulli(below))
    trained.train("start", common, chosen.start, PCD(1), constant=True)
    deep = deepen(common, above, Redrawn(gray), scale=SCALE, seed=seed)
    trained.train("dbm", deep, chosen.dbm, DeepPCD(1, iterations=1, positive=positive))
    trained.train("rbm", common, chosen.rbm, PCD(1))

    record.numbers |= {"settings": asdict(chosen), "cpu_seconds": trained.seconds}
    found = {
        name: likelihood.estimate(machine, test, base=test_like(gray, seed), betas=chosen.betas, seed=seed)
        for name, machine in (("rbm", common), ("dbm", deep))
    }
    for name, estimate in found.items():
        record.say(f"{name}: {estimate}")
        record.numbers[name] = summary(estimate)
    some = test[: chosen.rows]
    compared = compare(common, deep, some, log_partition(found["rbm"]), log_partition(found["dbm"]), seed)
    record.numbers["comparison"] = {"rows": len(some), **compared}
    record.table("results", [{"machine": name, **record.numbers[name]} for name in found])
    judge(record, found, compared, trained.seconds, "" if data == "mnist" else f"data: {data} instead of mnist")


class _Trained:
    """Trains machines with common options and records their CPU time."""

    def __init__(self, machines: Machines, data: Redrawn, precision: str) -> None:
        self._machines, self._data, self._precision = machines, data, precision
        self.seconds: dict[str, float] = {}

    def train(self, name: str, machine: BoltzmannMachine, epochs: int, negative: Any, constant: bool = False) -> None:
        """Train in place: with a constant rate, or a decreasing one and an average of the parameters at the end."""
        result = self._machines.train(
            name,
            machine,
            self._data,
            words=f"{name}, {epochs} epochs",
            negative=negative,
            epochs=epochs,
            batch_size=BATCH,
            learning_rate=RATE,
            schedule="constant" if constant else Linear(0.0),
            penalties=[L2(DECAY)],
            constraints=[] if constant else [Average(AVERAGED)],
            precision=self._precision,
            progress=False,
            initialize=None if constant else "keep",
            callbacks=[_ProcessTime()],
        )
        self.seconds[name] = sum(row["cpu_seconds"] for row in result.history)


class _ProcessTime(Callback):
    """Adds the CPU time of each epoch to its metrics; unlike wall time, it does not depend on other processes."""

    def on_start(self, progress: Progress) -> None:
        self._began = time.process_time()

    def on_epoch(self, progress: Progress) -> None:
        now = time.process_time()
        progress.metrics["cpu_seconds"], self._began = now - self._began, now


def test_like(gray: Tensor, seed: int) -> Tensor:
    """Training rows with binary pixels, for the base of the annealing."""
    some = gray[:10_000]
    return torch.bernoulli(some, generator=torch.Generator().manual_seed(seed))


def summary(found: LogLikelihood) -> dict[str, Any]:
    """The numbers of an estimate for the record; the likelihood of a deep machine is a bound."""
    (forward, reverse), (low, high) = sides(found), found.interval
    details = log_partition(found).details
    return {
        "forward": forward,
        "reverse": reverse,
        "gap": forward - reverse,
        "low": low if math.isfinite(low) else None,  # JSON has no infinity
        "high": high if math.isfinite(high) else None,
        "effective_forward": details["forward"].details["effective_runs"],
        "effective_reverse": details["reverse"].details["effective_runs"],
        "problems": "; ".join(found.problems),
    }


@torch.no_grad()
def compare(
    rbm: RBM,
    deep: BoltzmannMachine,
    rows: Tensor,
    of_rbm: LogPartition,
    of_deep: LogPartition,
    seed: int,
) -> dict[str, float]:
    """The log-likelihoods of the same rows, and the error of their difference.

    The error combines that of the mean over rows, of the annealing of the hidden layers, and of both ln Z: the larger
    of the standard error and half of the gap between the two directions.
    """
    annealed = of_deep.log_likelihood(rows, hidden="annealing", runs=10, betas=100, seed=seed)
    below, row_errors = of_rbm.log_likelihood(rows), annealed.details["row_errors"]
    gain = annealed.minus(below)
    return {
        "rbm": below.value,
        "dbm": annealed.value,
        "bound": of_deep.log_likelihood(rows).value,
        "difference": gain.value,
        "error": math.hypot(gain.standard_error, row_errors.norm().item() / len(rows)),
    }


def judge_deeper(compared: dict[str, float], seconds: dict[str, float]) -> Verdict:
    """Whether the deep machine is better by the margin; open if it was trained for longer than the RBM."""
    if seconds["dbm"] > LONGER * seconds["rbm"]:
        return None
    return Measured(compared["difference"], compared["error"]).above(MARGIN)


def judge(
    record: Record,
    found: dict[str, LogLikelihood],
    compared: dict[str, float],
    seconds: dict[str, float],
    difference: str = "",
) -> None:
    """Write the verdicts; ``difference`` are settings that are not those of the published bound, in words."""
    gain = Measured(compared["difference"], compared["error"])
    times = ", ".join(f"{name} {value / 60:.1f}" for name, value in seconds.items())
    claim(
        record,
        f"the deep machine is better than an RBM trained for the same time, by at least {MARGIN} nats",
        f"{compared['dbm']:.2f} against {compared['rbm']:.2f} nats, a difference of {gain:+.2f}; CPU minutes: {times}",
        judge_deeper(compared, seconds),
    )
    deep = found["dbm"]
    claim(
        record,
        f"the bound is above {PUBLISHED} nats (Salakhutdinov & Hinton 2009) from both sides",
        "{:.2f} forward, {:.2f} reverse".format(*sides(deep)),
        min(sides(deep)) > PUBLISHED,
        difference,
    )
    for name, estimate in found.items():
        forward, reverse = sides(estimate)
        claim(
            record,
            f"{name}: forward and reverse agree within {LARGEST_GAP} nats",
            f"a gap of {forward - reverse:.2f} nats" + "".join(f"; {problem}" for problem in estimate.problems),
            abs(forward - reverse) <= LARGEST_GAP and estimate.trustworthy,
        )
