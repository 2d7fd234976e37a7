"""Options that experiments on trained machines share: those of the machines, and an experiment's own beside them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import InvalidOption
from .record import Record


def with_options_of(machines: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make ``run(record, scale, **options)`` of an experiment ``(record, machines, **own)``.

    The options are those of ``machines(record, scale, **options)`` and the experiment's own keyword arguments, all of
    them in the signature.
    """

    def decorate(experiment: Callable[..., None]) -> Callable[..., None]:
        shared = inspect.signature(machines).parameters.values()
        own = list(inspect.signature(experiment).parameters.values())[2:]

        def run(record: Record, scale: str, **options: Any) -> None:
            mine = {p.name: options.pop(p.name) for p in own if p.name in options}
            experiment(record, machines(record, scale, **options), **mine)

        run.__doc__ = experiment.__doc__
        run.__signature__ = inspect.Signature([*shared, *own], return_annotation=None)  # type: ignore[attr-defined]
        return run

    return decorate


def parse_layers(hidden: str | int, example: str = "50,100") -> tuple[int, ...]:
    """Numbers of hidden units, layer by layer.

    >>> parse_layers("400,50")
    (400, 50)
    """
    try:
        sizes = tuple(int(part) for part in str(hidden).split(","))
    except ValueError:
        raise InvalidOption(f"hidden: expected sizes such as '{example}', found {hidden!r}") from None
    if min(sizes) < 1:
        raise InvalidOption(f"hidden: expected sizes of one unit or more, found {min(sizes)}")
    return sizes


def parse_sizes(hidden: str | int) -> tuple[int, ...]:
    """Numbers of hidden units of several machines, ascending, each once.

    >>> parse_sizes("400,50")
    (50, 400)
    """
    return tuple(sorted(set(parse_layers(hidden, "50,400"))))
