"""Classification RBMs trained with settings that were chosen on validation rows, and verdicts on their test error."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import harmonium as hm
from harmonium.tasks import LabelClassifier, fit_classifier, label_rbm

from .. import judging
from ..options import differences
from ..record import Record


@dataclass(frozen=True)
class Settings:
    """The size of the machine and of the training."""

    hidden: int
    rows: int  # for training and validation; the test rows are others
    held_out: int  # of these the last ones, to choose alpha
    epochs: int
    rate: float
    alpha: float  # weight of the generative part; 0 for discriminative training
    alphas: tuple[float, ...] = (0.0, 0.01, 0.1)  # to choose from
    choosing_rows: int = 20_000
    choosing_hidden: int = 500
    choosing_epochs: int = 6
    batch_size: int = 100
    l2: float = 0.0


@dataclass(frozen=True)
class Task:
    """Rows and labels for training and test; ``wrap`` makes a source of training rows, such as redrawn pixels."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    classes: int
    wrap: Callable[[Tensor], Any] = torch.as_tensor


def trained(task: Task, settings: Settings, rows: slice, seed: int) -> LabelClassifier:
    """Train a machine on some of the training rows."""
    features, labels = (part[rows] for part in task.train)
    machine = label_rbm(hm.units.Bernoulli(features.shape[1]), task.classes, settings.hidden)
    penalty: list[hm.training.Penalty] = [hm.L2(settings.l2)] if settings.l2 else []
    return fit_classifier(
        machine,
        task.wrap(features),
        labels,
        objective="hybrid" if settings.alpha else "discriminative",
        alpha=settings.alpha or 1.0,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.rate,
        penalties=[*penalty],
        seed=seed,
        progress=False,
    )


def choose(record: Record, task: Task, settings: Settings, seed: int) -> float:
    """Return the alpha with the smallest error on the held-out rows, for a smaller machine and a shorter training."""
    part = slice(max(0, settings.rows - settings.held_out - settings.choosing_rows), settings.rows - settings.held_out)
    rest = slice(settings.rows - settings.held_out, settings.rows)
    held_out = tuple(part[rest] for part in task.train)
    errors = {}
    for alpha in settings.alphas:
        small = replace(settings, alpha=alpha, hidden=settings.choosing_hidden, epochs=settings.choosing_epochs)
        errors[alpha] = trained(task, small, part, seed).error(*held_out)
        record.say(f"alpha {alpha:g}: validation error {100 * errors[alpha]:.2f} %")
    record.table("validation", [{"alpha": alpha, "error": error} for alpha, error in errors.items()])
    return min(errors, key=lambda alpha: errors[alpha])


def with_alpha(record: Record, task: Task, settings: Settings, alpha: float, choosing: str, seed: int) -> Settings:
    """The settings with the alpha that is chosen if ``choosing`` is "yes", or given if it is not negative."""
    if choosing == "yes":
        return replace(settings, alpha=choose(record, task, settings, seed))
    return replace(settings, alpha=alpha) if alpha >= 0 else settings


def tested(record: Record, task: Task, settings: Settings, seed: int) -> tuple[LabelClassifier, float]:
    """Train on all rows, and measure the test error once; the machine is kept in the folder of the record."""
    began = time.process_time()
    classifier = trained(task, settings, slice(0, settings.rows), seed)
    minutes = (time.process_time() - began) / 60
    error = classifier.error(*task.test)
    record.say(f"{settings.hidden} hidden units, alpha {settings.alpha:g}: test error {100 * error:.2f} %")
    record.numbers |= {"test_error": error, "processor_minutes": minutes, "alpha": settings.alpha}
    record.numbers |= {"hidden": settings.hidden, "epochs": settings.epochs, "seed": seed}
    table = classifier.confusion(*task.test)
    names = [str(k) for k in range(task.classes)]
    lines = zip(names, table.tolist(), strict=True)
    record.table("confusions", [{"label": k, **dict(zip(names, line, strict=True))} for k, line in lines])
    hm.save(classifier.machine, record.folder / "machine.safetensors")
    return classifier, error


def claims(record: Record, error: float, goal: float, published: dict[str, tuple[float, int]], hidden: int) -> None:
    """Write the verdicts: the goal for this machine, and published errors, open because settings and seeds differ."""
    words = f"{100 * error:.2f} % of the test rows, {record.numbers['processor_minutes']:.1f} minutes of one core"
    record.claim(f"a test error of at most {100 * goal:.1f} %", words, error <= goal)
    for name, (value, units) in published.items():
        other = differences([("hidden units", hidden, units)])
        judging.claim(
            record,
            f"the error of the {name} machine, {100 * value:.2f} % (Larochelle & Bengio 2008)",
            words,
            error <= value,
            ", ".join(part for part in ("optimizer, batches and one seed differ", other) if part),
        )


def class_samples(classifier: LabelClassifier, each: int, sweeps: int, seed: int) -> Tensor:
    """Draw rows of every class, with the label clamped: (classes · each, features)."""
    labels = torch.arange(classifier.label.classes).repeat_interleave(each)
    return classifier.sample(labels, sweeps=sweeps, seed=seed, check_mixing=False)
