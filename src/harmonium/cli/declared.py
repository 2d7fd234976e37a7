"""The options of ``harmonium train``, generated from their declarations in :mod:`harmonium.options`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..options import Option, options
from ..options.markdown import TABLES


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an argument or option for every option of a run to a command that takes ``**given``, before its own."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    generated = [
        inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(option))
        for table in TABLES.values()
        for option in options(table).values()
        if not option.about.recorded
    ]
    parameters = [*generated, *(part for part in own if part.kind is not inspect.Parameter.VAR_KEYWORD)]
    parameters = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in parameters]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {part.name: part.annotation for part in parameters}
    return command


def by_table(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Group the values of such a command by the table of their option."""
    return {
        name: {key: _value(given[key]) for key, option in options(table).items() if not option.about.recorded}
        for name, table in TABLES.items()
    }


def _value(given: Any) -> Any:
    """Return a value of the command line; a list of none is None, and a list of one is its value."""
    if not isinstance(given, (list, tuple)):
        return given
    return given[0] if len(given) == 1 else list(given) or None


def _annotation(option: Option) -> Any:
    kind: Any = str if str in option.kinds else option.kinds[0]
    kind = list[str] if option.repeated else kind
    about = option.about
    if option.name == "source":
        return Annotated[kind | None, typer.Argument(metavar=about.metavar, help=about.help)]
    flag = f"{option.flag}/{option.flag.replace('--', '--no-', 1)}" if kind is bool else option.flag
    words = f"{about.help} [{option.default_words}]" if option.default_words else about.help
    return Annotated[
        kind | None, typer.Option(flag, *about.flags, metavar=about.metavar, help=words, show_default=False)
    ]
