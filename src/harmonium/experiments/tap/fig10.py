"""Figure 10: TAP against adaptive TAP, how well they train and what an iteration costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ... import data as datasets
from ... import meanfield, noise
from ...errors import Diverged
from ...likelihood import pseudo_log_likelihood
from ...machines import RBM
from ...plots import style
from ...training import MeanField, Metric, fit
from ...units import Bernoulli
from ..record import Record

Method = tuple[str, int]

METHODS: tuple[Method, ...] = tuple((name, k) for name in ("tap", "adatap") for k in (3, 10, 100))
POOR: Method = ("adatap", 3)
BATCH, DAMPING = 100, 0.5
PUBLISHED_HIDDEN, PUBLISHED_ORDERS = 500, 3
_NAMES = {"tap": "TAP", "adatap": "adaTAP"}
_COMPARABLE = 0.1  # of what training gains: the spread that still counts as the same result
_LEAST_GAIN = 1.0  # nats a row; with less there is nothing to compare
_REPEATS = 5  # random pixels of each row, the same for every machine
_POINTS = 20  # of a curve


@dataclass(frozen=True)
class Settings:
    """What a scale means. An iteration of adaptive TAP makes an inverse for each of the ``starts``, so that at the
    published rate of 0.001 and 100 starts training by it would take weeks on a processor: both scales take fewer,
    larger steps from fewer starts, and the quick one a smaller machine.
    """

    rows: int
    hidden: int
    starts: int
    epochs: int
    rate: float
    sizes: dict[str, tuple[int, ...]]  # of the batches that are timed


SETTINGS = {
    "quick": Settings(1000, 50, 20, 10, 0.05, {"tap": (1, 3, 10, 30, 100, 300), "adatap": (1, 3, 10)}),
    "full": Settings(5000, 500, 10, 10, 0.02, {"tap": (1, 3, 10, 30, 100, 300), "adatap": (1, 3, 10, 30, 100)}),
}


def run(
    record: Record,
    scale: str,
    data: str = "mnist",
    rows: int = 0,
    hidden: int = 0,
    starts: int = 0,
    epochs: int = 0,
    rate: float = 0.0,
    timed_hidden: int = PUBLISHED_HIDDEN,
    seed: int = 0,
) -> None:
    """Train by every method, and time one iteration of a machine of ``timed_hidden`` units.

    ``rows``, ``hidden``, ``starts``, ``epochs`` and ``rate`` take the place of the scale's.
    """
    chosen = SETTINGS[scale]
    images = datasets.load(data, binarise="threshold")[: rows or chosen.rows]
    curves: dict[Method, list[dict[str, float]]] = {}
    for method in METHODS:
        curves[method] = _train(
            images,
            method,
            hidden or chosen.hidden,
            starts or chosen.starts,
            epochs or chosen.epochs,
            rate or chosen.rate,
            seed,
        )
        last = curves[method][-1]
        record.say(f"{_words(method)}: {last['pseudo_likelihood']:.2f} nats a row after epoch {last['epoch']:.0f}")
    times = _times(images, timed_hidden, chosen.sizes, seed)
    inverses = {name: _seconds(_inversion(size)) for name, size in _matrices(images, timed_hidden).items()}
    record.table(
        "pseudo_likelihood", [{"method": m, "iterations": k, **row} for (m, k), rows in curves.items() for row in rows]
    )
    record.table(
        "seconds",
        [{"method": m, "batch": size, "seconds": value} for m, found in times.items() for size, value in found.items()],
    )
    record.figure("fig10", _figure(curves, times, timed_hidden))
    _claim_training(record, curves)
    _claim_times(record, times, inverses, decided=timed_hidden == PUBLISHED_HIDDEN and images.shape[1] == 784)


def _words(method: Method) -> str:
    return f"{_NAMES[method[0]]}, {method[1]} iterations"


# -- training -------------------------------------------------------------------------------------------------------


def _train(
    images: Tensor, method: Method, hidden: int, starts: int, epochs: int, rate: float, seed: int
) -> list[dict[str, float]]:
    """The pseudo-likelihood of the training rows along training; it ends early where no fixed point exists any more.

    Every step starts at its batch, eqs. (36)-(37), so that the number of iterations is all that the methods get.
    """

    def measure(rbm: RBM) -> float:
        generator = noise.generator(seed)
        values = [pseudo_log_likelihood(rbm, images, exact=False, generator=generator) for _ in range(_REPEATS)]
        return torch.stack(values).double().mean().item()

    rbm = RBM(Bernoulli(images.shape[1]), Bernoulli(hidden))
    rbm.initialise(images, seed=seed)
    curve = [{"epoch": 0.0, "seconds": 0.0, "pseudo_likelihood": measure(rbm)}]
    watched = _Kept(curve, measure, every=max(1, epochs // _POINTS))
    name, iterations = method
    try:
        fit(
            rbm,
            images,
            negative=MeanField(iterations, method=name, starts=starts, persistent=False, damping=DAMPING),
            epochs=epochs,
            batch_size=min(BATCH, len(images)),
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=rate),
            transforms=(),
            callbacks=[watched],
            metrics_every=epochs,
            initialise=False,
            seed=seed,
            progress=False,
        )
    except Diverged:
        curve.append({**curve[-1], "pseudo_likelihood": -math.inf})
    return curve


class _Kept(Metric):
    """The pseudo-likelihood, kept outside of the history, which is lost where training diverges."""

    def __init__(self, curve: list[dict[str, float]], function: Any, every: int) -> None:
        super().__init__("pseudo_likelihood", function, every)
        self._curve = curve

    def on_epoch(self, progress: Any) -> None:
        super().on_epoch(progress)
        if self.name in progress.metrics:
            self._curve.append({key: progress.metrics[key] for key in ("epoch", "seconds", self.name)})


def _claim_training(record: Record, curves: dict[Method, list[dict[str, float]]]) -> None:
    end = {method: curve[-1]["pseudo_likelihood"] for method, curve in curves.items()}
    others = [value for method, value in end.items() if method != POOR]
    spread, gain = max(others) - min(others), max(others) - curves[POOR][0]["pseudo_likelihood"]
    measured = "pseudo-likelihood at the end, nats a row: " + ", ".join(f"{_words(m)} {v:.2f}" for m, v in end.items())
    learnt = gain > _LEAST_GAIN
    record.claim(
        "all methods but adaTAP with 3 iterations yield comparable results",
        f"{measured}; the others are {spread:.2f} apart, of {gain:.2f} gained",
        spread <= _COMPARABLE * gain if learnt else None,
    )
    record.claim(
        "adaTAP with only 3 iterations shows poorer performance",
        f"{end[POOR]:.2f} against {min(others):.2f} to {max(others):.2f} of the others",
        min(others) - end[POOR] > spread if learnt else None,
    )


# -- times ----------------------------------------------------------------------------------------------------------


def _times(images: Tensor, hidden: int, sizes: dict[str, tuple[int, ...]], seed: int) -> dict[str, dict[int, float]]:
    """Seconds for an iteration by method and batch size, from the difference of two numbers of iterations."""
    rbm = RBM(Bernoulli(images.shape[1]), Bernoulli(hidden))
    rbm.initialise(images, scale=0.05, seed=seed)
    solve = {"tap": meanfield.tap, "adatap": meanfield.adatap}
    few, many = {"tap": 2, "adatap": 1}, {"tap": 52, "adatap": 3}
    found: dict[str, dict[int, float]] = {}
    for name, wanted in sizes.items():
        found[name] = {}
        for size in wanted:
            batch = images[torch.arange(size) % len(images)]
            inference = partial(solve[name], rbm, batch, damping=DAMPING)
            costs = [_seconds(partial(inference, steps=steps)) for steps in (few[name], many[name])]
            found[name][size] = max(costs[1] - costs[0], 1e-9) / (many[name] - few[name])
    return found


def _seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """The least of some runs; with one thread in the time of the processor, so that other programs do not count."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    costs = []
    for _ in range(repeats):
        began = clock()
        work()
        costs.append(clock() - began)
    return min(costs)


