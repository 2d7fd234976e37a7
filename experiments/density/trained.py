"""Machines trained with given settings, their likelihood, and settings chosen on validation rows.

Every training and its likelihood is a *piece*: a file in the folder of pieces, named by what was computed. A run that
was stopped continues with the next piece, and several runs may share the folder. The trained machines are in the folder
``machines`` beside it: another annealing, or other rows, do not need another training.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import harmonium as hm
from harmonium import files
from harmonium.data.found_categories import FoundCategories
from harmonium.errors import Diverged, InvalidData, NotLearned
from harmonium.machines import enumeration

from ..judging import log_partition, sides
from ..record import Record
from .settings import (
    BERNOULLI,
    CATEGORIES,
    EXACT,
    EXACT_BATCH,
    EXACT_RATE,
    EXACT_SHARE,
    IMAGE_SHAPE,
    IMAGES,
    Budget,
    Settings,
)

_SAMPLING_SWEEPS, _FEW_SWEEPS = 1000, 300  # of the tempering before the reverse annealing
_MISSED = 0.5  # nats by which a cross-check may exceed both directions
_CLOSED = 0.5  # nats between the two directions of an estimate that counts as closed
_AGAIN = 2  # times as many annealing steps, if an estimate is not trustworthy
_OUT_OF_REACH = 3.0  # nats of ln Z that a cross-check finds in addition; more annealing steps do not help then


@dataclass(frozen=True)
class Rows:
    """The rows of a data set by split, and the categories in the training and validation rows, if there are any."""

    name: str
    train: Tensor
    validation: Tensor
    test: Tensor
    categories: FoundCategories | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of visible units to try."""
        return (BERNOULLI,) if self.categories is None else (BERNOULLI, CATEGORIES)

    def encoded(self, split: str, visible: str) -> Tensor:
        """The rows of a split as states of the visible layer; raises for test rows that are no states."""
        rows: Tensor = getattr(self, split)
        if visible == BERNOULLI:
            return rows
        assert self.categories is not None
        return self.categories.encode(rows)

    def layer(self, visible: str) -> hm.units.Unit:
        """A new visible layer."""
        if visible == BERNOULLI:
            return hm.units.Bernoulli(self.train.shape[1])
        assert self.categories is not None
        return self.categories.layer()

    def machine(self, settings: Settings) -> hm.RBM:
        """A new machine."""
        return hm.RBM(self.layer(settings.visible), hm.units.Bernoulli(settings.hidden))


def load(name: str) -> Rows:
    """Load the three splits, and find the categories in the training and validation rows, except in those of images.

    Pixels that are never black together, such as those of opposite corners, are no code of a category.
    """
    train, validation, test = (hm.data.load(name, split=split) for split in ("train", "validation", "test"))
    if name in IMAGES:
        return Rows(name, train, validation, test, None)
    found = hm.data.find_categories(torch.cat([train, validation]))
    return Rows(name, train, validation, test, found if found.groups else None)


@dataclass(frozen=True)
class Trained:
    """The log-likelihood of a split in nats, and what it cost.

    ``forward`` and ``reverse`` are the two directions of the annealing, and equal to the exact value if it is known.
    ``pessimistic`` is the smallest of them and of the cross-checks: annealing hardly ever gives too large a ln Z, so a
    cross-check with a smaller likelihood shows that the two directions miss states. ``seconds`` and
    ``estimate_seconds`` are those of one core for training and for the likelihood. Values that are not finite are None.
    """

    forward: float | None
    reverse: float | None
    pessimistic: float | None
    low: float | None
    high: float | None
    exact: bool
    problems: tuple[str, ...]
    parameters: int = 0
    seconds: float = 0.0
    estimate_seconds: float = 0.0

    @property
    def log_likelihood(self) -> float:
        """The mean of the two directions."""
        return -math.inf if self.forward is None or self.reverse is None else (self.forward + self.reverse) / 2

    def __str__(self) -> str:
        low = "-∞" if self.low is None else f"{self.low:.3f}"
        high = "∞" if self.high is None else f"{self.high:.3f}"
        return f"{self.log_likelihood:.3f} in [{low}, {high}]{'' if self.exact else ', annealed'}"

    @property
    def missed(self) -> float:
        """The nats by which the largest ln Z of the cross-checks exceeds those of both directions; at least 0."""
        if self.forward is None or self.reverse is None or self.pessimistic is None:
            return math.inf
        return min(self.forward, self.reverse) - self.pessimistic

    @property
    def score(self) -> float:
        """The pessimistic value, by which settings are compared."""
        return -math.inf if self.pessimistic is None else self.pessimistic


