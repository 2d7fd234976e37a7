"""The command ``harmonium``. User errors print one or two lines and exit with status 2."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from ..errors import HarmoniumError
from ..extras import explained

__all__ = ["main"]

USAGE_ERROR, INTERRUPTED = 2, 130


class Interrupted(Exception):
    """The user pressed Ctrl-C; the message says how to continue."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with ``arguments`` (by default those of the process) and exit with its status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from .app import app

        with warnings.catch_warnings():
            warnings.showwarning = _warn
            status = app(args=arguments or ["--help"], prog_name="harmonium", standalone_mode=False)
    except (HarmoniumError, OSError) as error:
        _stop(_words(error), USAGE_ERROR)
    except ModuleNotFoundError as error:
        missing = explained(error)
        if missing is None:
            raise
        _stop(str(missing), USAGE_ERROR)
    except Interrupted as stop:
        _stop(str(stop), INTERRUPTED)
    except Exception as error:  # typer's own errors have no common public base class in all its versions
        if type(error).__name__ == "Abort":
            _stop("stopped", INTERRUPTED)
        if _out_of_memory(error):
            _stop("not enough memory; use a smaller machine, fewer chains or smaller batches", USAGE_ERROR)
        if not hasattr(error, "format_message"):
            raise
        _stop(_usage(error), USAGE_ERROR)
    else:
        sys.exit(status if isinstance(status, int) else 0)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


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


def _usage(error: Exception) -> str:
    message = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    where = getattr(context, "command_path", "harmonium") or "harmonium"
    return f"{' '.join(message.split())}\nTry '{where} --help'."


def _stop(message: str, status: int) -> None:
    print(f"harmonium: {message}" if status == INTERRUPTED else f"error: {message}", file=sys.stderr)
    sys.exit(status)
