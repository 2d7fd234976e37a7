"""Files of numbers: a row for each entry of the first dimension."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ... import data
from ...errors import InvalidData
from .. import config as schema
from .accepted import check_accepted
from .arrays import Contents, rows_of
from .base import Rows

_WIDE = 20  # columns per row of a matrix that is probably transposed


def load(path: Path, config: schema.Config) -> Rows:
    """Return the rows of a file of numbers. Their units are Bernoulli units if all values are 0 and 1."""
    accepted = ("binarize", "image", "labels", "array", "transpose")
    check_accepted(config.data, f"the numbers in {path.name}", accepted)
    array = data.read(path, config.data.array)
    if config.data.transpose:
        if array.ndim != 2:
            raise InvalidData(f"{path}: --transpose expects a matrix, found the shape {tuple(array.shape)}")
        array = array.T
    return rows_of(Contents(array, notes=_notes(array.shape, config)), path, config)


def _notes(shape: Sequence[int], config: schema.Config) -> tuple[str, ...]:
    """Return a question if the matrix seems to have its samples in columns, as recordings of neurons often do."""
    if config.data.transpose or config.data.image is not None or len(shape) != 2 or shape[1] < _WIDE * shape[0]:
        return ()
    return (f"{shape[1]:,} units with only {shape[0]:,} samples; if the columns are the samples, use --transpose",)
