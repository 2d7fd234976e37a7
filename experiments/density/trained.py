"""Machines trained with given settings, and settings chosen on validation rows."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

import harmonium as hm
from harmonium.data.found_categories import FoundCategories
from harmonium.errors import Diverged, InvalidData, NotLearned
from harmonium.machines import enumeration

from ..record import Record
from .settings import Budget, Settings, first, stages

EXACT_STATES = 2**18  # of the layer that is summed over, up to which the likelihood is exact


@dataclass(frozen=True)
class Rows:
    """The rows of a data set by split, and the categories that were found in the training rows, if any."""

    name: str
    train: Tensor
    validation: Tensor
    test: Tensor
    categories: FoundCategories | None

    def encoded(self, split: str, visible: str) -> Tensor:
        """The rows of a split as states of the visible layer."""
        rows: Tensor = getattr(self, split)
        if visible == "bernoulli":
            return rows
        assert self.categories is not None
        return self.categories.encode(rows)

    def layer(self, visible: str) -> hm.units.Unit:
        """A new visible layer."""
        if visible == "bernoulli":
            return hm.units.Bernoulli(self.train.shape[1])
        assert self.categories is not None
        return self.categories.layer()


def load(name: str) -> Rows:
    """Load the three splits; categories that a validation row violates are not used."""
    train, validation, test = (hm.data.load(name, split=split) for split in ("train", "validation", "test"))
    found = hm.data.find_categories(train)
    categories: FoundCategories | None = found if found.groups else None
    if categories is not None:
        try:
            categories.encode(validation)
        except InvalidData:
            categories = None
    return Rows(name, train, validation, test, categories)


@dataclass(frozen=True)
class Trained:
    """A machine, the log-likelihood of a split in nats, and the seconds of one core that training took.

    ``forward`` and ``reverse`` are the two directions of the annealing, and equal to the exact value if it is known.
    """

    machine: hm.RBM
    seconds: float
    forward: float
    reverse: float
    interval: tuple[float, float]
    exact: bool = False
    problems: tuple[str, ...] = ()

    @property
    def log_likelihood(self) -> float:
        """The mean of the two directions."""
        return (self.forward + self.reverse) / 2

    @property
    def lower(self) -> float:
        """The smaller of the two directions, by which settings are compared."""
        return min(self.forward, self.reverse)


def train(rows: Rows, settings: Settings, updates: int, batch_size: int, seed: int) -> tuple[hm.RBM, float]:
    """Train a machine with persistent chains, a rate that falls to zero and averaged parameters."""
    machine = hm.RBM(rows.layer(settings.visible), hm.units.Bernoulli(settings.hidden))
    data = rows.encoded("train", settings.visible)
    penalty = [hm.L2(settings.l2)] if settings.l2 else []
    epochs = max(1, round(updates * batch_size / len(data)))
    begin = time.process_time()
    hm.fit(
        machine,
        data,
        negative=hm.PCD(settings.k),
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=settings.learning_rate,
        schedule="linear:0.5",
        transforms=[*penalty, hm.Centered(), hm.training.Average(0.3)],
        metrics_every=epochs,
        seed=seed,
        progress=False,
    )
    return machine, time.process_time() - begin


def measured(rows: Rows, settings: Settings, split: str, budget: tuple[int, int], size: int, seed: int) -> Trained:
    """Train for ``budget[0]`` updates, and measure the likelihood of a split with ``budget[1]`` annealing steps.

    Machines that can be enumerated are measured exactly.
    """
    machine, seconds = train(rows, settings, budget[0], size, seed)
    data = rows.encoded(split, settings.visible)
    if enumeration.cheaper_parity(machine)[1] <= EXACT_STATES:
        value = hm.likelihood.exact(machine).log_likelihood(data)
        return Trained(machine, seconds, value, value, (value, value), exact=True)
    found = hm.likelihood.estimate(machine, data, betas=budget[1], seed=seed)
    return Trained(
        machine, seconds, found.from_forward, found.from_reverse, found.interval, problems=tuple(found.problems)
    )


def choose(record: Record, rows: Rows, budget: Budget, seed: int) -> Settings:
    """Change one setting after the other, and keep the value with the largest validation likelihood."""
    best, tried = first(rows.name), dict[Settings, float]()
    table: list[dict[str, Any]] = []
    for name, values in stages(rows.name, rows.categories is not None):
        for value in values:
            settings = replace(best, **{name: value})
            if settings in tried:
                continue
            tried[settings] = _validated(rows, settings, budget, seed)
            table.append({**asdict(settings), "validation": tried[settings]})
            record.say(f"{rows.name}: {settings}: validation {tried[settings]:.3f}")
        best = max(tried, key=lambda settings: tried[settings])
    record.table(f"{rows.name}_search", table)
    return best


def _validated(rows: Rows, settings: Settings, budget: Budget, seed: int) -> float:
    lengths = budget.search_updates, budget.search_betas
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotLearned)  # the validation likelihood says so too
            found = measured(rows, settings, "validation", lengths, budget.batch_size, seed)
    except Diverged:
        return -math.inf
    return found.lower if math.isfinite(found.lower) else -math.inf


def parameters(machine: hm.RBM) -> int:
    """The number of learned parameters."""
    return sum(p.numel() for p in machine.parameters() if p.requires_grad)


def independent(rows: Rows) -> float:
    """The test log-likelihood of independent columns, with one pseudocount for each value."""
    p = (rows.train.double().sum(0) + 1) / (len(rows.train) + 2)
    x = rows.test.double()
    return float((torch.xlogy(x, p) + torch.xlogy(1 - x, 1 - p)).sum(1).mean())
