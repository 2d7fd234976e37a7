"""Files of numbers: a row for each entry of the first dimension."""

from __future__ import annotations

from pathlib import Path

from ... import data
from ...errors import InvalidData
from .. import config as schema
from .accepted import check_accepted
from .arrays import Contents, rows_of
from .base import Rows


def load(path: Path, config: schema.Config) -> Rows:
    """Return the rows of a file of numbers. Their units are Bernoulli units if all values are 0 and 1."""
    accepted = ("binarize", "image", "labels", "array", "transpose")
    check_accepted(config.data, f"the numbers in {path.name}", accepted)
    array = data.read(path, config.data.array)
    if config.data.transpose:
        if array.ndim != 2:
            raise InvalidData(f"{path}: --transpose expects a matrix, found the shape {tuple(array.shape)}")
        array = array.T
    return rows_of(Contents(array), path, config)
