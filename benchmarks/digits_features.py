"""Hidden units as features: logistic regression on shifted digits, on raw pixels and on the features of two RBMs.

This is the example "Restricted Boltzmann Machine features for digit classification" of scikit-learn's gallery, with its
data, split and machine, and the same with ``harmonium.sklearn.RBM`` in place of scikit-learn's ``BernoulliRBM``. The
logistic regression is trained to convergence; with the example's tolerance of 1, recent versions of scikit-learn stop
it before the first step. Times are CPU times of the fit of the whole pipeline with one thread.

    python benchmarks/digits_features.py           # writes results/digits_features.json
    python benchmarks/digits_features.py --rows 200
"""

from __future__ import annotations

import argparse
import time
import warnings
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
PLAIN: dict[str, Any] = {"transforms": [], "metrics_every": 100}  # no centering, no metrics on the way
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


def pipelines() -> dict[str, Any]:
    """Return the classifiers to compare; the first two have the settings of scikit-learn's example."""
    return {
        "raw pixels": logistic(100.0),
        "scikit-learn BernoulliRBM": Pipeline(
            [
                ("rbm", BernoulliRBM(n_components=HIDDEN, learning_rate=0.06, n_iter=10, random_state=0)),
                ("logistic", logistic(6000.0)),
            ]
        ),
        "harmonium RBM": Pipeline(
            [
                ("rbm", RBM(256, epochs=8, batch_size=50, learning_rate=0.3, fit_options=PLAIN, random_state=0)),
                ("logistic", logistic(100.0)),
            ]
        ),
    }


def measure(rows: int | None = None) -> dict[str, dict[str, float]]:
    """Return the accuracy on test rows and the CPU seconds of the fit of each classifier."""
    digits, labels = load_digits(return_X_y=True)
    data, labels = shifted(digits[:rows].astype("float32"), labels[:rows])
    train, test, train_labels, test_labels = train_test_split(
        minmax_scale(data, feature_range=(0, 1)), labels, test_size=0.2, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        RBM(2, epochs=1).fit(train[:100])  # imports what training needs, which is not part of the time
    found = {}
    for name, model in pipelines().items():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(train, train_labels)
        seconds = time.process_time() - began
        found[name] = {"accuracy": float(model.score(test, test_labels)), "seconds": seconds}
        print(f"{name:28} accuracy {found[name]['accuracy']:.4f}  {seconds:.1f} s", flush=True)
    return found


def main() -> None:
    """Measure and write the results; with ``--rows``, only print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, help="number of digits before shifting; all by default")
    rows = parser.parse_args().rows
    torch.set_num_threads(1)
    found = measure(rows)
    if rows is None:
        write("digits_features", {"classifiers": found})


if __name__ == "__main__":
    main()
