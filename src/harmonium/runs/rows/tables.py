"""Tables with columns of several kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...data.column_files import EXTENSIONS as COLUMN_FILES
from ...data.documents import holds_documents
from ...data.sequence_files import holds_sequences
from ...data.table import EXTENSIONS, TableEncoder, has_header, read_table
from ...errors import HarmoniumError, InvalidOption, RunError
from ...machines import layout
from ...training.batches import Source, TensorSource
from ...training.incomplete import Incomplete
from .. import config as schema
from .accepted import check_accepted, given
from .base import Rows
from .holding_out import halves, validation_of_file
from .identity import identity, resolved

#: file of a run folder with the encoder of its table
NAME = "table.json"


def load(path: Path, config: schema.Config) -> Rows | None:
    """Return the rows of a table. Means and standard deviations of its columns are those of the training rows."""
    frame, chosen = _frame(path, config), config.data
    if frame is None:
        return None
    identity(path, chosen)  # another file than that of the run is reported before its contents
    validation, share = validation_of_file(chosen)
    train, held_out = torch.arange(len(frame)), None
    if share is not None:
        train, held_out = (half.sort().values for half in halves(len(frame), share, config.seed))
    encoder = TableEncoder.fit(frame, kinds=kinds_of(chosen.columns), rows=train.numpy())
    visible = layout.of_layer(encoder.layer())
    written = "+".join(map(str, visible))
    if config.machine.visible not in (None, written):
        raise InvalidOption(f"visible: expected none for the table {path.name}, found '{config.machine.visible}'")
    encoded = encoder.encode(frame).to(layout.dtype(config.machine.dtype))
    columns = [f"{name}={kind}" for name, kind in encoder.kinds.items()]
    recorded = resolved(path, chosen, validation, len(frame), columns=columns)
    rows, held = (None if index is None else _cells(encoded[index]) for index in (train, held_out))
    assert rows is not None
    return Rows(rows, held, visible, None, path.name, recorded, table=encoder)


def _cells(encoded: Tensor) -> Source:
    return Incomplete(encoded) if bool(torch.isnan(encoded).any()) else TensorSource(encoded, tuple(encoded.shape[1:]))


def _frame(path: Path, config: schema.Config) -> Any:
    """Return the pandas table of a file, or ``None`` if its rows are numbers of one kind, or sequences.

    A file is a table if kinds of columns are given. Without other options about its values, it is also a table if it
    has names of columns and other values than 0 and 1.
    """
    if config.data.columns is not None:
        if path.suffix.lower() not in EXTENSIONS:
            raise InvalidOption(f"columns: expected a table ({', '.join(EXTENSIONS)}), found {path.name}")
        check_accepted(config.data, f"the table {path.name}", ("columns",))
        return read_table(path)
    other = given(config.data) or config.machine.visible
    if other or path.suffix.lower() not in (".csv", *COLUMN_FILES) or not path.is_file():
        return None
    if path.stat().st_size == 0 or holds_sequences(path) or holds_documents(path) or not has_header(path):
        return None
    frame = read_table(path)
    return None if len(frame) == 0 or _is_binary(frame) else frame


def _is_binary(frame: Any) -> bool:
    return all(dtype.kind in "biuf" for dtype in frame.dtypes) and bool(frame.isin([0, 1]).all(axis=None))


def kinds_of(columns: str | list[str] | None) -> dict[str, str]:
    """Return the kinds of columns by name, from text such as ``age=real``.

    >>> kinds_of(["age=real", "stars=count:5"])
    {'age': 'real', 'stars': 'count:5'}
    """
    given = [] if columns is None else [columns] if isinstance(columns, str) else columns
    found = {}
    for text in given:
        name, equals, kind = text.rpartition("=")
        if not equals or not name or not kind:
            raise InvalidOption(f"columns: expected NAME=KIND, such as age=real, found '{text}'")
        found[name] = kind
    return found


def encoder_of(folder: Path) -> TableEncoder | None:
    """Return the encoder of a run on a table, or ``None`` for a run on other data, or a file."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        return TableEncoder.load(path)
    except HarmoniumError as error:
        raise RunError(f"{path}: damaged ({error})") from None
