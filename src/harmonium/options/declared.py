"""An option as the field of a dataclass, with all that is generated from it."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any

from ..checks import whole
from ..errors import InvalidOption, unknown

#: plan of an option that the command prints in words of its own
ELSEWHERE = ("", "")


@dataclass(frozen=True)
class About:
    """What the declaration of an option says beside its name, type and default.

    Attributes:
        help: one sentence, for the command line.
        details: further sentences, for the documentation.
        metavar: how its value is written, such as ``HxW``.
        unset: what leaving it out means, where the default alone does not say it.
        at_least, above, below, choices: the values that are allowed.
        plan: line of the printed plan, and the words for a value; by default the line "other", unless at its default.
        plan_unset: words of the plan for an empty value.
        flags: further names on the command line.
        recorded: written by a run and not an option of the command line.
    """

    help: str
    details: str = ""
    metavar: str | None = None
    unset: str = ""
    at_least: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    plan: tuple[str, str] | None = None
    plan_unset: str = ""
    flags: tuple[str, ...] = ()
    recorded: bool = False


def option(default: Any, help: str, **about: Any) -> Any:
    """A field of a dataclass that is an option of a run; ``about`` are fields of :class:`About`."""
    return dataclasses.field(default=default, metadata={"about": About(help, **about)})


def again(table: type, name: str, **changes: Any) -> Any:
    """A field with the default and the meaning of an option of another table, but for ``changes`` of the meaning."""
    found = options(table)[name]
    return dataclasses.field(default=found.default, metadata={"about": dataclasses.replace(found.about, **changes)})


@dataclass(frozen=True)
class Option:
    """A declared option: ``kinds`` are the plain types of its values, ``optional`` whether it may be left empty."""

    name: str
    kinds: tuple[type, ...]
    optional: bool
    default: Any
    about: About

    @property
    def flag(self) -> str:
        """The name on the command line.

        >>> from harmonium.options import TrainingOptions
        >>> options(TrainingOptions)["learning_rate"].flag
        '--learning-rate'
        """
        return f"--{self.name.replace('_', '-')}"

    @property
    def default_words(self) -> str:
        """The default as a reader sees it; empty where there is none."""
        if self.about.unset or self.default in (None, ""):
            return self.about.unset
        return {True: "on", False: "off"}[self.default] if self.kinds == (bool,) else str(self.default)

    def check(self, value: Any) -> Any:
        """The value, which has to be within the bounds; whole numbers may be numpy's.

        >>> from harmonium.options import TrainingOptions
        >>> options(TrainingOptions)["epochs"].check(0)
        Traceback (most recent call last):
        ...
        harmonium.errors.InvalidOption: epochs: expected at least 1, found 0
        """
        about = self.about
        if value is None and self.optional:
            return None
        if self.kinds == (int,):
            value = whole(self.name, value)
        if about.choices and value not in about.choices:
            raise unknown(self.name.replace("_", " "), str(value), about.choices)
        if self._bounds and not self._within(value):
            raise InvalidOption(f"{self.name}: expected {self._bounds}, found {_short(value)}")
        return value

    def _within(self, value: Any) -> bool:
        about = self.about
        try:
            return bool(  # NaN is within no bounds
                (about.at_least is None or value >= about.at_least)
                and (about.above is None or value > about.above)
                and (about.below is None or value < about.below)
            )
        except TypeError:
            return False

    @property
    def _bounds(self) -> str:
        about = self.about
        if about.below is not None:
            return f"a number in {'(' if about.at_least is None else '['}{about.at_least or 0:g}, {about.below:g})"
        if about.above == 0:
            return "a positive number"
        return "" if about.at_least is None else f"at least {about.at_least:g}"

    def planned(self, value: Any) -> tuple[str, str]:
        """The line of the printed plan and the words there; empty words where nothing is to be said."""
        if self.about.recorded or self.about.plan == ELSEWHERE:
            return ELSEWHERE
        if self.about.plan is None:
            return "other", "" if value == self.default else f"{self.name.replace('_', ' ')} {_short(value)}"
        line, words = self.about.plan
        if value is None or value is False:
            return line, self.about.plan_unset
        return line, words.format(_short(value))


def options(table: type) -> Mapping[str, Option]:
    """The options that a dataclass declares, by name."""
    return _options(table)


@cache
def _options(table: Hashable) -> Mapping[str, Option]:
    assert isinstance(table, type) and dataclasses.is_dataclass(table)
    hints = typing.get_type_hints(table)
    return {field.name: _declared(field, hints[field.name]) for field in dataclasses.fields(table)}


def _declared(field: dataclasses.Field[Any], hint: Any) -> Option:
    parts = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kinds = tuple(part for part in parts if part is not NoneType)
    return Option(field.name, kinds, NoneType in parts, field.default, field.metadata["about"])


def check(table: Any) -> None:
    """Check every value of a table of options."""
    for name, found in options(type(table)).items():
        found.check(getattr(table, name))


def plan(*tables: Any) -> dict[str, str]:
    """The lines of the printed plan: what the tables say, in the order of their options.

    >>> from harmonium.options import TrainingOptions
    >>> plan(TrainingOptions(momentum=0.9, l2=0.001))["optimizer"]
    'sgd, learning rate chosen from the data, momentum 0.9'
    """
    lines: dict[str, list[str]] = {}
    for table in tables:
        for name, found in options(type(table)).items():
            line, words = found.planned(getattr(table, name))
            if words:
                lines.setdefault(line, []).append(words)
    return {line: ", ".join(words) for line, words in lines.items()}


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
