"""Paths of users, and the text files at them."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from .errors import DataNotFound, HarmoniumError, InvalidOption, clipped


def expand(path: str | os.PathLike[str]) -> Path:
    """Return a path with ``~`` replaced by the home folder; raise :class:`InvalidOption` if there is none.

    >>> expand("mine.csv").name
    'mine.csv'
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InvalidOption(f"path: expected a path, found '{path}' ({error})") from None


def check_file(path: Path, error: type[HarmoniumError] = DataNotFound) -> None:
    """Raise ``error`` unless there is a regular file: reading a pipe could wait forever.

    >>> check_file(Path("no-such-file"))
    Traceback (most recent call last):
    ...
    harmonium.errors.DataNotFound: no-such-file: expected a file, found no file
    """
    if not os.path.isfile(path):
        what = "a folder" if os.path.isdir(path) else "a pipe or device" if os.path.exists(path) else "no file"
        raise error(f"{clipped(path, 1000)}: expected a file, found {what}")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise ``ValueError`` or ``OSError`` if it cannot be read."""
    check_file(path)
    return tomllib.loads(path.read_text(encoding="utf-8"))
