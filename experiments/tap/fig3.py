"""Figure 3: the TAP log-likelihood per unit along training, for every data set and size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harmonium.plots import style

from ..judging import Measured, Verdict, claim, every
from ..record import Record
from .scored import Point, contrast, judge_rise, measure, rise
from .trained import DATASETS, Machines, on_machines

COLORS = (style.ACCENT, style.SECOND, "#4f8f4a", "#8a5aa8")
_EARLY = 0.2  # of the training: 20 of 100 epochs
_RAPID = 2.0  # times the later rate
_TAPERS = 0.5  # of the rate before: a lower rate has tapered off
_CONSTANT = 2.0  # largest ratio of rates that count as constant


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
        own = {size: curves[dataset, size] for size in trained.sizes(dataset)}
        _claims(record, dataset, own, trained.difference(dataset))


def curve(record: Record, trained: Machines, dataset: str, size: int) -> list[Point]:
    """The machine at every epoch that was kept."""
    rows = trained.rows(dataset)[trained.probes(dataset)]
    points = [measure(epoch, machine, rows, rows)[0] for epoch, machine in trained.along(dataset, size)]
    record.say(f"{dataset}, {size} hidden units: {points[0].value:.4f} to {points[-1].value:.4f} nats per unit")
    return points


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(record: Record, dataset: str, curves: dict[int, list[Point]], difference: str) -> None:
    def words(values: dict[int, str]) -> str:
        return "; ".join(f"N_h = {size}: {value}" for size, value in values.items())

    record.claim(
        f"{dataset}: at each size the log-likelihood increases with training",
        words({
            s: f"{points[0].value:.4f} to {points[-1].value:.4f}, a rise of {rise(points):.4f}"
            for s, points in curves.items()
        }),
        every(judge_rise(points) for points in curves.values()),
    )  # fmt: skip
    measured = words({s: " ".join(f"{1e3 * r.value:.2f} ± {1e3 * r.error:.2f}" for r in rates(points))
                      for s, points in curves.items()})  # fmt: skip
    measured += (
        " (10⁻³ nats per unit for the whole training, at the rate of the first fifth and of both halves of the rest)"
    )
    for claimed, judge in (
        ("at each size it increases rapidly at first", judge_rapid),
        ("the increase tapers off by about a fifth of the training (epoch 20 of 100)", judge_taper),
        ("from there on the rate of improvement is constant", judge_constant),
    ):
        # a decreasing learning rate bends the curve by itself, and a shorter training ends where the claim begins
        holds = every(judge(points) for points in curves.values())
        claim(record, f"{dataset}: {claimed}", measured, holds, difference)


def judge_rapid(points: Sequence[Point]) -> Verdict:
    """Criterion: the log-likelihood rises, in the first fifth at RAPID times the mean rate of the rest."""
    first, rest = _stretch(points, 0, _EARLY), _stretch(points, _EARLY, 1)
    if first is None or rest is None:
        return None
    return every([judge_rise(points), contrast(points, first - _RAPID * rest).above(0)])


def judge_taper(points: Sequence[Point]) -> Verdict:
    """Criterion: the log-likelihood rises, and in both later stretches at less than TAPERS of the first rate."""
    first, *later = _stretches(points)
    known = [part for part in later if part is not None]
    if first is None or len(known) < len(later):
        return None
    return every([judge_rise(points), *(contrast(points, _TAPERS * first - part).above(0) for part in known)])


def judge_constant(points: Sequence[Point]) -> Verdict:
    """Criterion: the rates of the last two stretches are positive and within a factor CONSTANT of each other."""
    _, middle, later = _stretches(points)
    if middle is None or later is None:
        return None
    pairs = ((middle, later), (later, middle))
    return every([
        *(contrast(points, part).above(0) for part in (middle, later)),
        *(contrast(points, _CONSTANT * a - b).above(0) for a, b in pairs),
    ])  # fmt: skip


def rates(points: Sequence[Point]) -> list[Measured]:
    """The rate of each stretch, in units of the whole training."""
    return [contrast(points, part) for part in _stretches(points) if part is not None]


def _stretches(points: Sequence[Point]) -> list[np.ndarray | None]:
    """The first fifth of the training, and both halves of the rest."""
    return [_stretch(points, a, b) for a, b in pairwise((0.0, _EARLY, (1 + _EARLY) / 2, 1.0))]


def _stretch(points: Sequence[Point], start: float, end: float) -> np.ndarray | None:
    """The rate between the kept epochs nearest to two shares of the training, as coefficients of the points."""
    shares = np.array([p.epoch / points[-1].epoch for p in points])
    a, b = (int(np.abs(shares - share).argmin()) for share in (start, end))
    if a == b:
        return None
    found = np.zeros(len(points))
    found[[a, b]] = np.array([-1, 1]) / (shares[b] - shares[a])
    return found


def _figure(curves: dict[tuple[str, int], list[Point]]) -> Figure:
    with style.look():
        figure = Figure(figsize=(3.4 * len(DATASETS), 3.1), layout="constrained")
        for ax, dataset in zip(figure.subplots(1, len(DATASETS)), DATASETS, strict=True):
            own = {size: points for (name, size), points in curves.items() if name == dataset}
            for (size, points), color in zip(own.items(), COLORS, strict=False):
                epochs, values, errors = np.array([(p.epoch, p.value, p.error) for p in points]).T
                ax.plot(epochs, values, color=color, marker="o", markersize=3, label=f"$N_h$ = {size}")
                ax.fill_between(epochs, values - errors, values + errors, color=color, alpha=0.25, linewidth=0)
            ax.set_title(dataset)
            ax.set_xlabel("epoch")
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            ax.legend(fontsize=8)
        figure.axes[0].set_ylabel("TAP log-likelihood, nats per unit")
    return figure
