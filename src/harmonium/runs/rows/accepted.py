"""Which options about the values of a data set each kind of data accepts."""

from __future__ import annotations

from typing import Any

from ...errors import InvalidOption
from ..config import DataOptions

_NAMES = (
    *("binarize", "image", "labels", "array", "transpose"),
    *("alphabet", "ratings", "columns", "vocabulary", "stop_words", "window", "robust"),
)


def given(options: DataOptions) -> dict[str, Any]:
    """Return the options about the values that are given, in a fixed order."""
    values = {name: getattr(options, name) for name in _NAMES}
    return {name: value for name, value in values.items() if value not in (None, False, "none")}


def check_accepted(options: DataOptions, what: str, accepted: tuple[str, ...]) -> None:
    """Raise if an option is given that data of this kind do not accept.

    >>> check_accepted(DataOptions(alphabet="dna"), "the numbers in rows.npy", ("binarize", "image", "labels"))
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: alphabet: expected none for the numbers in rows.npy, found 'dna'
    """
    for name, value in given(options).items():
        if name not in accepted:
            raise InvalidOption(f"{name}: expected none for {what}, found '{value}'")
