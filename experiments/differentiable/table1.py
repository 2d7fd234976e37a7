"""Table 1: test errors of a linear support vector machine on the top features, with N = 1 and N = 255 levels.

Every network has its controls: the same network before training, and the pixels. The costs of the support vector
machines are chosen on validation rows of the training set. N = 255 is trained with means, on gray values. N = 1 is
trained with draws, on pixels that are drawn with their gray values as probabilities, and with the same initial weights
and learning rate in units of the inputs; its features are those of the gray values. With means, N = 1 would be the same
as N = 255 (:mod:`.networks`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from harmonium import noise
from harmonium.machines import DeepBeliefNetwork

from ..judging import Measured, Verdict, claim, mean
from ..machines import kept_errors
from ..options import with_options_of
from ..record import Record
from .svm import Standardized, train
from .trained import BRIGHTEST, Machines, features

#: published test errors in percent: N = 1 and N = 255
PUBLISHED = {
    "mnist": (2.44, 1.23),
    "fashion-mnist": (13.12, 9.26),
    "cifar10": (58.72, 35.78),
    "caltech-silhouettes": (71.02, 34.74),
}
LEVELS = 255
COST = 1e5  # with which the choice of the cost starts
_LARGEST_COST = 1e9
VALIDATION = 5000  # rows, or a fifth of the training set if it is smaller
TRIED = 10_000  # rows on which the costs are compared
_MARGIN = 1.2  # times the published error: still as published

#: levels of the features, and the network that computes them, of each way; None means the pixels
WAYS: dict[str, tuple[int, Callable[[Machines, str], DeepBeliefNetwork | None]]] = {
    "pixels": (1, lambda trained, dataset: None),
    "random weights": (LEVELS, lambda trained, dataset: trained.untrained(dataset, LEVELS)),
    "N = 1": (1, lambda trained, dataset: trained.network(dataset, 1)),
    f"N = {LEVELS}": (LEVELS, lambda trained, dataset: trained.network(dataset, LEVELS)),
}


@with_options_of(Machines)
def run(record: Record, trained: Machines) -> None:
    """Train, classify and compare, data set by data set."""
    rows = []
    for dataset in trained.chosen(tuple(PUBLISHED)):
        wrong = errors(record, trained, dataset)
        rows += [{"dataset": dataset, **row} for row in _rows(dataset, wrong)]
        record.table("table1", rows)
        _claims(record, trained, dataset, wrong)


# -- errors ---------------------------------------------------------------------------------------------------------


def errors(record: Record, trained: Machines, dataset: str) -> dict[str, np.ndarray]:
    """For each way, which test images are misclassified: (test images,) of 0 and 1."""
    return {way: errors_of(record, trained, dataset, way) for way in WAYS}


def errors_of(record: Record, trained: Machines, dataset: str, way: str) -> np.ndarray:
    """Which test images are misclassified in one way, one of ``WAYS``. Kept beside the machines."""

    def classify() -> np.ndarray:
        began = time.process_time()
        levels, make = WAYS[way]
        cost, score, wrong = _classify(trained, dataset, make(trained, dataset), levels)
        found = f"{100 * wrong.mean():.2f} %, {100 * score:.2f} % on validation rows after training on few"
        record.say(f"{dataset}, {way}: {found} (cost {cost:g}, {time.process_time() - began:.0f} CPU seconds)")
        return wrong

    return kept_errors(trained.folder / _file(trained, dataset, way), classify)


def _file(trained: Machines, dataset: str, way: str) -> Path:
    settings = f"rows-{len(trained.rows(dataset))}-epochs-{trained.epochs(dataset)}-seed-{trained.seed}"
    return Path(f"{dataset}-{way.replace(' ', '').replace(',', '-').replace('=', '')}-{settings}-errors.txt")


def _classify(
    trained: Machines, dataset: str, network: DeepBeliefNetwork | None, levels: int
) -> tuple[float, float, np.ndarray]:
    """The cost that is best on validation rows, their error, and the errors on the test set with all training rows."""
    pool = trained.settings(dataset).pool
    encoder = None if network is None else trained.encoder(dataset, network)

    def represent(split: str) -> tuple[Tensor, Tensor]:
        images, labels = trained.load(dataset, split)
        if encoder is None:
            return images.flatten(1).float() / BRIGHTEST, labels
        return features(encoder, trained.inputs(dataset, split), levels, pool), labels

    x, labels = represent("train")
    classes = int(labels.max()) + 1
    cost, error = _choose_cost(x, labels, classes)
    machine = train(x, labels, cost, classes=classes)
    test, answers = represent("test")
    return cost, error, (machine.predict(test) != answers).numpy().astype(float)


def _choose_cost(x: Tensor, labels: Tensor, classes: int) -> tuple[float, float]:
    """The cost that is best on validation rows after training on some of the others, and their error."""
    order = torch.randperm(len(x), generator=noise.generator(1))
    some = min(VALIDATION, len(x) // 5)
    held, used = order[:some], order[some : some + TRIED]
    some_rows = Standardized(x[used])

    def score(cost: float) -> float:
        guess = train(some_rows, labels[used], cost, classes=classes).predict(x[held])
        return (guess != labels[held]).float().mean().item()

    return best_cost(score)


def best_cost(score: Callable[[float], float]) -> tuple[float, float]:
    """The cost with the lowest score, and its score: by factors of ten from ``COST`` until the score stops falling.

    >>> best_cost(lambda cost: abs(cost - 90.0)), best_cost(lambda cost: 1 / cost)
    ((100.0, 10.0), (1000000000.0, 1e-09))
    """
    best, least = COST, score(COST)
    for factor in (0.1, 10.0):
        while 1 < best < _LARGEST_COST and (found := score(round(best * factor))) < least:
            best, least = float(round(best * factor)), found
        if best != COST:
            break
    return best, least


def _rows(dataset: str, wrong: dict[str, np.ndarray]) -> list[dict[str, object]]:
    published = dict(zip(("N = 1", f"N = {LEVELS}"), PUBLISHED[dataset], strict=True))
    return [
        {
            "way": way,
            "test_error_percent": round(100 * found.mean(), 3),
            "standard_error": round(100 * mean(found).error, 3),
            "published_percent": published.get(way, ""),
            "test_images": len(found),
        }
        for way, found in wrong.items()
    ]


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(record: Record, trained: Machines, dataset: str, wrong: dict[str, np.ndarray]) -> None:
    best, binary, random = (wrong[way] for way in (f"N = {LEVELS}", "N = 1", "random weights"))
    difference = trained.difference(dataset)
    if dataset == "caltech-silhouettes":
        difference += ", silhouettes instead of photographs"
    if dataset == "cifar10":
        difference += ", 10 000 training and 2000 test images"
    first, last = PUBLISHED[dataset]
    claim(
        record,
        f"{dataset}: N = 255 has a lower test error than N = 1 with the same hyperparameters ({last} % and {first} %)",
        f"{_percent(mean(best))} and {_percent(mean(binary))}, paired difference {_percent(mean(binary - best))}",
        judge_lower(best, binary),
        difference,
    )
    claim(
        record,
        f"{dataset}: the test error of N = 255 is {last} %",
        _percent(mean(best)),
        judge_reached(best, last),
        difference,
    )
    claim(
        record,
        f"{dataset} (control): training lowers the test error of N = 255",
        f"{_percent(mean(best))}, before training {_percent(mean(random))}, "
        f"paired difference {_percent(mean(random - best))}; pixels {_percent(mean(wrong['pixels']))}",
        judge_lower(best, random),
    )


def judge_lower(errors: np.ndarray, others: np.ndarray) -> Verdict:
    """Criterion: the errors on the same images are fewer, beyond the error of the paired difference."""
    return mean(others - errors).above()


def judge_reached(errors: np.ndarray, published: float) -> Verdict:
    """Criterion: the error is below MARGIN times the published percentage."""
    return mean(errors).below(_MARGIN * published / 100)


def _percent(x: Measured) -> str:
    return f"{100 * x.value:.2f} ± {100 * x.error:.2f} %"
