"""Paths from users: every way in which a path cannot be used is an error that names it."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import DataNotFound, InvalidOption


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return the path with ``~`` replaced by the home folder; raise :class:`InvalidOption` if it cannot be a path.

    >>> expanded("mine.csv").name
    'mine.csv'
    """
    if "\0" in str(path):
        raise InvalidOption(f"path: expected a path, found {str(path)!r}, which contains a NUL")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"path: expected a name in UTF-8, found {str(path)!a}; rename it") from None
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # no such user, or no home folder
        raise InvalidOption(f"path: expected a path, found '{path}' ({error})") from None


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path without symbolic links; raise :class:`DataNotFound` if there is none.

    A loop of links has none, and a relative path has none if the current folder was deleted.
    """
    try:
        return expanded(path).resolve()
    except FileNotFoundError:  # of the current folder; other folders need not exist
        raise DataNotFound(f"path: expected a file at {path}, found that the current folder was deleted") from None
    except (OSError, RuntimeError) as error:
        raise DataNotFound(f"path: expected a file at {path}, found a loop of symbolic links ({error})") from None


def is_folder(path: Path) -> bool:
    """Return whether there is a folder; False for a path that cannot be, such as a name that is too long."""
    try:
        return path.is_dir()
    except OSError:
        return False


def file_size(path: Path) -> int:
    """Return the size of a file in bytes; raise :class:`DataNotFound` if there is no regular file.

    >>> file_size(Path("no-such-file"))
    Traceback (most recent call last):
    ...
    harmonium.errors.DataNotFound: path: expected a file at no-such-file, found no file
    """
    try:
        if path.is_file():
            return path.stat().st_size
        what = "a folder" if path.is_dir() else "a pipe or device" if path.exists() else "no file"
    except OSError as error:  # a loop of symbolic links, a name that is too long, no permission
        what = error.strerror or str(error)
    shown = str(path) if len(str(path)) <= 1000 else f"{str(path)[:1000]}…"
    raise DataNotFound(f"path: expected a file at {shown}, found {what}")
