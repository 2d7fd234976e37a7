"""Random calls of the estimators for scikit-learn, which refuses arguments by errors of its own."""

from __future__ import annotations

import functools
import random
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from arguments import NUMBERS, SHAPES, WHOLE, any_data

from harmonium import sklearn as estimators

LAYERS: list[Any] = [
    "auto",
    "bernoulli",
    "gaussian",
    "spin:6",
    "binomial,trials=2",
    "nothing",
    "",
    "potts:2x3",
    3,
    None,
]
LABELS: list[Any] = [["a", "b", "c"] * 15, [0, 1, 1] * 15, [0.5] * 45, None, [], "text", [0], [np.nan] * 45]


@functools.cache
def _trained() -> dict[str, Any]:
    rows = np.random.default_rng(0).integers(0, 2, (45, 6))
    small: dict[str, Any] = {"n_components": 2, "random_state": 0}
    return {
        "RBM": estimators.RBM(epochs=1, **small).fit(rows),
        "BernoulliRBM": estimators.BernoulliRBM(n_iter=1, **small).fit(rows),
        "RBMClassifier": estimators.RBMClassifier(epochs=1, **small).fit(rows, [0, 1, 2] * 15),
    }


def is_of_sklearn(error: BaseException) -> bool:
    """Whether an exception comes from the validation of scikit-learn."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, (ValueError, TypeError)) and any(
        "/sklearn/utils/" in frame.filename.replace("\\", "/") for frame in frames
    )


def estimator_calls(choice: random.Random) -> dict[str, Callable[[], Any]]:
    """Calls of the estimators, by name."""
    trained, few, number, shape = _trained(), *(choice.choice(pool) for pool in (WHOLE, NUMBERS, SHAPES))
    small: dict[str, Any] = {"epochs": 1, "random_state": 0}

    def data() -> Any:
        return any_data(choice)

    return {
        "sklearn RBM.fit": lambda: estimators.RBM(2, **small).fit(data()),
        "sklearn RBM options": lambda: estimators.RBM(
            shape, epochs=few, batch_size=choice.choice(WHOLE), learning_rate=number, visible=choice.choice(LAYERS)
        ).fit(np.eye(6)),
        "sklearn RBM units": lambda: estimators.RBM(
            2, visible=choice.choice(LAYERS), hidden=choice.choice(LAYERS), **small
        ).fit(data()),
        "sklearn RBM.partial_fit": lambda: estimators.RBM(2, **small).partial_fit(data()).partial_fit(data()),
        "sklearn RBM.transform": lambda: trained["RBM"].transform(data()),
        "sklearn RBM.inverse_transform": lambda: trained["RBM"].inverse_transform(data()),
        "sklearn RBM.score": lambda: trained["RBM"].score(data()),
        "sklearn RBM.sample": lambda: trained["RBM"].sample(few, sweeps=choice.choice(WHOLE)),
        "sklearn not trained": lambda: estimators.RBM(2).transform(data()),
        "sklearn BernoulliRBM": lambda: estimators.BernoulliRBM(
            shape, n_iter=few, batch_size=choice.choice(WHOLE), learning_rate=number
        ).fit(data()),
        "sklearn BernoulliRBM.partial_fit": lambda: estimators.BernoulliRBM(2).partial_fit(data()).partial_fit(data()),
        "sklearn BernoulliRBM.gibbs": lambda: trained["BernoulliRBM"].gibbs(data()),
        "sklearn BernoulliRBM.score": lambda: trained["BernoulliRBM"].score_samples(data()),
        "sklearn RBMClassifier": lambda: estimators.RBMClassifier(n_components=2, **small).fit(
            data(), choice.choice(LABELS)
        ),
        "sklearn RBMClassifier options": lambda: estimators.RBMClassifier(
            n_components=2,
            alpha=number,
            objective=choice.choice(["hybrid", "generative", "discriminative", "x"]),
            validation_fraction=choice.choice(NUMBERS),
            patience=few,
            **small,
        ).fit(np.eye(6).repeat(2, 0), [0, 1] * 6),
        "sklearn RBMClassifier.predict": lambda: trained["RBMClassifier"].predict_proba(data()),
        "sklearn RBMClassifier.score": lambda: trained["RBMClassifier"].score(data(), choice.choice(LABELS)),
    }
