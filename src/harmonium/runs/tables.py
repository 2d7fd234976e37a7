"""Tables of a run: the kinds of their columns, and the file with the encoder."""

from __future__ import annotations

from pathlib import Path

from ..data.table import TableEncoder
from ..errors import HarmoniumError, InvalidOption, RunError

NAME = "table.json"


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
