"""Commands that are only declared: their arguments are passed on to a function that is imported when they run."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any


def calls(path: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a declaration into a command that passes its arguments, by name, to a function of this package.

    With an argument ``json``, which is not passed on, the numbers that the function returns can be printed as JSON.

    Args:
        path: module and name of the function, such as "views.spectrum_run".

    >>> @calls("about.describe")
    ... def info(path, json=False): ...
    >>> info.__name__
    'info'
    """

    def decorate(declared: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(declared)
        def command(**given: Any) -> None:
            as_json = given.pop("json", False)
            answer = load("show.answer")
            answer(as_json, load(path), **given)

        return command

    return decorate


def load(path: str) -> Any:
    """Import a function of this package."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f".{module}", __package__), name)