def _matrices(images: Tensor, hidden: int) -> dict[str, int]:
    """The sizes of what has to be inverted: of Alg. 3 as it is printed, and of its two blocks eliminated to one."""
    return {"whole": images.shape[1] + hidden, "block": min(images.shape[1], hidden)}


def _inversion(size: int) -> Callable[[], Tensor]:
    matrix = torch.eye(size, dtype=torch.float64).mul_(4.0)
    matrix += torch.randn(size, size, dtype=torch.float64, generator=noise.generator(0)) / math.sqrt(size)
    return lambda: torch.linalg.inv(matrix)


def _claim_times(record: Record, times: dict[str, dict[int, float]], inverses: dict[str, float], decided: bool) -> None:
    size = max(set(times["tap"]) & set(times["adatap"]))
    slow, fast = times["adatap"][size], times["tap"][size]
    ratio, printed = slow / fast, size * inverses["whole"] / fast
    orders = math.log10(ratio)
    record.numbers |= {"ratio": ratio, "ratio_of_whole_inverses": printed, "inversion_seconds": inverses}
    record.claim(
        "adaTAP by VAMP is three orders of magnitude slower than TAP for an iteration",
        f"{slow:.2e} s against {fast:.2e} s with a batch of {size}: {ratio:.0f} times, {orders:.1f} orders; "
        f"inverses of the whole matrices of Alg. 3 alone would be {printed:.0f} times",
        round(orders) == PUBLISHED_ORDERS if decided else None,
    )
    few, share = min(times["adatap"]), size * inverses["block"] / slow
    growth = math.log(slow / times["adatap"][few]) / math.log(size / few)
    record.claim(
        "because of a matrix inversion for each element of the batch",
        f"seconds grow as the batch to the power {growth:.2f}; inversions of the small block are {share:.0%} of them, "
        "products that make it and use it most of the rest",
        abs(growth - 1) < 0.2 if decided else None,
    )


