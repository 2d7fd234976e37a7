"""The classification RBM: a machine with a class label in its visible layer (Larochelle & Bengio 2008)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidData, InvalidOption, unknown
from ..machines import RBM, Label
from ..noise import Seed
from ..shown import brief
from ..training import Callback, Discriminative, Labeled, NegativePhase, Progress, WeightedSum, fit
from ..training.batches import Source, as_labels, as_rows
from ..training.values import phase_of
from ..units import Mixed, Potts, Unit
from .classifiers import Classifier, check_pair

_OBJECTIVES = ("generative", "discriminative", "hybrid")


def label_rbm(features: Unit, classes: int, hidden: Unit | int) -> RBM:
    """Return a classification RBM: its visible layer has the features and a label of ``classes`` classes.

    >>> import harmonium as hm
    >>> label_rbm(hm.units.Bernoulli(64), 10, 100).visible.shape
    torch.Size([74])
    """
    return RBM(Mixed(features, Potts((1, classes))), hidden)


@brief
@dataclass
class LabelClassifier(Classifier):
    """The label of a machine given the features, with exact probabilities; see :class:`harmonium.machines.Label`.

    Args:
        machine: an RBM with a label in its visible layer, for example a trained one that was loaded from a file.
        history: metrics of each epoch of its training.
        part: number of the part of the visible layer that is the label; by default the last one-hot unit.

    Attributes:
        classes: the classes, 0 to K-1.

    >>> import harmonium as hm
    >>> found = LabelClassifier(label_rbm(hm.units.Bernoulli(4), 3, 2))
    >>> found.predict_proba(torch.ones(2, 4))
    tensor([[0.3333, 0.3333, 0.3333],
            [0.3333, 0.3333, 0.3333]])
    """

    machine: RBM
    history: list[dict[str, float]] = field(default_factory=list, repr=False)
    part: int | None = None

    def __post_init__(self) -> None:
        self.label = Label(self.machine, self.part)
        self.classes = torch.arange(self.label.classes, device=self.machine.device)

    def _source(self, data: Any) -> Source:
        source, size = as_rows(data), int((~self.label.mask).sum())
        if len(source) == 0 or math.prod(source.shape) != size:
            raise InvalidData(f"data: expected rows of {size} features, found {len(source)} of shape {source.shape}")
        return source

    def _rows(self, features: Tensor) -> Tensor:
        """Return visible rows with the features (n, …) and a label of zeros: (n, *visible)."""
        rows = torch.zeros(len(features), *self.machine.visible.shape, dtype=features.dtype, device=features.device)
        rows[:, ~self.label.mask] = features.flatten(1)
        return rows

    def _log_probability(self, rows: Tensor) -> Tensor:
        return self.label.log_probability(self.machine, self._rows(rows))

    def sample(
        self, labels: Any, *, sweeps: int = 1000, seed: Seed = None, check_mixing: bool = True, **options: Any
    ) -> Tensor:
        """Draw features given labels (n,), with the label clamped: (n, features).

        ``options`` are those of :meth:`harmonium.RBM.sample`.
        """
        wanted = as_labels(labels, classes=self.label.classes)
        given = self.label.rows[wanted.to(self.machine.device)]
        v = self.machine.sample(
            len(wanted),
            given=given,
            mask=self.label.mask,
            sweeps=sweeps,
            seed=seed,
            check_mixing=check_mixing,
            **options,
        )
        return v[:, ~self.label.mask]


def fit_classifier(
    machine: RBM,
    data: Any,
    labels: Any,
    *,
    objective: str = "hybrid",
    alpha: float = 0.01,
    negative: str | NegativePhase = "cd:1",
    validation: tuple[Any, Any] | None = None,
    patience: int | None = None,
    **options: Any,
) -> LabelClassifier:
    """Train a classification RBM in place: discriminative, generative or hybrid (Larochelle & Bengio 2008).

    The three objectives are ln p(label | features), ln p(features, label), and the first plus ``alpha`` times the
    second. Only machines with a generative part give good class-conditional samples (:meth:`LabelClassifier.sample`);
    with few labels or many hidden units that part also reduces overfitting.

    Args:
        machine: an RBM whose visible layer ends with a label, ``Mixed(features, Potts((1, K)))``; see
            :func:`label_rbm`.
        data: rows of the features, as in :func:`harmonium.fit`; for binary units gray values as
            ``harmonium.Redrawn(images)``.
        labels: the label of each row (n,), whole numbers from 0 to K-1.
        objective: "hybrid", "discriminative" or "generative".
        alpha: weight of the generative part of the hybrid objective.
        negative: negative phase of the generative part, as in :func:`harmonium.fit`.
        validation: rows and labels that are used to choose the epoch; never test data.
        patience: with ``validation``, stop after this number of epochs without a smaller error; by default never.
        options: other arguments of :func:`harmonium.fit`, such as ``epochs``, ``batch_size`` and ``learning_rate``; the
            defaults are those for labels (:class:`harmonium.Labeled`).

    Returns:
        :class:`LabelClassifier` with ``predict``, ``predict_proba``, ``error``, ``confusion`` and ``sample``. With
        ``validation``, the machine has the parameters of the epoch with the smallest validation error.

    >>> import harmonium as hm
    >>> data, labels = hm.data.load("digits", binarize="threshold", labels=True)
    >>> machine = label_rbm(hm.units.Bernoulli(64), 10, 50)
    >>> found = fit_classifier(machine, data[:1000], labels[:1000], epochs=20, learning_rate=0.01, progress=False)
    >>> found.error(data[1000:], labels[1000:]) < 0.15
    True
    """
    label = Label(machine)
    if label.part != len(machine.visible.parts) - 1:
        raise InvalidOption(f"machine: expected the label as the last part of the visible layer, found {label.part}")
    if patience is not None and (patience < 1 or validation is None):
        raise InvalidOption(f"patience: expected at least 1 and validation=(rows, labels), found {patience}")
    rows = Labeled(data, labels, label.classes)
    classifier = LabelClassifier(machine)
    callbacks = list(options.pop("callbacks", ()))
    if validation is not None:
        held_out, truth = check_pair(validation)
        truth = as_labels(truth, len(as_rows(held_out)), label.classes)
        callbacks.append(KeepBest(lambda _: classifier.error(held_out, truth), "validation_error", patience))
    phase = objective_phase(objective, alpha, negative)
    result = fit(machine, rows, negative=phase, callbacks=callbacks, **options)
    classifier.history = result.history
    return classifier


def objective_phase(objective: str, alpha: float, negative: str | NegativePhase) -> NegativePhase:
    """Return the negative phase of an objective.

    >>> objective_phase("hybrid", 0.1, "cd:1")
    WeightedSum(terms=((1.0, Discriminative(part=None)), (0.1, CD(k=1))))
    """
    if objective not in _OBJECTIVES:
        raise unknown("objective", str(objective), _OBJECTIVES)
    generative = phase_of(negative)
    if objective == "generative":
        return generative
    if objective == "discriminative":
        return Discriminative()
    if not 0 < alpha < math.inf:
        raise InvalidOption(f"alpha: expected a positive number, found {alpha}")
    return WeightedSum([(1.0, Discriminative()), (alpha, generative)])


class KeepBest(Callback):
    """Record ``function(machine)`` after each epoch as ``name``; at the end, restore the parameters of the smallest.

    With ``patience``, training stops after this number of epochs without a smaller value.
    """

    def __init__(self, function: Callable[[Any], float], name: str, patience: int | None = None) -> None:
        self.function, self.name, self.patience = function, name, patience

    def on_start(self, progress: Progress) -> None:
        self._best, self._kept, self._waited = math.inf, None, 0

    def on_epoch(self, progress: Progress) -> None:
        found = progress.metrics[self.name] = self.function(progress.machine)
        self._waited += 1
        if found < self._best:
            self._best, self._kept, self._waited = found, copy.deepcopy(progress.machine.state_dict()), 0
        if self.patience is not None and self._waited >= self.patience:
            progress.stop = True

    def on_end(self, progress: Progress) -> None:
        if self._kept is not None:
            progress.machine.load_state_dict(self._kept)
