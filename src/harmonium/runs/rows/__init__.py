"""The rows of a run: a named data set or a file, binarized, encoded and split according to the configuration.

Each kind of file has a module with a function ``load(path, config)`` that returns the rows, or ``None`` if the file has
contents of another kind. To add a kind, write such a module and add it to ``KINDS``.
"""

from __future__ import annotations

import os
from pathlib import Path

from ... import data
from ...errors import InvalidOption
from ...paths import expand
from ...training.batches import Source
from ...units.support import OneHot
from .. import config as schema
from . import documents, named, numbers, ratings, sequences, tables, windows
from .base import Rows, Subset

__all__ = ["KINDS", "Rows", "Subset", "load", "load_test"]

#: the kinds of files; the first that recognizes a file loads it
KINDS = (windows, ratings, tables, sequences, documents, numbers)


def load(config: schema.Config) -> Rows:
    """Load the rows that the configuration describes, and fill in the data options that it leaves open."""
    if not config.data.source:
        raise InvalidOption(
            "data: expected the name of a data set (see 'harmonium data list') or a file, found no data"
        )
    rows = _from_file(config) if schema.is_path(config.data.source) else _by_name(config)
    _check_similarity(rows)
    return rows


def _from_file(config: schema.Config) -> Rows:
    path = Path(os.path.realpath(expand(config.data.source)))
    if config.data.split is not None:
        raise InvalidOption(
            f"split: expected none for the file {path.name}; splits belong to data sets by name. "
            "Use --validation 0.1 to hold out rows."
        )
    return next(rows for kind in KINDS if (rows := kind.load(path, config)) is not None)


def _by_name(config: schema.Config) -> Rows:
    return named.load_by_name(config) if config.data.window is None else windows.load_by_name(config)


def _test_split(config: schema.Config, rows: Rows) -> Source | None:
    """Load the test split of a data set by name; ``None`` if it has none, or if the run was trained on it."""
    if "test" not in data.info(config.data.source).splits or config.data.split in ("test", "all"):
        return None
    return (named if config.data.window is None else windows).load_test_split(config, rows)


def load_test(config: schema.Config, rows: Rows) -> tuple[str, Source | None]:
    """Load rows not used in training, and their name: the test split of the data set, or the held-out rows."""
    test = None if schema.is_path(config.data.source) else _test_split(config, rows)
    return ("held out", rows.held_out) if test is None else ("test", test)


def _check_similarity(rows: Rows) -> None:
    share = rows.config.similarity
    if share is None:
        return
    if len(rows.visible) > 1 or not isinstance(rows.visible[0].kind.support, OneHot) or len(rows.train.shape) != 2:
        raise InvalidOption(
            "similarity: expected sequences, which have potts units, found "
            + "+".join(spec.name for spec in rows.visible)
        )
