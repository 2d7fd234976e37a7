"""The command ``harmonium``. User errors print one or two lines and exit with status 2."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import DataNotFound, HarmoniumError, InvalidData, InvalidOption, RunError
from ..extras import explained
from .streams import prepared_streams, printable

__all__ = ["main"]

USAGE_ERROR, INTERRUPTED = 2, 130


class Interrupted(Exception):
    """The user pressed Ctrl-C, or the process was asked to end; the message says how to continue."""

    def __init__(self, message: str, status: int = INTERRUPTED) -> None:
        super().__init__(message)
        self.status = status


class Terminated(BaseException):
    """The signal SIGTERM; not an ``Exception``, so that nothing on the way handles it."""

    status = 128 + signal.SIGTERM


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with ``arguments`` (by default those of the process) and exit with its status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    with prepared_streams(), _termination():
        try:
            status = _run(arguments)
        except KeyboardInterrupt:
            _stop("stopped", INTERRUPTED)
        except Terminated as stop:
            _stop("stopped", stop.status)
        sys.exit(status if isinstance(status, int) else 0)


def _run(arguments: list[str]) -> Any:
    try:
        from .app import app

        with warnings.catch_warnings():
            warnings.showwarning = _warn
            return app(args=arguments or ["--help"], prog_name="harmonium", standalone_mode=False)
    except (HarmoniumError, OSError) as error:
        _stop(_words(error), USAGE_ERROR, repeated=isinstance(error, _SAME_EVERYWHERE))
    except ModuleNotFoundError as error:
        missing = explained(error)
        if missing is None:
            raise
        _stop(str(missing), USAGE_ERROR, repeated=True)
    except Interrupted as stop:
        _stop(str(stop), stop.status)
    except Exception as error:  # typer's own errors have no common public base class in all its versions
        if type(error).__name__ == "Abort":
            _stop("stopped", INTERRUPTED)
        if _out_of_memory(error):
            _stop("not enough memory; use a smaller machine, fewer chains or smaller batches", USAGE_ERROR)
        if _lost_process(error):
            _stop("another process of this training has ended", USAGE_ERROR)
        if not hasattr(error, "format_message"):
            raise
        _stop(_usage(error), USAGE_ERROR, repeated=True)


#: errors that all processes of ``torchrun`` on one host find, so that the first of them reports for all
_SAME_EVERYWHERE = (DataNotFound, InvalidData, InvalidOption, RunError)


@contextlib.contextmanager
def _termination() -> Iterator[None]:
    """Let SIGTERM raise :class:`Terminated` in the block, unless the program handles it."""

    def terminate(*_: object) -> None:
        raise Terminated

    own = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if own:
        signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if own:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    if _is_first():
        print(printable(f"warning: {message}"), file=sys.stderr)


def _words(error: HarmoniumError | OSError) -> str:
    if isinstance(error, HarmoniumError):
        return str(error)
    return f"{error.filename or 'files'}: {error.strerror or error}"


def _out_of_memory(error: Exception) -> bool:
    """Return whether memory ran out; on the CPU torch raises a RuntimeError that only its message tells apart."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )


def _lost_process(error: Exception) -> bool:
    """Return whether the connection to another process of ``torchrun`` broke."""
    words = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "recvValue failed", "Timed out")
    many = os.environ.get("WORLD_SIZE", "1") != "1"
    return many and isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def _usage(error: Exception) -> str:
    message = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    where = getattr(context, "command_path", "harmonium") or "harmonium"
    return f"{' '.join(message.split())}\nTry '{where} --help'."


def _is_first() -> bool:
    """Return whether this is the first process of ``torchrun`` on its host, or the only one."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def _stop(message: str, status: int, *, repeated: bool = False) -> None:
    if _is_first() or not repeated:
        print(printable(f"{'error' if status == USAGE_ERROR else 'harmonium'}: {message}"), file=sys.stderr)
    sys.exit(status)
