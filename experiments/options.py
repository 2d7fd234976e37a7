"""Options of experiments: those of the trained machines with an experiment's own, and values that replace a scale's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from harmonium.errors import InvalidOption

from .record import Record

Settings = TypeVar("Settings")


def with_options_of(machines: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn an experiment ``(record, machines, **own)`` into ``run(record, scale, **options)``.

    The options are those of ``machines(record, scale, **options)`` and the experiment's own keyword arguments. The
    signature lists all of them.
    """

    def decorate(experiment: Callable[..., None]) -> Callable[..., None]:
        shared = inspect.signature(machines).parameters.values()
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in list(inspect.signature(experiment).parameters.values())[2:]]

        def run(record: Record, scale: str, **options: Any) -> None:
            mine = {p.name: options.pop(p.name) for p in own if p.name in options}
            experiment(record, machines(record, scale, **options), **mine)

        run.__doc__ = experiment.__doc__
        run.__signature__ = inspect.Signature([*shared, *own], return_annotation=None)  # type: ignore[attr-defined]
        return run

    return decorate


def override(settings: Settings, **options: Any) -> Settings:
    """The settings of a scale with the options that were given; 0 and "" keep the value of the scale.

    >>> from dataclasses import make_dataclass
    >>> override(make_dataclass("Settings", ["rows", "epochs"])(1000, 10), rows=0, epochs=3)
    Settings(rows=1000, epochs=3)
    """
    return replace(settings, **{name: value for name, value in options.items() if value})  # type: ignore[type-var]


def differences(found: Iterable[tuple[str, float, float]]) -> str:
    """How settings differ from published ones, in words; empty if they do not.

    Args:
        found: name, value here and published value of each setting.

    >>> differences([("epochs", 30, 3000), ("learning rate", 0.001, 0.001)])
    'epochs: 30 instead of 3000'
    """
    return ", ".join(f"{name}: {own:g} instead of {published:g}" for name, own, published in found if own != published)


def parse_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """One of several words.

    >>> parse_choice("part", "all", ("curves", "both"))
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: part: expected curves or both, got 'all'
    """
    if value not in choices:
        *first, last = choices
        raise InvalidOption(f"{name}: expected {', '.join(first)} or {last}, got {value!r}")
    return value


def parse_layers(hidden: str | int, example: str = "50,100") -> tuple[int, ...]:
    """Numbers of hidden units, layer by layer.

    >>> parse_layers("400,50")
    (400, 50)
    """
    try:
        sizes = tuple(int(part) for part in str(hidden).split(","))
    except ValueError:
        raise InvalidOption(f"hidden: expected sizes such as '{example}', got {hidden!r}") from None
    if min(sizes) < 1:
        raise InvalidOption(f"hidden: expected sizes of one unit or more, got {min(sizes)}")
    return sizes


def parse_sizes(hidden: str | int) -> tuple[int, ...]:
    """Numbers of hidden units of several machines, ascending, each once.

    >>> parse_sizes("400,50")
    (50, 400)
    """
    return tuple(sorted(set(parse_layers(hidden, "50,400"))))
