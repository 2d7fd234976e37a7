"""Tables of a run: which files are tables, and the file with the encoder of their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.documents import holds_documents
from ..data.sequence_files import holds_sequences
from ..data.table import EXTENSIONS, TableEncoder, has_header, read_table
from ..errors import InvalidOption, RunError
from . import config as schema

NAME = "table.json"


def frame_of(path: Path, config: schema.Config) -> Any:
    """Return the pandas table of a file, or ``None`` if its rows are numbers of one kind, or sequences.

    A file is a table if kinds of columns are given. Without other options about its values, it is also a table if it
    has names of columns and other values than 0 and 1.
    """
    chosen = config.data
    names = ("binarize", "image", "alphabet", "labels", "vocabulary", "stop_words")
    others = {name: getattr(chosen, name) for name in names}
    given = [name for name, value in others.items() if value not in (None, False, "none")]
    if chosen.columns is not None:
        if path.suffix.lower() not in EXTENSIONS:
            raise InvalidOption(f"columns: expected a table ({', '.join(EXTENSIONS)}), found {path.name}")
        if given:
            raise InvalidOption(f"{given[0]}: expected none for the table {path.name}, found '{others[given[0]]}'")
        return read_table(path)
    if given or config.machine.visible or path.suffix.lower() not in (".csv", ".parquet") or not path.is_file():
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
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: damaged ({error})") from None
