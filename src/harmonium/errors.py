"""Exceptions and warnings of the package. Messages state the expected and the actual value."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable
from types import FrameType

__all__ = [
    "CheckpointError",
    "DataNotFound",
    "Diverged",
    "HarmoniumError",
    "Inaccurate",
    "InvalidData",
    "InvalidOption",
    "MissingExtra",
    "NotConverged",
    "NotEnumerable",
    "NotLearned",
    "NotMixed",
    "NotNormalizable",
    "OutOfMemory",
    "RunError",
    "UnknownArgument",
]


class HarmoniumError(Exception):
    """Base class of all exceptions raised by this package."""


class InvalidData(HarmoniumError, ValueError):
    """Data of the wrong shape, type or support."""


class InvalidOption(HarmoniumError, ValueError):
    """An invalid argument, option or configuration value."""


class UnknownArgument(InvalidOption, TypeError):
    """A keyword argument that a function does not accept."""


class MissingExtra(HarmoniumError, ImportError):
    """A required optional package that is not installed."""


class NotNormalizable(HarmoniumError, ValueError):
    """A machine without a finite partition function."""


class NotEnumerable(HarmoniumError, ValueError):
    """A machine that is too large or not discrete, so that its states cannot be enumerated."""


class CheckpointError(HarmoniumError, ValueError):
    """A file that is corrupt, truncated, not written by harmonium, or of a different machine."""


class RunError(HarmoniumError, ValueError):
    """A run folder that cannot be used for the requested operation."""


class Diverged(HarmoniumError, ArithmeticError):
    """A value that became infinite, NaN or too large, for example a parameter during training."""


class DataNotFound(HarmoniumError, FileNotFoundError):
    """A data set whose files were not found."""


class OutOfMemory(HarmoniumError, MemoryError):
    """A computation that needs more memory than there is."""


class NotMixed(UserWarning):
    """Samples of Markov chains that have not mixed, or that are too few or too short to judge mixing."""


class Inaccurate(UserWarning):
    """Results of an approximation that differ from a check of some of them."""


class NotLearned(UserWarning):
    """Training finished without an error, but its result should not be used."""


class NotConverged(UserWarning):
    """Training that ended although more of it would increase the likelihood."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn about the line of the user: the first outside of this package and of decorators."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame) in ("harmonium", "torch", "contextlib"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def clipped(value: object, most: int = 200) -> str:
    """A value as one line of text of at most ``most`` letters, for messages about what was found.

    >>> clipped("one\\ntwo"), clipped("a" * 30, 10)
    ('one two', 'aaaaaaaaa…')
    """
    text = " ".join(str(value).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def unknown(kind: str, name: str, known: Iterable[str]) -> InvalidOption:
    """The exception for an unknown name, with the closest valid name.

    >>> raise unknown("unit", "bernouli", ["bernoulli", "spin"])
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: unknown unit 'bernouli': did you mean 'bernoulli'? (known: bernoulli, spin)
    """
    known, name = sorted(known), clipped(name, 100)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return InvalidOption(f"unknown {kind} '{name}': {hint}(known: {', '.join(known)})")
