"""Figure 11: deep machines trained with TAP, and whether a second hidden layer improves on the RBM it started from."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from harmonium import data as datasets
from harmonium import files, likelihood
from harmonium.likelihood import LogLikelihood
from harmonium.machines import RBM, BoltzmannMachine, DeepBoltzmannMachine
from harmonium.plots import style
from harmonium.training import (
    L2,
    PCD,
    Average,
    Callback,
    DeepPCD,
    Linear,
    MeanField,
    Progress,
    fit,
    pretrain,
)
from harmonium.units import Bernoulli

from ..judging import IF_TRUE, Verdict, claim, every, log_partition, mean, sides
from ..machines import plain_gradients
from ..options import differences, override, parse_choice, parse_layers
from ..record import Record
from .scored import Point, judge_rise, measure, rise

BATCH = 100
_POINTS = 10  # of a curve
_SEEDS = 3  # machines with, and as many without, pre-training
_SMALL = 0.5  # times the ratio of deep to first weights of a pretrained machine: deep weights "remain small"


@dataclass(frozen=True)
class Joint:
    """Joint training with TAP: hidden layers of the deepest machine, ``rows=0`` for all, ``seen`` rows to measure on.

    The paper does not give the sizes. The full scale has its rate and pre-training and a tenth of its 3000 epochs. A
    few iterations that start at the batch in each step stay near the data. Training then does not see a fixed point far
    from the data to which all starts finally converge; with ``persistent`` fixed points it does.
    """

    hidden: tuple[int, ...]
    rows: int
    pretraining: int
    epochs: int
    rate: float
    iterations: int
    persistent: bool
    seen: int


@dataclass(frozen=True)
class Contest:
    """The deep machine against the RBM: two hidden layers, ``epochs`` of each RBM and of joint training.

    The quick scale uses the small digits: annealing a machine of 784-50 units, which has strong weights, takes more
    than minutes (with 5000 temperatures the two directions differ by 3 nats, and tempered chains make no round trip).
    """

    data: str
    hidden: tuple[int, int]
    rows: int
    epochs: tuple[int, int]
    rate: float
    decay: float
    betas: int
    sampling_steps: int


JOINT = {
    "quick": Joint((100, 50, 25), 2000, 10, 30, 0.02, 5, True, 200),
    "full": Joint((500, 500, 500), 0, 50, 300, 0.001, 100, False, 1000),
}
CONTEST = {
    "quick": Contest("digits", (16, 32), 0, (600, 600), 0.05, 1e-3, 5_000, 500),
    "full": Contest("mnist", (200, 200), 0, (100, 100), 0.05, 5e-4, 40_000, 1000),
}


def run(
    record: Record,
    scale: str,
    data: str = "",
    part: str = "both",
    rows: int = 0,
    hidden: str | int = "",
    epochs: int = 0,
    pretraining: int = 0,
    betas: int = 0,
    seed: int = 0,
) -> None:
    """The curves of the figure (``part=curves``), the deep machine against its RBM (``part=contest``), or both.

    ``data``, ``rows``, ``hidden`` (sizes such as "50,100"), ``epochs``, ``pretraining`` and ``betas`` replace
    those of the scale.
    """
    parse_choice("part", part, ("curves", "contest", "both"))
    sizes = parse_layers(hidden) if hidden else ()
    curves: dict[int, list[dict[str, float]]] = {}
    found: dict[str, LogLikelihood] = {}
    if part != "contest":
        settings = override(JOINT[scale], hidden=sizes, rows=rows, pretraining=pretraining, epochs=epochs)
        train, test = _load(data or "mnist")
        curves = _curves(record, settings, train[: settings.rows or None], test, seed)
    if part != "curves":
        first, then = CONTEST[scale].epochs
        contest = override(
            CONTEST[scale],
            data=data,
            hidden=(*sizes, *sizes[-1:])[:2],
            rows=rows,
            epochs=(pretraining or first, epochs or then),
            betas=betas,
        )
        train, test = _load(contest.data)
        found = _contest(record, contest, train[: contest.rows or None], test, seed)
    record.figure("fig11", _figure(curves, found))


def _load(data: str) -> tuple[Tensor, Tensor]:
    train, test = (datasets.load(data, split=split, binarize="threshold") for split in ("train", "test"))
    return train, test


def _deep(visible: int, hidden: tuple[int, ...]) -> DeepBoltzmannMachine:
    return DeepBoltzmannMachine([Bernoulli(visible), *(Bernoulli(size) for size in hidden)])


# -- joint training by TAP ------------------------------------------------------------------------------------------


def _curves(
    record: Record, settings: Joint, train: Tensor, test: Tensor, seed: int
) -> dict[int, list[dict[str, float]]]:
    """The TAP log-likelihood per unit along joint training, by the number of hidden layers."""
    options = _plainly(settings, len(train))
    difference = _difference(settings, len(train), train.shape[1])
    curves: dict[int, list[dict[str, float]]] = {}
    ratios: dict[str, list[float]] = {"pretrained": [], "alone": []}
    for depth in (2, 3):
        hidden = (*settings.hidden, *settings.hidden[-1:])[:depth]
        machine = _deep(train.shape[1], hidden)
        pretrain(machine, train, epochs=settings.pretraining, seed=seed, **options)
        watched = _TapCurve(train[: settings.seen], test[: settings.seen], max(1, settings.epochs // _POINTS))
        fit(machine, train, epochs=settings.epochs, callbacks=[watched], seed=seed, **options)
        curves[depth] = watched.table()
        words = f"{len(train)} rows, {'-'.join(map(str, (train.shape[1], *hidden)))} units, {settings.epochs} epochs"
        last = curves[depth][-1]
        record.say(f"{depth} hidden layers: train {last['train']:.4f}, test {last['test']:.4f} nats per unit")
        claim(
            record,
            f"joint training raises the TAP log-likelihood of train and test images, {depth} hidden layers",
            "per unit, "
            + ", ".join(
                f"{name} {points[0].value:.4f} to {points[-1].value:.4f}, a rise of {rise(points):.4f}"
                for name, points in (("train", watched.train), ("test", watched.test))
            )
            + f" ({words})",
            every(judge_rise(points) for points in (watched.train, watched.test)),
            difference,
            IF_TRUE,
        )
        if depth == 2:
            ratios["pretrained"].append(_ratio(machine))
    for k in range(_SEEDS):
        sizes = (*settings.hidden, *settings.hidden[-1:])[:2]
        if k > 0:
            again = _deep(train.shape[1], sizes)
            pretrain(again, train, epochs=settings.pretraining, seed=seed + k, **options)
            fit(again, train, epochs=settings.epochs, seed=seed + k, **options)
            ratios["pretrained"].append(_ratio(again))
        alone = _deep(train.shape[1], sizes)
        fit(alone, train, epochs=settings.pretraining + settings.epochs, seed=seed + k, **options)
        ratios["alone"].append(_ratio(alone))
        record.say(f"seed {seed + k}: {', '.join(f'{name} {values[k]:.3f}' for name, values in ratios.items())}")
    claim(
        record,
        "joint training without pre-training leaves the weights of deep layers small: the machine resembles an RBM",
        f"root mean square of the second coupling over that of the first: {mean(ratios['alone'])} without, "
        f"{mean(ratios['pretrained'])} with pre-training ({_SEEDS} seeds)",
        judge_small(ratios["alone"], ratios["pretrained"]),
        difference,
        IF_TRUE,
    )
    record.table("tap_log_likelihood", [{"hidden_layers": d, **row} for d, rows in curves.items() for row in rows])
    return curves


def judge_small(alone: Sequence[float], pretrained: Sequence[float]) -> Verdict:
    """From the ratios of deep to first weights of machines trained with several seeds.

    Criterion: without pre-training the ratio is less than SMALL of that with it, in the mean of logarithms.
    """
    return mean(np.log(alone) - np.log(pretrained)).below(math.log(_SMALL))


def _difference(settings: Joint, rows: int, visible: int) -> str:
    """How training differs from the published one, in words."""
    return differences(
        (
            ("visible units", visible, 784),
            ("images", rows, 60_000),
            ("epochs of pre-training", settings.pretraining, 50),
            ("epochs", settings.epochs, 3000),
            ("learning rate", settings.rate, 0.001),
        )
    )


def _plainly(settings: Joint, rows: int) -> dict[str, Any]:
    """Options of ``fit`` for Alg. 4: plain gradients."""
    return plain_gradients(settings.rate, BATCH, rows) | {
        "negative": MeanField(settings.iterations, persistent=settings.persistent, tolerance=1e-8),
    }


def _ratio(machine: BoltzmannMachine) -> float:
    """Root mean square of the second coupling over that of the first."""
    first, second = (
        coupling.weight.detach().double().square().mean().sqrt().item() for coupling in machine.couplings[:2]
    )
    return second / first


class _TapCurve(Callback):
    """The TAP log-likelihood per unit of some train and test rows, before training and every few epochs."""

    def __init__(self, train: Tensor, test: Tensor, every: int) -> None:
        self._rows, self._every = (train, test), every
        self.train: list[Point] = []
        self.test: list[Point] = []

    def on_start(self, progress: Progress) -> None:
        self._measure(progress)

    def on_epoch(self, progress: Progress) -> None:
        if progress.epoch % self._every == 0 or progress.epoch == progress.epochs:
            self._measure(progress)

    def _measure(self, progress: Progress) -> None:
        found = measure(progress.epoch, progress.machine, self._rows[0], *self._rows)
        self.train.append(found[0])
        self.test.append(found[1])

    def table(self) -> list[dict[str, float]]:
        """A row for each measurement."""
        return [
            {
                "epoch": float(train.epoch),
                "train": train.value,
                "train_error": train.error,
                "test": test.value,
                "test_error": test.error,
                "solutions": float(train.solutions),
                "converged": train.converged,
            }
            for train, test in zip(self.train, self.test, strict=True)
        ]


# -- the deep machine against its RBM -------------------------------------------------------------------------------


def _contest(record: Record, settings: Contest, train: Tensor, test: Tensor, seed: int) -> dict[str, LogLikelihood]:
    """Pre-train, continue as a deep machine and as an RBM for the same time, and anneal all three from both sides."""
    ends = _Ends()
    deep = _deep(train.shape[1], settings.hidden)
    options = {"negative": PCD(1), "callbacks": [ends], **_carefully(settings, len(train), seed)}
    pretrain(deep, train, epochs=settings.epochs[0], **options)
    rbm = copy.deepcopy(RBM(deep.layers[0], deep.layers[1], deep.couplings[0]))
    joint = options | {"negative": DeepPCD(1, positive="mean-field", iterations=5)}
    fit(deep, train, epochs=settings.epochs[1], **joint)
    more = ends.seconds[-1] - ends.seconds[1]  # time of the second layer and of joint training
    further = max(1, round(settings.epochs[0] * more / (ends.seconds[1] - ends.seconds[0])))
    trained_on = copy.deepcopy(rbm)
    fit(trained_on, train, epochs=further, **options)
    machines: dict[str, BoltzmannMachine] = {
        f"RBM, {settings.epochs[0]} epochs": rbm,
        f"RBM, {further} epochs more": trained_on,
        "two hidden layers": deep,
    }
    for name, machine in zip(("rbm", "rbm_trained_on", "deep"), machines.values(), strict=True):
        files.save(machine, record.folder / f"{name}.safetensors")
    record.say(f"trained: {', '.join(machines)}")
    found = {}
    for name, machine in machines.items():
        found[name] = likelihood.estimate(
            machine,
            test,
            base=train[:10_000],
            betas=settings.betas,
            sampling_sweeps=settings.sampling_steps,
            seed=seed,
        )
        record.say(f"{name}: {found[name]}")
    record.table("contest", [_row(name, value) for name, value in found.items()])
    _claims(record, settings, found)
    return found


def _carefully(settings: Contest, rows: int, seed: int) -> dict[str, Any]:
    """Options of ``fit`` that all three machines share."""
    return plain_gradients(settings.rate, BATCH, rows) | {
        "penalties": [L2(settings.decay)],
        "constraints": [Average(0.3)],
        "schedule": Linear(0.3),
        "seed": seed,
    }


class _Ends(Callback):
    """When each training started or ended; in CPU time if there is one thread."""

    def __init__(self) -> None:
        self._clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        self.seconds: list[float] = []

    def on_start(self, progress: Progress) -> None:
        if not self.seconds:
            self.seconds.append(self._clock())

    def on_end(self, progress: Progress) -> None:
        self.seconds.append(self._clock())


def _row(name: str, value: LogLikelihood) -> dict[str, Any]:
    (forward, reverse), details = sides(value), log_partition(value).details
    return {
        "machine": name,
        "test": value.value,
        "test_forward": forward,
        "test_reverse": reverse,
        "from": value.interval[0],
        "to": value.interval[1],
        "forward_effective_runs": details["forward"].details["effective_runs"],
        "reverse_effective_runs": details["reverse"].details["effective_runs"],
        "round_trips": details["round_trips"],
        "problems": "; ".join(value.problems),
    }


def _claims(record: Record, settings: Contest, found: dict[str, LogLikelihood]) -> None:
    *others, (_, deep) = found.items()
    words = (
        "a machine of two hidden layers has a better test bound than the RBM it started from",
        "and than this RBM trained further for the time that the second layer took",
    )
    for claimed, (name, rbm) in zip(words, others, strict=True):
        record.claim(
            claimed,
            f"{settings.data}, {name}: {rbm}; {'-'.join(map(str, settings.hidden))} hidden units: {deep}, "
            "a lower bound by mean field; "
            f"the difference is at least {deep.interval[0] - rbm.interval[1]:+.2f} and at most "
            f"{deep.interval[1] - rbm.interval[0]:+.2f} nats",
            judge_deeper(deep.interval, rbm.interval) if rbm.trustworthy and deep.trustworthy else None,
        )


def judge_deeper(deep: tuple[float, float], rbm: tuple[float, float]) -> Verdict:
    """From the intervals of two log-likelihoods by annealing from both sides.

    Criterion: the interval of the deep machine is above the other; open if the two overlap.
    """
    return True if deep[0] > rbm[1] else False if deep[1] < rbm[0] else None


# -- the figure -----------------------------------------------------------------------------------------------------


def _figure(curves: dict[int, list[dict[str, float]]], found: dict[str, LogLikelihood]) -> Figure:
    with style.look():
        panels = len(curves) + bool(found)
        figure = Figure(figsize=(1.0 + 3.1 * panels, 3.2), layout="constrained")
        grid = np.atleast_1d(figure.subplots(1, panels))
        for ax, (depth, curve) in zip(grid, curves.items(), strict=False):
            epochs = [row["epoch"] for row in curve]
            for name, color in (("test", style.ACCENT), ("train", style.SECOND)):
                ax.plot(epochs, [row[name] for row in curve], "o-", color=color, markersize=3, label=name)
            ax.set(xlabel="epoch of joint training", ylabel="TAP log-likelihood, nats per unit")
            ax.set_title(f"{depth} hidden layers")
            ax.legend(fontsize=8)
        if found:
            _draw_contest(grid[-1], found)
    return figure


def _broken(name: str) -> str:
    """The name, broken into short lines."""
    return name.replace(", ", ",\n").replace(" more", "\nmore").replace("two hidden ", "two\nhidden\n")


def _draw_contest(ax: Axes, found: dict[str, LogLikelihood]) -> None:
    for place, value in enumerate(found.values()):
        color = style.SECOND if place == len(found) - 1 else style.ACCENT
        drawn = [end for end in value.interval if math.isfinite(end)] + [*sides(value)]
        ax.vlines(place, min(drawn), max(drawn), color=color, linewidth=1)
        ax.plot(
            [place, place],
            sides(value),
            "_",
            color=color,
            markersize=14,
            markeredgewidth=2,
        )
    ax.set_xticks(range(len(found)), labels=[_broken(name) for name in found])
    ax.set(xlim=(-0.5, len(found) - 0.5), ylabel="test log-likelihood, nats per row")
    ax.set_title("By annealing in both directions")
