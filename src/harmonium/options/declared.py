"""Declaration of an option as a dataclass field, and its checks, default text and plan text."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any

from ..checks import count, whole
from ..errors import InvalidOption, unknown

#: plan of an option that another part of the printed plan covers
ELSEWHERE = ("", "")


@dataclass(frozen=True)
class About:
    """Metadata of an option, in addition to its name, type and default.

    Attributes:
        help: one sentence for the command line.
        details: further sentences for the documentation.
        metavar: placeholder of the value in the help text, such as ``HxW``.
        unset: description of the default, if the default value alone does not explain it.
        at_least, above, below, choices: allowed values.
        plan: title of a line of the printed plan, and the text for a value. If None, a value other than the default is
            printed on the line "other".
        plan_unset: text in the plan if the option has no value.
        flags: additional names on the command line.
        recorded: whether the run writes this value itself; such a value is not a command-line option.
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
    """Declare a dataclass field as an option of a run; ``about`` are fields of :class:`About`."""
    return dataclasses.field(default=default, metadata={"about": About(help, **about)})


def again(table: type, name: str, **changes: Any) -> Any:
    """Declare a field with the default and metadata of option ``name`` of ``table``, except for ``changes``."""
    found = options(table)[name]
    return dataclasses.field(default=found.default, metadata={"about": dataclasses.replace(found.about, **changes)})


@dataclass(frozen=True)
class Option:
    """A declared option. ``kinds`` are the types of its values; ``optional`` is True if None is allowed."""

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
    def repeated(self) -> bool:
        """Whether the option may be given several times; the values are then a list."""
        return any(typing.get_origin(kind) is list for kind in self.kinds)

    @property
    def default_words(self) -> str:
        """The default as text for documentation; empty if there is none."""
        if self.about.unset or self.default in (None, ""):
            return self.about.unset
        return {True: "on", False: "off"}[self.default] if self.kinds == (bool,) else str(self.default)

    def check(self, value: Any) -> Any:
        """Return the value if it is within the bounds, else raise ``InvalidOption``. NumPy integers are accepted.

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
            value = (whole if self.about.at_least is None else count)(self.name, value)
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
        """Return the title of a line of the printed plan and the text to add to it (may be empty)."""
        if self.about.recorded or self.about.plan == ELSEWHERE:
            return ELSEWHERE
        if self.about.plan is None:
            return "other", "" if value == self.default else f"{self.name.replace('_', ' ')} {_short(value)}"
        line, words = self.about.plan
        if value is None or value is False:
            return line, self.about.plan_unset
        return line, words.format(_short(value))


def options(table: type) -> Mapping[str, Option]:
    """Return the options that a dataclass declares, by name."""
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
    """Check every value of an option table."""
    for name, found in options(type(table)).items():
        found.check(getattr(table, name))


def plan(*tables: Any) -> dict[str, str]:
    """Return the lines of the printed plan by title, in the order of the options.

    >>> from harmonium.options import TrainingOptions
    >>> plan(TrainingOptions(optimizer="sgd", momentum=0.9, l2=0.001))["optimizer"]
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
