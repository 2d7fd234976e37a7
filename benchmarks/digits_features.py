"""Hidden units as features: logistic regression on shifted digits, on raw pixels and on the features of two RBMs.

This is the example "Restricted Boltzmann Machine features for digit classification" of scikit-learn's gallery, with its
data, split and machine, and the same with ``harmonium.sklearn.RBM`` in place of scikit-learn's ``BernoulliRBM``. The
logistic regression is trained to convergence; with the example's tolerance of 1, recent versions of scikit-learn stop
it before the first step.

The settings of harmonium are chosen on a fifth of the training rows: the highest accuracy among those of ``GRID``
whose fit takes less time than that of scikit-learn's example on the same rows. Then all classifiers are fitted on all
training rows, three times in turn, and scored once on the test rows. Times are medians of the CPU time of the fit of
the whole pipeline with one thread.

    python benchmarks/digits_features.py           # writes results/digits_features.json
    python benchmarks/digits_features.py --rows 200
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.ndimage import convolve
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import minmax_scale

from common import write
from harmonium.sklearn import RBM

HIDDEN = 100  # of scikit-learn's example
PLAIN: dict[str, Any] = {"centered": False}  # no centering, no metrics on the way
GRID: dict[str, list[Any]] = {  # settings of harmonium to choose from
    "hidden": [100, 256],
    "epochs": [4, 8],
    "learning_rate": [0.1, 0.3],
    "strength": [100.0, 1000.0],
}
_SHIFTS = (
    [[0, 1, 0], [0, 0, 0], [0, 0, 0]],
    [[0, 0, 0], [1, 0, 0], [0, 0, 0]],
    [[0, 0, 0], [0, 0, 1], [0, 0, 0]],
    [[0, 0, 0], [0, 0, 0], [0, 1, 0]],
)


def shifted(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the digits and the digits shifted by one pixel in each of four directions."""
    images = rows.reshape(-1, 8, 8)
    moved = [np.stack([convolve(image, np.array(shift), mode="constant") for image in images]) for shift in _SHIFTS]
    return np.concatenate([images, *moved]).reshape(-1, 64), np.concatenate([labels] * 5)


def logistic(strength: float) -> LogisticRegression:
    """Return the classifier, with the strength C of the example."""
    return LogisticRegression(C=strength, max_iter=1000)


def example() -> Pipeline:
    """Return the classifier of scikit-learn's example."""
    rbm = BernoulliRBM(n_components=HIDDEN, learning_rate=0.06, n_iter=10, random_state=0)
    return Pipeline([("rbm", rbm), ("logistic", logistic(6000.0))])


def ours(hidden: int, epochs: int, learning_rate: float | None, strength: float) -> Pipeline:
    """Return the same classifier with a machine of harmonium."""
    rbm = RBM(hidden, epochs=epochs, batch_size=50, learning_rate=learning_rate, fit_options=PLAIN, random_state=0)
    return Pipeline([("rbm", rbm), ("logistic", logistic(strength))])


def fitted(model: Any, rows: np.ndarray, labels: np.ndarray) -> float:
    """Fit a classifier and return the CPU seconds."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, labels)
    return time.process_time() - began


def chosen(rows: np.ndarray, labels: np.ndarray) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the settings with the highest validation accuracy among those faster than the example, and all tried."""
    train, validation, train_labels, validation_labels = train_test_split(rows, labels, test_size=0.2, random_state=1)
    reference = example()
    limit = fitted(reference, train, train_labels)
    print(f"scikit-learn's example: validation {reference.score(validation, validation_labels):.4f}  {limit:.1f} s")
    tried: list[dict[str, Any]] = []
    for values in itertools.product(*GRID.values()):
        settings = dict(zip(GRID, values, strict=True))
        model = ours(**settings)
        seconds = fitted(model, train, train_labels)
        accuracy = float(model.score(validation, validation_labels))
        tried.append({**settings, "accuracy": accuracy, "seconds": seconds})
        print(f"{settings}: validation {accuracy:.4f}  {seconds:.1f} s", flush=True)
    fast = [entry for entry in tried if entry["seconds"] < limit] or tried
    best = max(fast, key=lambda entry: entry["accuracy"])
    return {name: best[name] for name in GRID}, tried


def measure(rows: int | None = None, repeats: int = 3) -> dict[str, Any]:
    """Choose the settings, and return the accuracy on test rows and the CPU seconds of each classifier."""
    digits, labels = load_digits(return_X_y=True)
    data, labels = shifted(digits[:rows].astype("float32"), labels[:rows])
    train, test, train_labels, test_labels = train_test_split(
        minmax_scale(data, feature_range=(0, 1)), labels, test_size=0.2, random_state=0
    )
    fitted(RBM(2, epochs=1), train[:100], train_labels[:100])  # imports what training needs: not part of the times
    settings, tried = chosen(train, train_labels)
    print(f"chosen: {settings}")
    candidates: dict[str, Callable[[], Any]] = {
        "raw pixels": lambda: logistic(100.0),
        "scikit-learn BernoulliRBM": example,
        "harmonium RBM": lambda: ours(**settings),
    }
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    models = {}
    for _ in range(repeats):
        for name, make in candidates.items():
            models[name] = make()
            seconds[name].append(fitted(models[name], train, train_labels))
    found = {}
    for name, model in models.items():
        middle, accuracy = statistics.median(seconds[name]), float(model.score(test, test_labels))
        found[name] = {"accuracy": accuracy, "seconds": middle, "fastest": min(seconds[name])}
        print(f"{name:28} test accuracy {accuracy:.4f}  {middle:.1f} s", flush=True)
    return {"settings": settings, "tried": tried, "classifiers": found}


def main() -> None:
    """Measure and write the results; with ``--rows``, only print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, help="number of digits before shifting; all by default")
    rows = parser.parse_args().rows
    torch.set_num_threads(1)
    found = measure(rows)
    if rows is None:
        write("digits_features", found)


if __name__ == "__main__":
    main()
