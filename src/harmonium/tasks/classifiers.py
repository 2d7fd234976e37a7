"""The interface of classifiers: probabilities of classes, labels, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidData, InvalidOption
from ..training.batches import Source, as_labels

_CHUNK = 1000  # rows of a prediction


class Classifier:
    """Base class of classifiers, made from a machine by :func:`finetune` or :func:`fit_classifier`.

    Attributes:
        classes: the labels (classes,), in the order of the probabilities.
        history: metrics of each epoch; with validation data, also ``validation_error``.
        machine: the machine.
    """

    classes: Tensor
    history: list[dict[str, float]]
    machine: Any

    def _source(self, data: Any) -> Source:
        """Return the rows of ``data``, with the shape checked."""
        raise NotImplementedError

    def _log_probability(self, rows: Tensor) -> Tensor:
        """Return ln p of each class for some rows of the source: (n, *shape) -> (n, classes)."""
        raise NotImplementedError

    @torch.no_grad()
    def predict_log_proba(self, data: Any) -> Tensor:
        """Return the log-probability of each class: n rows -> (n, classes)."""
        return torch.cat([self._log_probability(rows) for rows in self._chunks(self._source(data))])

    def predict_proba(self, data: Any) -> Tensor:
        """Return the probability of each class: n rows -> (n, classes)."""
        return self.predict_log_proba(data).exp()

    def predict(self, data: Any) -> Tensor:
        """Return the most probable label: n rows -> (n,)."""
        return self.classes[self.predict_log_proba(data).argmax(1)]

    def error(self, data: Any, labels: Any) -> float:
        """Return the share of rows whose most probable label is wrong."""
        guess = self.predict(data)
        return (guess != self._truth(labels, len(guess))).double().mean().item()

    def confusion(self, data: Any, labels: Any) -> Tensor:
        """Return the number of rows of each class that are assigned to each class: (true classes, assigned classes)."""
        guess = self.predict_log_proba(data).argmax(1)
        truth = self._truth(labels, len(guess))
        known = torch.isin(truth, self.classes)
        if not bool(known.all()):
            found = truth[~known][0].item()
            raise InvalidData(f"labels: expected one of {self.classes.tolist()}, found {found}")
        k = len(self.classes)
        return torch.bincount(torch.searchsorted(self.classes, truth) * k + guess, minlength=k * k).view(k, k)

    def _truth(self, labels: Any, n: int) -> Tensor:
        truth = as_labels(labels).to(self.classes.device)
        if len(truth) != n:
            raise InvalidData(f"labels: expected one for each of {n} rows, found {len(truth)}")
        return truth

    def _chunks(self, source: Source) -> Iterator[Tensor]:
        for start in range(0, len(source), _CHUNK):
            yield source.span(start, min(start + _CHUNK, len(source)), self.machine)


def check_pair(validation: Any) -> tuple[Any, Any]:
    """Return validation data as a pair of rows and labels; raise otherwise."""
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise InvalidOption(f"validation: expected a pair (rows, labels), found {type(validation).__name__}")
    return validation[0], validation[1]
