"""Standard output and standard error that never raise: closed pipes and narrow encodings are common."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any, TextIO, cast

#: replacements for terminals that cannot show a character
_PLAIN = {
    **dict.fromkeys("–−—━╸╺", "-"),
    **dict.fromkeys("·•", "*"),
    **dict.fromkeys("‘’", "'"),
    **{"×": "x", "…": "...", "⟨": "<", "⟩": ">", "≥": ">=", "≤": "<=", "→": "->", "±": "+-"},
}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks: by similar ones, or by a question mark."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in text), error.end


#: errors after which a file behind a redirection is incomplete; others are readers or terminals that are gone
_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

codecs.register_error("harmonium", _plain)


_NOT_WRITTEN = 1  # status of a command whose output was lost


class Tolerant(io.TextIOBase):
    """A text stream that forgets what it is given after its reader has gone."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.closed_by_reader = False
        self.failure: OSError | None = None  # text was lost although a reader wants it, as on a full disk

    def write(self, text: str) -> int:
        """Write the text, or nothing if nobody reads."""
        if not self.closed_by_reader:
            try:
                return self.stream.write(text)
            except (OSError, ValueError) as error:
                self._end(error)
        return len(text)

    def flush(self) -> None:
        """Flush, unless nobody reads."""
        if not self.closed_by_reader:
            try:
                self.stream.flush()
            except (OSError, ValueError) as error:
                self._end(error)

    def _end(self, error: OSError | ValueError) -> None:
        self.closed_by_reader = True  # also by a ValueError: the stream was closed
        if isinstance(error, OSError) and error.errno in _LOST:
            self.failure = error

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return not self.closed_by_reader and self.stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self.stream.fileno()

    def writable(self) -> bool:
        """Return True."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return self.stream.encoding or "utf-8"

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """How the stream treats characters that its encoding lacks."""
        return self.stream.errors

    @property
    def buffer(self) -> Any:
        """The stream of bytes."""
        return self.stream.buffer


@contextlib.contextmanager
def prepared_streams() -> Iterator[None]:
    """Replace standard output and error by :class:`Tolerant` ones in the block.

    Raises ``SystemExit`` if the block was successful, but its output could not be written, as on a full disk.
    """
    former = sys.stdout, sys.stderr
    streams = [Tolerant(stream if stream is not None else open(os.devnull, "w")) for stream in former]  # noqa: SIM115
    for stream in streams:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            cast("Any", stream.stream).reconfigure(errors="harmonium")
    sys.stdout, sys.stderr = cast("list[Any]", streams)
    status: object = 0
    try:
        yield
    except SystemExit as ended:
        status = ended.code
        raise
    finally:
        for stream in streams:
            stream.flush()
            if stream.closed_by_reader:
                _discard(stream.stream)
        sys.stdout, sys.stderr = former
        lost = streams[0].failure
        if lost is not None and status in (0, None) and sys.exc_info()[0] in (None, SystemExit):
            print(f"error: the output could not be written: {os.strerror(lost.errno or 0)}", file=sys.stderr)
            raise SystemExit(_NOT_WRITTEN)


def printable(text: object) -> str:
    r"""Return text with its control characters spelled out: those in a file of a stranger could change the terminal.

    >>> printable("a\x1b[31m\nb")
    'a\\x1b[31m\nb'
    """
    return "".join(c if c in "\n\t" or unicodedata.category(c) != "Cc" else repr(c)[1:-1] for c in str(text))


def _discard(stream: TextIO) -> None:
    """Connect a broken stream to nothing, so that Python does not complain about it when it exits."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
