"""Figure 10: TAP against adaptive TAP: the quality of training and the cost of an iteration."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from harmonium import data as datasets
from harmonium import meanfield, noise
from harmonium.errors import Diverged
from harmonium.likelihood import pseudo
from harmonium.machines import RBM
from harmonium.plots import style
from harmonium.training import MeanField, Metric, fit
from harmonium.units import Bernoulli

from ..judging import IF_TRUE, Measured, Verdict, claim, every, mean
from ..machines import plain_gradients
from ..options import differences, override, parse_choice
from ..record import Record

Method = tuple[str, int]

METHODS: tuple[Method, ...] = tuple((name, k) for name in ("tap", "adatap") for k in (3, 10, 100))
POOR: Method = ("adatap", 3)
BATCH, DAMPING = 100, 0.5
PUBLISHED_HIDDEN, PUBLISHED_ORDERS = 500, 3
_NAMES = {"tap": "TAP", "adatap": "adaTAP"}
_COMPARABLE = 0.1  # of the gain of training: largest difference of comparable results
_LEAST_GAIN = 1.0  # nats per row; smaller gains are not compared
_REPEATS = 5  # number of random pixels of each row, the same for every machine
_POINTS = 20  # of a curve


@dataclass(frozen=True)
class Settings:
    """The settings of a scale. An iteration of adaptive TAP inverts a matrix for each of the ``starts``. At the
    published rate of 0.001 with 100 starts, training would take weeks on a CPU: both scales take fewer, larger steps
    from fewer starts, and the quick one trains a smaller machine.
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
    part: str = "both",
    seed: int = 0,
) -> None:
    """Train by every method (``part=training``), time one iteration of a machine of ``timed_hidden`` units
    (``part=times``), or both.

    ``rows``, ``hidden``, ``starts``, ``epochs`` and ``rate`` replace those of the scale.
    """
    parse_choice("part", part, ("training", "times", "both"))
    own = override(SETTINGS[scale], rows=rows, hidden=hidden, starts=starts, epochs=epochs, rate=rate)
    images = datasets.load(data, binarize="threshold")[: own.rows]
    curves: dict[Method, Trained] = {}
    times: dict[str, dict[int, list[float]]] = {}
    if part != "times":
        for method in METHODS:
            curves[method] = _train(images, method, own, seed)
            last = curves[method].curve[-1]
            record.say(
                f"{_words(method)}: {last['pseudo_likelihood']:.2f} nats per row after epoch {last['epoch']:.0f}"
            )
        record.table(
            "pseudo_likelihood",
            [{"method": m, "iterations": k, **row} for (m, k), found in curves.items() for row in found.curve],
        )
    if part != "training":
        times = _times(images, timed_hidden, own.sizes, seed)
        record.table(
            "seconds",
            [
                {"method": m, "batch": size, "repeat": k, "seconds": value}
                for m, found in times.items()
                for size, values in found.items()
                for k, value in enumerate(values)
            ],
        )
    record.figure("fig10", _figure(curves, times, timed_hidden))
    if curves:
        _claim_training(record, {m: x.start for m, x in curves.items()}, {m: x.end for m, x in curves.items()},
                        difference(own, images.shape[1]))  # fmt: skip
    if times:
        inverses = {name: _seconds(_inversion(size)) for name, size in _matrices(images, timed_hidden).items()}
        _claim_times(record, times, inverses, decided=timed_hidden == PUBLISHED_HIDDEN and images.shape[1] == 784)


def difference(own: Settings, visible: int) -> str:
    """How training differs from the published one, in words."""
    return differences(
        (
            ("visible units", visible, 784),
            ("hidden units", own.hidden, PUBLISHED_HIDDEN),
            ("images", own.rows, 5000),
            ("starts", own.starts, BATCH),
            ("learning rate", own.rate, 0.001),
        )
    )


def _words(method: Method) -> str:
    return f"{_NAMES[method[0]]}, {method[1]} iterations"


# -- training -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """The mean pseudo-likelihood along training, and that of every row before and after it: (rows,)."""

    curve: list[dict[str, float]]
    start: np.ndarray
    end: np.ndarray


