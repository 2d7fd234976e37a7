"""Limits for what is read from files, so that a small file can neither use much memory nor exhaust the stack."""

from __future__ import annotations

import errno
import gzip
import io
import json
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from .errors import InvalidData

#: decompressed bytes that need no justification by the size of the file
FREE_BYTES = 2**28
#: largest ratio of decompressed to compressed bytes above that
MOST_EXPANSION = 200
#: largest number of members of an archive that are listed
MOST_MEMBERS = 10_000
#: deepest nesting of brackets in JSON and TOML
DEEPEST = 100
#: longest number in JSON and TOML, in digits
LONGEST_NUMBER = 400
_OPENING, _CLOSING, _ENDS = ("[", "{"), ("]", "}"), ("[", "]", "{", "}", ",", "=", "\n")
#: strings, whose brackets do not count, and brackets
_JSON = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
#: the same with comments, and with the dots of keys and what ends a key
_TOML = re.compile(
    r'"""[^\\]*?(?:\\.[^\\]*?)*?"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'
    r"'''.*?'''|'[^'\n]*'|#[^\n]*|[\[\]{}.,=\n]",
    re.DOTALL,
)


def check_expansion(what: object, compressed: int, expanded: int) -> None:
    """Raise :class:`InvalidData` if ``expanded`` bytes cannot honestly come from ``compressed`` bytes.

    >>> check_expansion("a.npz", 1000, 10**12)
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidData: a.npz: expected at most 268,435,456 bytes after decompression of 1,000 bytes, ...
    """
    most = max(FREE_BYTES, MOST_EXPANSION * compressed)
    if expanded > most:
        raise InvalidData(
            f"{what}: expected at most {most:,} bytes after decompression of {compressed:,} bytes, found {expanded:,}"
        )


def gunzip(what: object, raw: bytes, most: int | None = None) -> bytes:
    """Decompress gzip data; stop with :class:`InvalidData` after ``most`` bytes, by default those of the limits.

    >>> gunzip("a.gz", gzip.compress(b"abc"))
    b'abc'
    """
    limit = max(FREE_BYTES, MOST_EXPANSION * len(raw)) if most is None else most
    with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InvalidData(f"{what}: expected at most {limit:,} bytes after decompression, found more")
    return data


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; raise ``ValueError`` also for deep nesting and for very long integers.

    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    text = text.decode() if isinstance(text, bytes) else text
    _check_nesting(_JSON.findall(text))
    return json.loads(text, parse_int=_integer)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raise ``ValueError`` also for deep nesting and for very long integers.

    >>> parse_toml("a = [1, 2]")
    {'a': [1, 2]}
    """
    tokens = _TOML.findall(text)
    _check_nesting(tokens)
    dots = 0
    for token in tokens:  # dotted keys nest without brackets, and the time to parse one is quadratic in its length
        dots = 0 if token in _ENDS else dots + (token == ".")
        if dots > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST} levels")
    return tomllib.loads(text)


def check_file(path: Path) -> None:
    """Raise ``OSError`` for a pipe or device, which could block or never end, and for a missing file.

    >>> check_file(Path("/dev/zero"))
    Traceback (most recent call last):
    ...
    OSError: [Errno 22] expected a file, found a pipe or device: '/dev/zero'
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # reading a folder is an error anyway
        raise OSError(errno.EINVAL, "expected a file, found a pipe or device", str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raise ``ValueError`` or ``OSError`` if it cannot be read."""
    check_file(path)
    return parse_toml(path.read_text(encoding="utf-8"))


def _integer(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _check_nesting(tokens: list[str]) -> None:
    """Raise ``ValueError`` if the brackets among the tokens are nested too deeply."""
    depth = 0
    for token in tokens:
        depth += (token in _OPENING) - (token in _CLOSING)
        if depth > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST} levels")
