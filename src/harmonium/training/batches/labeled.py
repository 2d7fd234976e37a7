"""Rows with labels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor

from ...arrays import as_tensor
from ...errors import InvalidData
from .conversion import as_rows
from .source import Defaults, Source


class Labeled(Source):
    """Rows of features followed by a one-hot label, for the visible layer ``Mixed(features, Potts((1, K)))``.

    Args:
        data: rows of the features, as in :func:`fit`; for example :class:`Redrawn` gray values.
        labels: the label of each row (n,), whole numbers from 0 to K-1.
        classes: the number K of classes; by default one more than the largest label.

    Attributes:
        features: the rows without labels.
        labels: the labels (n,).

    >>> rows = Labeled(torch.zeros(2, 3), [1, 0], classes=2)
    >>> rows.take(torch.arange(2), torch.empty(2, 5))
    tensor([[0., 0., 0., 0., 1.],
            [0., 0., 0., 1., 0.]])
    """

    def __init__(self, data: Any, labels: Any, classes: int | None = None) -> None:
        self.features = as_rows(data, "data")
        found = as_labels(labels, len(self.features))
        self.classes = int(found.max()) + 1 if classes is None else classes
        self.labels = as_labels(found, classes=self.classes)
        self.complete = self.features.complete
        self._size = math.prod(self.features.shape)
        super().__init__(self.features._rows, (self._size + self.classes,))
        self.volatile = self.features.volatile

    def defaults(self) -> Defaults:
        """The training of a classifier; chosen on validation images of MNIST (``docs/classification.md``)."""
        why = "rows with labels: the label is learned given the features"
        chosen = {
            "negative": "discriminative+0.01*cd:1",
            "optimizer": "adam",
            "learning_rate": 0.005,
            "schedule": "linear:0.3",
            # at zero weights, where the gradients of features and label are proportional, training would stay long
            "initialize": {"name": "normal", "scale": 1 / math.sqrt(self._size + self.classes)},
        }
        return {name: (value, why) for name, value in chosen.items()}

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        own = torch.empty(len(index), *self.features.shape, dtype=out.dtype, device=out.device)
        out[:, : self._size] = self.features.take(index, own, generator).flatten(1)
        label = self.labels[index.to(self.labels.device)].to(out.device)
        out[:, self._size :] = torch.nn.functional.one_hot(label, self.classes)
        return out


def as_labels(labels: Any, n: int | None = None, classes: int | None = None) -> Tensor:
    """Return labels as whole numbers (n,), from 0 to ``classes`` - 1 if given; raise otherwise.

    >>> as_labels([0, 2], classes=2)
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidData: labels: expected whole numbers from 0 to 1, found 2 in row 1
    """
    found = as_tensor(labels, "labels").detach().cpu()
    if found.ndim != 1 or (n is not None and len(found) != n):
        shape = "(n,)" if n is None else f"({n},)"
        raise InvalidData(f"labels: expected shape {shape}, one label for each row, found {tuple(found.shape)}")
    if found.is_floating_point() and not bool((found == found.round()).all()):
        raise InvalidData("labels: expected whole numbers, found fractions")
    wrong = (found < 0) | (found >= classes) if classes is not None else torch.zeros(0)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise InvalidData(
            f"labels: expected whole numbers from 0 to {classes - 1}, found {found[row].item():g} in row {row}"  # type: ignore[operator]
        )
    return found.long()