def _train(images: Tensor, method: Method, own: Settings, seed: int) -> Trained:
    """The pseudo-likelihood of the training rows along training, which ends early if there is no fixed point.

    Every step starts at its batch, eqs. (36)-(37), so that the methods differ only in the iterations. All start with
    the same weights and see the same batches.
    """

    def each(rbm: RBM) -> np.ndarray:
        generator = noise.generator(seed)
        values = [pseudo(rbm, images, sites=1, seed=generator) for _ in range(_REPEATS)]
        return style.as_array(torch.stack(values).double().mean(0))

    def measure(rbm: RBM) -> float:
        return float(each(rbm).mean())

    rbm = RBM(Bernoulli(images.shape[1]), Bernoulli(own.hidden))
    rbm.initialize(images, seed=seed)
    start = each(rbm)
    curve = [{"epoch": 0.0, "seconds": 0.0, "pseudo_likelihood": float(start.mean())}]
    watched = _Kept(curve, measure, every=max(1, own.epochs // _POINTS))
    name, iterations = method
    try:
        fit(
            rbm,
            images,
            negative=MeanField(iterations, method=name, starts=own.starts, persistent=False, damping=DAMPING),
            epochs=own.epochs,
            callbacks=[watched],
            initialize="keep",
            seed=seed,
            **plain_gradients(own.rate, BATCH, len(images)),
        )
    except Diverged:
        curve.append({**curve[-1], "pseudo_likelihood": -math.inf})
        return Trained(curve, start, np.full(len(images), -math.inf))
    return Trained(curve, start, each(rbm))


class _Kept(Metric):
    """The pseudo-likelihood, kept outside of the history, which is lost if training diverges."""

    def __init__(self, curve: list[dict[str, float]], function: Any, every: int) -> None:
        super().__init__("pseudo_likelihood", function, every)
        self._curve = curve

    def on_epoch(self, progress: Any) -> None:
        super().on_epoch(progress)
        if self.name in progress.metrics:
            self._curve.append({key: progress.metrics[key] for key in ("epoch", "seconds", self.name)})


def _claim_training(
    record: Record, start: dict[Method, np.ndarray], end: dict[Method, np.ndarray], difference: str
) -> None:
    measured = "pseudo-likelihood at the end, nats per row: " + ", ".join(
        f"{_words(m)} {values.mean():.2f}" for m, values in end.items()
    )
    best, worst = _best(end), _worst(end)
    measured += f"; gained {mean(end[best] - start[best]):.2f}, "
    for claimed, verdict, words in (
        (
            "all methods but adaTAP with 3 iterations yield comparable results",
            judge_comparable(start, end),
            f"the others are {_apart(end[best], end[worst])} apart",
        ),
        (
            "adaTAP with only 3 iterations shows poorer performance",
            judge_poorer(start, end),
            f"adaTAP with 3 is {_apart(end[worst], end[POOR])} behind the last of the others",
        ),
    ):
        claim(record, claimed, measured + words, verdict, difference, IF_TRUE)


def _apart(a: np.ndarray, b: np.ndarray) -> str:
    """The mean difference over the same rows."""
    return f"{mean(a - b):.2f}" if np.isfinite(a).all() and np.isfinite(b).all() else "infinitely far"


def _best(end: dict[Method, np.ndarray]) -> Method:
    return max((m for m in end if m != POOR), key=lambda m: end[m].mean())


def _worst(end: dict[Method, np.ndarray]) -> Method:
    return min((m for m in end if m != POOR), key=lambda m: end[m].mean())


def judge_comparable(start: dict[Method, np.ndarray], end: dict[Method, np.ndarray]) -> Verdict:
    """From the pseudo-likelihood of every row before and after training by each method.

    Criterion: no method except adaTAP with 3 iterations is behind the best by more than COMPARABLE of the gain of the
    best. Open if that gain does not exceed LEAST_GAIN.
    """
    best = _best(end)
    gain = end[best] - start[best]
    if not np.isfinite(gain).all() or mean(gain).above(_LEAST_GAIN) is not True:
        return None
    behind = {m: end[best] - values for m, values in end.items() if m not in (POOR, best)}
    return every(
        mean(lag - _COMPARABLE * gain).below(0) if np.isfinite(lag).all() else False for lag in behind.values()
    )


def judge_poorer(start: dict[Method, np.ndarray], end: dict[Method, np.ndarray]) -> Verdict:
    """Criterion: adaTAP with 3 iterations is behind every other method by more than COMPARABLE of the gain of the
    best. Open if that gain does not exceed LEAST_GAIN."""
    best, worst = _best(end), _worst(end)
    gain = end[best] - start[best]
    if not np.isfinite(gain).all() or mean(gain).above(_LEAST_GAIN) is not True:
        return None
    if not np.isfinite(end[worst]).all():
        return False
    lag = end[worst] - end[POOR]
    return mean(lag - _COMPARABLE * gain).above(0) if np.isfinite(lag).all() else True


# -- times ----------------------------------------------------------------------------------------------------------


def _times(
    images: Tensor, hidden: int, sizes: dict[str, tuple[int, ...]], seed: int
) -> dict[str, dict[int, list[float]]]:
    """Seconds per iteration by method and batch size, from the difference of two runs with few and many iterations."""
    rbm = RBM(Bernoulli(images.shape[1]), Bernoulli(hidden))
    rbm.initialize(images, scale=0.05, seed=seed)
    solve = {"tap": meanfield.tap, "adatap": meanfield.adatap}
    few, many = {"tap": 2, "adatap": 1}, {"tap": 52, "adatap": 3}
    found: dict[str, dict[int, list[float]]] = {}
    for name, wanted in sizes.items():
        found[name] = {}
        for size in wanted:
            batch = images[torch.arange(size) % len(images)]
            inference = partial(solve[name], rbm, batch, damping=DAMPING)
            short, long = (_seconds(partial(inference, iterations=n)) for n in (few[name], many[name]))
            costs = zip(short, long, strict=True)
            found[name][size] = [max(b - a, 1e-9) / (many[name] - few[name]) for a, b in costs]
    return found


def _seconds(work: Callable[[], Any], repeats: int = 5) -> list[float]:
    """Seconds of several runs; CPU time if there is one thread, so that other programs do not count."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    costs = []
    for _ in range(repeats):
        began = clock()
        work()
        costs.append(clock() - began)
    return costs


def _matrices(images: Tensor, hidden: int) -> dict[str, int]:
    """Sizes of the matrices to invert: in Alg. 3 as printed, and after elimination of one of its two blocks."""
    return {"whole": images.shape[1] + hidden, "block": min(images.shape[1], hidden)}


def _inversion(size: int) -> Callable[[], Tensor]:
    matrix = torch.eye(size, dtype=torch.float64).mul_(4.0)
    matrix += torch.randn(size, size, dtype=torch.float64, generator=noise.generator(0)) / math.sqrt(size)
    return lambda: torch.linalg.inv(matrix)


def orders(slow: Sequence[float], fast: Sequence[float]) -> Measured:
    """log10 of the ratio of two times, each measured several times."""
    return mean(np.log10(slow)).minus(mean(np.log10(fast)))


def _claim_times(
    record: Record, times: dict[str, dict[int, list[float]]], inverses: dict[str, list[float]], decided: bool
) -> None:
    size = max(set(times["tap"]) & set(times["adatap"]))
    slow, fast = times["adatap"][size], times["tap"][size]
    whole, block = ([size * seconds for seconds in inverses[name]] for name in ("whole", "block"))
    found, alone = orders(slow, fast), orders(whole, fast)
    record.numbers |= {
        "ratio": 10**found.value,
        "ratio_of_whole_inverses": 10**alone.value,
        "inversion_seconds": inverses,
    }
    record.claim(
        "adaTAP by VAMP is three orders of magnitude slower than TAP for an iteration",
        f"{np.median(slow):.2e} s against {np.median(fast):.2e} s with a batch of {size}: {10**found.value:.0f} times, "
        f"{found:.2f} orders",
        judge_orders(found) if decided else None,
    )
    record.claim(
        "because of a matrix inversion for each element of the batch",
        f"the inverses of Alg. 3 alone, one of the whole matrix for each of {size} elements, take "
        f"{10**alone.value:.0f} times as long as an iteration of TAP, {alone:.2f} orders; the smaller ones that are "
        f"made here are {10 ** orders(block, slow).value:.0%} of an iteration of adaTAP",
        judge_cause(alone) if decided else None,
    )


def judge_orders(found: Measured) -> Verdict:
    """Criterion: the ratio rounds to PUBLISHED_ORDERS orders of magnitude."""
    return every([found.above(PUBLISHED_ORDERS - 0.5), found.below(PUBLISHED_ORDERS + 0.5)])


def judge_cause(alone: Measured) -> Verdict:
    """From log10 of the time of the inverses in Alg. 3, in units of an iteration of TAP.

    Criterion: the inverses alone explain the published ratio, rounded. Growth of the time with the batch would show
    nothing, as it does so for every method.
    """
    return alone.above(PUBLISHED_ORDERS - 0.5)


# -- the figure -----------------------------------------------------------------------------------------------------


def _figure(curves: dict[Method, Trained], times: dict[str, dict[int, list[float]]], timed_hidden: int) -> Figure:
    colors = {"tap": style.ACCENT, "adatap": style.SECOND}
    with style.look():
        panels = bool(curves) + bool(times)
        figure = Figure(figsize=(4.3 * panels, 3.5), layout="constrained")
        axes = list(np.atleast_1d(figure.subplots(1, panels)))
        if curves:
            ax = axes.pop(0)
            for (name, k), line in zip(METHODS, (":", "--", "-") * 2, strict=True):
                curve = [row for row in curves[name, k].curve if math.isfinite(row["pseudo_likelihood"])]
                x, y = ([row[key] for row in curve] for key in ("epoch", "pseudo_likelihood"))
                ax.plot(x, y, line, color=colors[name], linewidth=1.4, label=_words((name, k)))
            ax.set(xlabel="epoch", ylabel="pseudo-likelihood, nats per row")
            ax.set_title("Training")
            ax.legend(fontsize=8)
        if times:
            ax = axes.pop(0)
            least = {name: {size: min(costs) for size, costs in found.items()} for name, found in times.items()}
            for name, found in least.items():
                ax.loglog(list(found), list(found.values()), "o-", color=colors[name], markersize=4, label=_NAMES[name])
            _proportional(ax, least["adatap"])
            ax.set(xlabel="batch", ylabel="seconds for an iteration")
            ax.set_title(f"Cost, {timed_hidden} hidden units")
            ax.legend(fontsize=8)
    return figure


def _proportional(ax: Axes, found: dict[int, float]) -> None:
    """A line proportional to the batch through the first point."""
    x = np.array([min(found), max(found)], dtype=float)
    ax.plot(x, found[min(found)] * x / x[0], color=style.FAINT, linewidth=0.8, zorder=0, label="∝ batch")
