"""Figure 3: the TAP log-likelihood per unit along training, for every set of pictures and size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...likelihood import tap
from ...machines import RBM
from ...plots import style
from ..record import Record
from .trained import DATASETS, Machines, on_machines

COLOURS = (style.ACCENT, style.SECOND, "#4f8f4a", "#8a5aa8")
_EARLY = 0.2  # of the training: 20 of 100 epochs
_TAPERS = 0.5  # of the rate before, below which it has tapered off
_CONSTANT = 2.0  # by which two rates may differ to be one


@dataclass(frozen=True)
class Point:
    """The log-likelihood of the training rows for each unit of the machine, at one epoch."""

    epoch: int
    value: float
    error: float  # standard error over the rows
    solutions: int
    converged: float  # share of the starts


@on_machines
def run(record: Record, trained: Machines) -> None:
    """A curve for each machine."""
    curves = {
        (dataset, size): curve(record, trained, dataset, size)
        for dataset in DATASETS
        for size in trained.sizes(dataset)
    }
    record.table(
        "likelihoods",
        [
            {
                "dataset": dataset,
                "hidden": size,
                "epoch": p.epoch,
                "log_likelihood_per_unit": p.value,
                "standard_error": p.error,
                "solutions": p.solutions,
                "converged": p.converged,
            }
            for (dataset, size), points in curves.items()
            for p in points
        ],
    )
    record.figure("fig3", _figure(curves))
    for dataset in DATASETS:
        _claims(record, dataset, {size: curves[dataset, size] for size in trained.sizes(dataset)})


def curve(record: Record, trained: Machines, dataset: str, size: int) -> list[Point]:
    """The machine at every epoch that was kept."""
    rows = trained.rows(dataset)[trained.probes(dataset)]
    points = [measure(epoch, machine, rows) for epoch, machine in trained.along(dataset, size)]
    record.say(f"{dataset}, {size} hidden units: {points[0].value:.4f} to {points[-1].value:.4f} nats a unit")
    return points


def measure(epoch: int, machine: RBM, rows: torch.Tensor) -> Point:
    """ln p of ``rows`` with ln Z from the TAP solutions that are reached from them."""
    estimate = tap(machine, rows)
    values = estimate.log_probability(rows) / sum(unit.sites for unit in machine.units)
    error = values.std().item() / math.sqrt(len(rows))
    return Point(epoch, values.mean().item(), error, len(estimate.solutions), estimate.converged / estimate.starts)


def _claims(record: Record, dataset: str, curves: dict[int, list[Point]]) -> None:
    def words(values: dict[int, str]) -> str:
        return "; ".join(f"N_h = {size}: {value}" for size, value in values.items())

    early = {size: _at(points, _EARLY) for size, points in curves.items()}
    share = {s: _rise(points, 0, early[s]) / _rise(points, 0, 1) for s, points in curves.items()}
    record.claim(
        f"{dataset}: at each size the log-likelihood increases rapidly at first",
        words({
            s: f"{points[0].value:.4f} to {points[-1].value:.4f}, {share[s]:.0%} of it in the first "
            f"{early[s]:.0%} of the epochs"
            for s, points in curves.items()
        }),
        all(points[-1].value > points[0].value and share[s] > early[s] for s, points in curves.items()),
    )  # fmt: skip
    rates = {
        s: [_rise(points, start, end) / (end - start) for start, end in _stretches(points)]
        for s, points in curves.items()
    }
    measured = words({s: " ".join(f"{1e3 * rate:.2f}" for rate in values) for s, values in rates.items()})
    known = all(len(values) == 3 for values in rates.values())
    measured += " (10⁻³ nats a unit for the whole training, at the rate of each stretch)"
    record.claim(
        f"{dataset}: the increase tapers off by about a fifth of the training (epoch 20 of 100)",
        measured,
        all(later < _TAPERS * first for first, *rest in rates.values() for later in rest) if known else None,
    )
    record.claim(
        f"{dataset}: from there on the rate of improvement is constant",
        measured,
        all(later > 0 and 1 / _CONSTANT <= middle / later <= _CONSTANT for _, middle, later in rates.values())
        if known
        else None,
    )


def _stretches(points: Sequence[Point]) -> list[tuple[float, float]]:
    """The first fifth of the training, and the rest in halves, as shares of it; fewer where too few were kept."""
    ends = [0.0, *(_at(points, share) for share in (_EARLY, (1 + _EARLY) / 2, 1.0))]
    return [(a, b) for a, b in pairwise(ends) if b > a]


def _at(points: Sequence[Point], share: float) -> float:
    """The share of the training that the kept epoch nearest to ``share`` is at."""
    last = points[-1].epoch
    return min((p.epoch / last for p in points), key=lambda x: abs(x - share))


def _rise(points: Sequence[Point], start: float, end: float) -> float:
    value = {p.epoch / points[-1].epoch: p.value for p in points}
    return value[end] - value[start]


def _figure(curves: dict[tuple[str, int], list[Point]]) -> Figure:
    with style.look():
        figure = Figure(figsize=(3.4 * len(DATASETS), 3.1), layout="constrained")
        for ax, dataset in zip(figure.subplots(1, len(DATASETS)), DATASETS, strict=True):
            own = {size: points for (name, size), points in curves.items() if name == dataset}
            for (size, points), colour in zip(own.items(), COLOURS, strict=False):
                epochs, values, errors = np.array([(p.epoch, p.value, p.error) for p in points]).T
                ax.plot(epochs, values, color=colour, marker="o", markersize=3, label=f"$N_h$ = {size}")
                ax.fill_between(epochs, values - errors, values + errors, color=colour, alpha=0.25, linewidth=0)
            ax.set_title(dataset)
            ax.set_xlabel("epoch")
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            ax.legend(fontsize=8)
        figure.axes[0].set_ylabel("TAP log-likelihood, nats a unit")
    return figure
