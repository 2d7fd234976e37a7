"""Values of the arrays in files: checked, binarized, and encoded for the visible units."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InvalidData, InvalidOption, unknown
from ...machines.layout import UnitSpec
from ...noise import Purpose
from ...training.batches import ArraySource, Source, TensorSource, as_labels
from ...training.state import stream
from ...units.support import OneHot
from .shapes import reshaped

_CHUNK = 2**24  # values processed at once


def binarization(binarize: str | None) -> str | None:
    """Return the way to binarize, or ``None`` if there is none."""
    return None if binarize in (None, "none") else binarize


def check_finite(array: Tensor | np.ndarray, path: Path) -> None:
    """Raise :class:`InvalidData` with the position of the first value that is infinite or NaN."""
    start = 0
    for chunk in _chunks(array):
        finite = np.isfinite(np.asarray(chunk))
        if not finite.all():
            where = tuple(int(i) for i in np.argwhere(~finite)[0])
            found = float(np.asarray(chunk)[where])
            raise InvalidData(
                f"{path}: expected finite numbers, found {found} at row {start + where[0]}, index {where[1:]}"
            )
        start += len(chunk)


def labels_of(array: Tensor | np.ndarray, path: Path) -> tuple[Tensor | np.ndarray, Tensor]:
    """Split the rows of a file into features and the label, which is the last column."""
    if array.ndim != 2 or array.shape[1] < 2:
        raise InvalidOption(
            f"labels: expected rows of features with the label in the last column of {path.name}, "
            f"found rows of shape {tuple(array.shape[1:])}"
        )
    try:
        labels = as_labels(as_tensor(array[:, -1]))
        as_labels(labels, classes=max(1, int(labels.max()) + 1))  # none is negative
    except InvalidData as error:
        raise InvalidData(f"{path}, last column: {error}") from None
    return array[:, :-1], labels


def inferred(array: Tensor | np.ndarray, path: Path) -> list[UnitSpec]:
    """Return Bernoulli units for values 0 and 1; raise for other values."""
    for chunk in _chunks(array):
        if not bool(((chunk == 0) | (chunk == 1)).all()):
            raise InvalidOption(
                f"{path}: expected only 0 and 1 (bernoulli units) or the option --visible, found values from "
                f"{float(array.min()):g} to {float(array.max()):g}. For gray pixels also use --binarize threshold."
            )
    return [UnitSpec("bernoulli")]


def binarized(array: Tensor | np.ndarray, how: str, seed: int, path: Path) -> Tensor:
    """Binarize gray values.

    ``threshold``: 1 above half of the file's largest value. ``sample``: 1 with probability value / largest value.
    ``redraw``: returns these probabilities.
    """
    low, high = float(array.min()), float(array.max())
    if low < 0 or high <= 0:
        raise InvalidData(
            f"{path}: expected non-negative gray values to binarize, found values from {low:g} to {high:g}"
        )
    if how not in ("threshold", "sample", "redraw"):
        raise unknown("way to binarize", how, ["threshold", "sample", "redraw", "none"])
    if how == "redraw":
        return as_tensor(np.asarray(array)).float() / high
    generator = stream(seed, Purpose.BINARIZE)
    out = torch.empty(tuple(array.shape), dtype=torch.uint8)
    start = 0
    for chunk in _chunks(array):
        values = as_tensor(chunk).double()
        threshold = high / 2 if how == "threshold" else torch.rand(values.shape, generator=generator).double() * high
        out[start : start + len(values)] = values > threshold
        start += len(values)
    return out


def fitted(array: Tensor | np.ndarray, visible: list[UnitSpec], path: Path) -> Source:
    """Return the rows in the shape of the visible layer: unchanged, one-hot encoded, or reshaped if the sizes agree."""
    row = tuple(array.shape[1:])
    if len(visible) == 1:
        spec = visible[0]
        if isinstance(spec.kind.support, OneHot):
            states = _states(spec, row)
            if states is not None:
                return _source(_one_hot(array, states, path))
    elif len(row) > 1:
        return _source(array.reshape(len(array), -1))
    return _source(reshaped(array, visible))


def _states(spec: UnitSpec, row: tuple[int, ...]) -> int | None:
    """Return the number of states if rows are labels of one-hot units; ``None`` if they are one-hot vectors."""
    if spec.shape is None:
        if len(row) < 2:
            raise InvalidOption(
                f"{spec.name}: expected how many states the labels have, as in --visible {spec.name}:21"
            )
        return None
    if len(spec.shape) == 1:
        return spec.shape[0] if len(row) < 2 else None
    return spec.shape[-1] if row == spec.shape[:-1] else None


def _one_hot(array: Tensor | np.ndarray, states: int, path: Path) -> Tensor:
    labels = as_tensor(array)
    wrong = (labels < 0) | (labels >= states) | (labels != labels.floor() if labels.is_floating_point() else False)
    if bool(wrong.any()):
        where = tuple(torch.nonzero(wrong)[0].tolist())
        raise InvalidData(
            f"{path}: expected labels from 0 to {states - 1} for potts units of {states} states, "
            f"found {labels[where].item():g} at row {where[0]}, index {where[1:]}"
        )
    out = torch.zeros(*labels.shape, states, dtype=torch.uint8)
    return out.scatter_(-1, labels.long().unsqueeze(-1), 1)


def _source(array: Tensor | np.ndarray) -> Source:
    if isinstance(array, np.memmap):
        return ArraySource(array, array.shape[1:])
    tensor = as_tensor(array).contiguous()
    return TensorSource(tensor, tuple(tensor.shape[1:]))


def as_tensor(array: Tensor | np.ndarray) -> Tensor:
    """Return a tensor in memory; a memory map is copied."""
    return array if isinstance(array, Tensor) else torch.from_numpy(np.array(array))


def _chunks(array: Any) -> Iterator[Any]:
    size = max(1, _CHUNK // max(1, math.prod(array.shape[1:])))
    for start in range(0, len(array), size):
        yield array[start : start + size]