def train(rows: Rows, settings: Settings, updates: int, batch_size: int, seed: int) -> hm.RBM:
    """Train a machine, with a rate that falls to zero and averaged parameters."""
    machine, data = rows.machine(settings), rows.encoded("train", settings.visible)
    penalties: list[hm.training.Penalty] = [hm.L2(settings.l2)] if settings.l2 else []
    if settings.smooth:
        penalties.append(hm.Smooth(settings.smooth, IMAGE_SHAPE))

    def fit(negative: str, number: int, size: int, rate: float, **options: Any) -> None:
        epochs = max(1, round(number * size / len(data)))
        options |= {"epochs": epochs, "batch_size": size, "learning_rate": rate}
        hm.fit(
            machine,
            data,
            negative=negative,
            penalties=penalties,
            constraints=["average:0.3"],
            seed=seed,
            progress=False,
            **options,
        )

    chains = {"schedule": "linear:0.5", "initialize": settings.initialize, "precision": settings.precision}
    fit(settings.chains, updates, batch_size, settings.learning_rate, **chains)
    if settings.exact:
        number = max(1, updates // EXACT_SHARE)
        fit(EXACT, number, EXACT_BATCH, EXACT_RATE, schedule="linear:0.3", initialize="keep")
    return machine


def kept_machine(place: Path, training: Callable[[], hm.RBM]) -> tuple[hm.RBM, float]:
    """A trained machine, from its file if there is one, and the seconds of one core that its training took."""
    if place.exists():
        tensors, metadata = files.read_tensors(place)
        machine = files.machine_from(place, tensors, metadata)
        assert isinstance(machine, hm.RBM)
        return machine, float(metadata["seconds"])
    began = time.process_time()
    machine = training()
    seconds = time.process_time() - began
    place.parent.mkdir(parents=True, exist_ok=True)
    files.write_tensors(place, {}, {"seconds": str(seconds)}, machine)
    return machine, seconds


def measured(
    rows: Rows, settings: Settings, split: str, lengths: tuple[int, int], size: int, seed: int, machines: Path
) -> Trained:
    """Train for ``lengths[0]`` updates, and measure the likelihood of a split with ``lengths[1]`` annealing steps.

    Machines that can be enumerated are measured exactly. An estimate for test rows that is not trustworthy is repeated
    once with twice as many steps, unless the annealings miss most of the states (:data:`_OUT_OF_REACH`). A machine
    that gives a row the probability zero has the log-likelihood -∞. ``machines`` is the folder of trained machines.
    """
    place = machines / f"{machine_name(rows.name, settings, lengths[0], size, seed)}.safetensors"
    machine, seconds = kept_machine(place, lambda: train(rows, settings, lengths[0], size, seed))
    trained = time.process_time()
    number = sum(p.numel() for p in machine.parameters() if p.requires_grad)
    try:
        data = rows.encoded(split, settings.visible)
    except InvalidData as error:
        found = Trained(None, None, None, None, None, True, (str(error),))
    else:
        found = likelihood(machine, data, lengths[1], seed)
        if found.problems and split == "test" and found.missed < _OUT_OF_REACH:
            found = likelihood(machine, data, _AGAIN * lengths[1], seed)
    spent = time.process_time() - trained
    return replace(found, parameters=number, seconds=seconds, estimate_seconds=spent)


def likelihood(machine: hm.RBM, data: Tensor, betas: int, seed: int) -> Trained:
    """The likelihood of rows: exact if the machine can be enumerated, otherwise annealed."""
    if enumeration.enumerable(machine):
        value = finite(hm.likelihood.exact(machine).log_likelihood(data).value)
        return Trained(value, value, value, value, value, True, ())
    found = estimate(machine, data, betas, seed)
    forward, reverse = sides(found)
    checks = log_partition(found).details["checks"].values()
    pessimistic = min(forward, reverse, *(found.with_log_partition(check).value for check in checks))
    low, high = map(finite, found.interval)
    return Trained(finite(forward), finite(reverse), finite(pessimistic), low, high, False, found.problems)


def finite(value: float) -> float | None:
    """The value, or None if it is not finite: JSON has no infinity."""
    return value if math.isfinite(value) else None


def estimate(machine: hm.RBM, data: Tensor, betas: int, seed: int) -> hm.likelihood.LogLikelihood:
    """Estimate the likelihood from both sides."""
    return hm.likelihood.estimate(machine, data, betas=betas, sampling_sweeps=sampling_sweeps(betas), seed=seed)


def sampling_sweeps(betas: int) -> int:
    """Sweeps of the tempering for the samples of the reverse direction: fewer before a short annealing.

    >>> sampling_sweeps(100), sampling_sweeps(300), sampling_sweeps(3000), sampling_sweeps(30_000)
    (100, 300, 300, 1000)
    """
    return min(betas, max(_FEW_SWEEPS, min(_SAMPLING_SWEEPS, betas // 10)))


class Pieces:
    """The folder of the finished pieces."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.machines = folder, folder.with_name("machines")

    def measured(
        self, rows: Rows, settings: Settings, split: str, lengths: tuple[int, int], size: int, seed: int
    ) -> Trained:
        """The result of :func:`measured`, from its file if there is one. A training that diverges has -∞."""
        place = self.folder / f"{piece_name(rows.name, settings, split, lengths, size, seed)}.json"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NotLearned)  # the likelihood says so too
                    found = measured(rows, settings, split, lengths, size, seed, self.machines)
            except Diverged as error:
                found = Trained(None, None, None, None, None, False, (str(error),))
            files.write_text(place, json.dumps(asdict(found), indent=1) + "\n")
        values = json.loads(place.read_text(encoding="utf-8"))
        return Trained(**{**values, "problems": tuple(values["problems"])})


def piece_name(name: str, settings: Settings, split: str, lengths: tuple[int, int], size: int, seed: int) -> str:
    """The name of the file of a piece.

    >>> piece_name("nltcs", Settings(), "test", (100, 50), 10, 0)
    'nltcs-bernoulli-64-rate-0.1-l2-0-pcd-1-updates-100-batch-10-seed-0-betas-50-test'
    """
    return f"{machine_name(name, settings, lengths[0], size, seed)}-betas-{lengths[1]}-{split}"


def machine_name(name: str, settings: Settings, updates: int, size: int, seed: int) -> str:
    """The name of the file of a trained machine.

    >>> machine_name("digits", Settings(precision="auto", smooth=1e-3), 100, 10, 0)
    'digits-bernoulli-64-rate-0.1-l2-0-pcd-1-auto-smooth-0.001-updates-100-batch-10-seed-0'
    """
    kind = [name, settings.visible, settings.hidden, "rate", f"{settings.learning_rate:g}", "l2", f"{settings.l2:g}"]
    kind += [settings.negative.replace(":", "-").replace("+", "-")]
    kind += [] if settings.precision == Settings.precision else [settings.precision]
    kind += [] if settings.initialize == Settings.initialize else [settings.initialize]
    kind += ["smooth", f"{settings.smooth:g}"] if settings.smooth else []
    return "-".join(map(str, [*kind, "updates", updates, "batch", size, "seed", seed]))


def choose(record: Record, pieces: Pieces, rows: Rows, visible: str, budget: Budget, seed: int) -> Settings:
    """Change one setting after the other, and keep the value with the largest pessimistic validation likelihood.

    Among trainings of the final length, those whose likelihood can be trusted are preferred (:func:`preferred`).
    Short annealings can hardly ever be trusted.
    """
    best, found_at = budget.first(visible), dict[tuple[int, int], dict[Settings, Trained]]()
    table: list[dict[str, Any]] = []
    for stage in budget.stages:
        candidates, lengths = budget.candidates(stage, best), budget.lengths(stage)
        if not candidates:
            continue
        tried = found_at.setdefault(lengths, {})  # only trainings of the same length are compared
        for settings in candidates:
            if settings in tried:
                continue
            found = pieces.measured(rows, settings, "validation", lengths, budget.batch_size, seed)
            tried[settings] = found
            seconds = found.seconds + found.estimate_seconds
            table.append({**asdict(settings), "updates": lengths[0], "validation": found.score, "seconds": seconds})
            record.say(f"{rows.name}: {settings}, {lengths[0]} updates: validation {found.score:.3f}, {seconds:.0f} s")
        good = preferred(tried) if lengths[1] == budget.betas else list(tried)
        best = max(good, key=lambda settings: tried[settings].score)
    if table:
        record.table(f"{rows.name}_{visible}_search", table)
    return best


def preferred(tried: Mapping[Settings, Trained]) -> list[Settings]:
    """The settings from which the best is chosen, if the annealings are long.

    A machine of which they miss states may be much worse than even the pessimistic value, and is chosen only if the
    same holds for all. Of values that are equal within the gap of a closed estimate, those that can be trusted are
    preferred.
    """
    seen = [settings for settings, found in tried.items() if found.missed <= _MISSED] or list(tried)
    best = max(tried[settings].score for settings in seen)
    close = [settings for settings in seen if tried[settings].score >= best - _CLOSED]
    return [settings for settings in close if not tried[settings].problems] or close


def independent(rows: Rows) -> float:
    """The test log-likelihood of independent columns, with one pseudocount for each value."""
    p = (rows.train.double().sum(0) + 1) / (len(rows.train) + 2)
    x = rows.test.double()
    return float((torch.xlogy(x, p) + torch.xlogy(1 - x, 1 - p)).sum(1).mean())
