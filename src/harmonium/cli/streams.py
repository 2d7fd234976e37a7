"""Standard output and standard error that do not raise if their reader has gone, or cannot show a character."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any

_NOT_WRITTEN = 1  # status of a command whose output was lost


class Tolerant:
    """A text stream that forgets what it is given after a failure, as when its reader has gone."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.failure: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write the text, or nothing after a failure."""
        with self._tolerance():
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or do nothing after a failure."""
        with self._tolerance():
            self.stream.flush()

    @contextlib.contextmanager
    def _tolerance(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failure = error
            null = os.open(os.devnull, os.O_WRONLY)  # takes the rest, also what Python writes when it exits
            os.dup2(null, self.stream.fileno())
            os.close(null)


@contextlib.contextmanager
def prepared_streams() -> Iterator[None]:
    """Replace standard output and error by :class:`Tolerant` ones in the block.

    Raises ``SystemExit`` if the block was successful, but its output could not be written, as on a full disk.
    """
    former = sys.stdout, sys.stderr
    streams = [Tolerant(stream) for stream in former]
    for stream in streams:
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = streams
    status: object = 0
    try:
        yield
    except SystemExit as ended:
        status = ended.code
        raise
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = former
        lost = streams[0].failure
        if lost is not None and lost.errno != errno.EPIPE and status in (0, None):
            print(f"error: the output could not be written: {lost.strerror}", file=sys.stderr)
            raise SystemExit(_NOT_WRITTEN)


def printable(text: object) -> str:
    r"""Return text with its control characters spelled out: those in a file of a stranger could change the terminal.

    >>> printable("a\x1b[31m\nb")
    'a\\x1b[31m\nb'
    """
    return "".join(c if c in "\n\t" or unicodedata.category(c) != "Cc" else repr(c)[1:-1] for c in str(text))
