"""The classification RBM as a classifier of scikit-learn."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..tasks import LabelClassifier, fit_classifier, label_rbm
from .base import TrainedMachine, units
from .rows import FLOATS, chunks


@dataclass(eq=False, repr=False, kw_only=True)
class RBMClassifier(ClassifierMixin, TrainedMachine):
    """Classification RBM: a machine whose visible layer has the features and the class (Larochelle & Bengio 2008).

    p(class | X) is exact. The class has two states or more; with a single class in ``y`` the prediction is constant.

    Args:
        n_components: number of hidden units.
        objective: "hybrid" (discriminative plus ``alpha`` times generative), "discriminative" or "generative".
        alpha: weight of the generative part of the hybrid objective.
        visible: units of the features: "auto", the name of a unit with options, or a layer of units, as in
            :class:`RBM`.
        hidden: hidden units, as a name with options, or a layer of units.
        negative: negative phase of the generative part, as in ``harmonium.fit``.
        epochs, batch_size, learning_rate, optimizer: as in ``harmonium.fit``, which chooses those of None.
        validation_fraction: share of the rows, drawn at random, that choose the epoch; 0 for none.
        patience: with ``validation_fraction``, epochs without a smaller validation error before training stops; None:
            never.
        fit_options, dtype, device, verbose, random_state: as in :class:`RBM`.

    Attributes:
        classes_: the classes (n_classes,).
        machine_: the trained ``harmonium.RBM``; its visible layer ends with the class.
        classifier_: the machine as a ``harmonium.tasks.LabelClassifier``.
        history_: metrics of each epoch.
        mean_, scale_: mean and standard deviation of the columns if they are standardized, else None.

    >>> X = np.random.default_rng(0).integers(0, 2, (200, 6))
    >>> y = np.where(X[:, 0] == X[:, 1], "equal", "different")
    >>> model = RBMClassifier(n_components=10, epochs=300, random_state=0, learning_rate=0.02).fit(X, y)
    >>> model.predict(X[:2]).shape, model.score(X, y) > 0.9
    ((2,), True)
    """

    _parameter_constraints = {  # noqa: RUF012
        **TrainedMachine._parameter_constraints,
        "objective": [StrOptions({"hybrid", "discriminative", "generative"})],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
    }

    objective: str = "hybrid"
    alpha: float = 0.01
    negative: Any = "cd:1"
    validation_fraction: float = 0.0
    patience: int | None = None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Train a new machine on ``X`` (n_samples, n_features), an array or sparse matrix, and ``y`` (n_samples,)."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        rng = check_random_state(self.random_state)
        layer = self._feature_units(X)
        classes = max(2, len(self.classes_))  # a Potts unit has two states or more
        self.machine_ = self._place(label_rbm(layer, classes, units("hidden", self.hidden, self.n_components)))
        train, held_out = self._split(len(labels), rng)
        self.classifier_ = fit_classifier(
            self.machine_,
            self._source(X[train]),
            labels[train],
            objective=self.objective,
            alpha=self.alpha,
            negative=self.negative,
            validation=(self._source(X[held_out]), labels[held_out]) if len(held_out) else None,
            patience=self.patience if len(held_out) else None,
            epochs=self.epochs,
            **self._training_arguments(int(rng.randint(2**31))),
        )
        self.history_ = self.classifier_.history
        return self

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the log-probability of each class given X: (n_samples, n_classes)."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        classifier = LabelClassifier(copy.deepcopy(self.machine_).double())  # no rounding that depends on the order
        parts = [classifier.predict_log_proba(self._states(rows)) for rows in chunks(X)]
        return torch.log_softmax(torch.cat(parts)[:, : len(self.classes_)], 1).cpu().numpy()

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class given X: (n_samples, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row: (n_samples,)."""
        scores = self.predict_log_proba(X)
        return self.classes_[scores.argmax(1)]

    def sample(self, y: Any, *, sweeps: int = 1000) -> np.ndarray:
        """Draw rows of the given classes by Gibbs sampling: (n_samples,) -> (n_samples, n_features)."""
        check_is_fitted(self)
        wanted = np.asarray(y)
        if not np.isin(wanted, self.classes_).all():
            raise ValueError(f"y: expected classes of {self.classes_.tolist()}, found {sorted(set(wanted.tolist()))}")
        seed = int(check_random_state(self.random_state).randint(2**31))
        labels = np.searchsorted(self.classes_, wanted)
        return self._restored(LabelClassifier(self.machine_).sample(labels, sweeps=sweeps, seed=seed))

    @property
    def _shape(self) -> torch.Size:
        return torch.Size((self.machine_.visible.size - LabelClassifier(self.machine_).label.unit.size,))

    def _split(self, n: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of training rows and of validation rows."""
        order = rng.permutation(n)
        cut = round(self.validation_fraction * n)
        return np.sort(order[cut:]), np.sort(order[:cut])
