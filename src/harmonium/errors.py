"""The errors a user can meet. Each message says what was expected and what came."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HarmoniumError(Exception):
    """Base of every error raised on purpose by this package."""


class InvalidData(HarmoniumError, ValueError):
    """Data of the wrong shape, type or support."""


class InvalidOption(HarmoniumError, ValueError):
    """An argument, option or configuration value that has no meaning here."""


class UnknownArgument(InvalidOption, TypeError):
    """A keyword that a function does not have."""


class MissingExtra(HarmoniumError, ImportError):
    """An optional package that is needed and not installed."""


class NotNormalizable(HarmoniumError, ValueError):
    """The machine has no finite partition function, so the question has no answer."""


class NotEnumerable(HarmoniumError, ValueError):
    """Exact enumeration was asked of a machine that is too large or not discrete."""


class CheckpointError(HarmoniumError, ValueError):
    """A file that is corrupt, truncated, foreign or of another machine."""


class RunError(HarmoniumError, ValueError):
    """A run folder that cannot be used as asked."""


class Diverged(HarmoniumError, ArithmeticError):
    """Training left the finite numbers."""


class DataNotFound(HarmoniumError, FileNotFoundError):
    """A data set whose files are not at hand."""


class NotMixed(UserWarning):
    """Samples of chains that were too short for what they had to cross, or too few and short to judge that."""


class NotLearned(UserWarning):
    """Training ended without an error, but its result should not be used as it is."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InvalidOption:
    """The error for an unknown name, with the nearest valid one.

    >>> raise unknown("unit", "bernouli", ["bernoulli", "spin"])
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: unknown unit 'bernouli': did you mean 'bernoulli'? (known: bernoulli, spin)
    """
    known = sorted(known)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return InvalidOption(f"unknown {kind} '{name}': {hint}(known: {', '.join(known)})")