# -- the picture ----------------------------------------------------------------------------------------------------


def _figure(
    curves: dict[Method, list[dict[str, float]]], times: dict[str, dict[int, float]], timed_hidden: int
) -> Figure:
    colours = {"tap": style.ACCENT, "adatap": style.SECOND}
    with style.look():
        figure = Figure(figsize=(8.6, 3.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        for (name, k), line in zip(METHODS, (":", "--", "-") * 2, strict=True):
            curve = [row for row in curves[name, k] if math.isfinite(row["pseudo_likelihood"])]
            x, y = ([row[key] for row in curve] for key in ("epoch", "pseudo_likelihood"))
            left.plot(x, y, line, color=colours[name], linewidth=1.4, label=_words((name, k)))
        left.set(xlabel="epoch", ylabel="pseudo-likelihood, nats a row")
        left.set_title("Training")
        left.legend(fontsize=8)
        for name, found in times.items():
            right.loglog(list(found), list(found.values()), "o-", color=colours[name], markersize=4, label=_NAMES[name])
        _proportional(right, times["adatap"])
        right.set(xlabel="batch", ylabel="seconds for an iteration")
        right.set_title(f"Cost, {timed_hidden} hidden units")
        right.legend(fontsize=8)
    return figure


def _proportional(ax: Axes, found: dict[int, float]) -> None:
    """What the cost of one element would be for more of them."""
    x = np.array([min(found), max(found)], dtype=float)
    ax.plot(x, found[min(found)] * x / x[0], color=style.FAINT, linewidth=0.8, zorder=0, label="∝ batch")
