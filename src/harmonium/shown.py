"""How objects are shown: a short line, and a small table in notebooks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from html import escape
from typing import Any, TypeVar


class Shown:
    """Base class of objects with a title and facts, from which ``repr`` and the display in notebooks are made.

    >>> class Point(Shown):
    ...     def shown(self):
    ...         return "Point", {"x": 1, "y": 2}
    >>> Point()
    Point(x 1, y 2)
    >>> Point()._repr_html_().startswith("<table>")
    True
    """

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """Return the title and the facts, in the order in which they are shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        title, facts = self.shown()
        return f"{title}({', '.join(f'{name} {value}'.strip() for name, value in facts.items())})"

    def _repr_html_(self) -> str:
        return table(*self.shown())


def table(title: str, facts: Mapping[str, Any]) -> str:
    """Return a title and facts as an HTML table.

    >>> table("Run", {"epochs": 3})
    '<table><caption style="text-align:left"><b>Run</b></caption><tr><th style="text-align:left">epochs</th><td
    style="text-align:left">3</td></tr></table>'
    """
    left = 'style="text-align:left"'
    rows = "".join(
        f"<tr><th {left}>{escape(str(name))}</th><td {left}>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption {left}><b>{escape(title)}</b></caption>{rows}</table>"


def short(value: float, digits: int = 4) -> str:
    """Format a number.

    >>> short(-18.12345), short(1234567.0)
    ('-18.12', '1.235e+06')
    """
    return f"{value:.{digits}g}"


def plain(value: Any) -> Any:
    """Return nested values as JSON has them: numbers that are not finite are None, and other objects text.

    >>> plain({1: (0.5, float("nan"), "x")})
    {'1': [0.5, None, 'x']}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (int, str, bool)) or value is None else str(value)


Class = TypeVar("Class", bound=type)
_MOST_CHARACTERS = 60


def brief(kind: Class) -> Class:
    """Decorate a dataclass with large fields: it shows the shapes of arrays and the sizes of collections.

    >>> from dataclasses import dataclass
    >>> @brief
    ... @dataclass
    ... class Found:
    ...     rows: Any
    ...     error: float
    >>> import numpy
    >>> Found(numpy.zeros((50, 64)), 0.123456)
    Found(rows 50×64, error 0.1235)
    >>> Found(numpy.zeros((50, 64)), 0.123456)._repr_html_().startswith("<table>")
    True
    """

    def facts(self: Any) -> dict[str, str]:
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.repr}
        return {name: _summary(value) for name, value in values.items() if value is not None}

    def represent(self: Any) -> str:
        return f"{type(self).__name__}({', '.join(f'{name} {value}' for name, value in facts(self).items())})"

    def display(self: Any) -> str:
        return table(type(self).__name__, facts(self))

    kind.__repr__ = represent  # type: ignore[assignment]
    kind._repr_html_ = display  # type: ignore[attr-defined]
    return kind


def _summary(value: Any) -> str:
    """A few words about a value of any kind.

    >>> _summary([1, 2]), _summary({}), _summary("tap"), _summary(True)
    ('2 items', '0 items', 'tap', 'True')
    """
    shape = getattr(value, "shape", None)
    if shape is not None and not callable(shape):
        sizes = "×".join(map(str, shape))
        return short(float(value)) if not sizes else f"{sizes} values" if len(shape) == 1 else sizes
    if isinstance(value, float):
        return short(value)
    if type(value) in (list, tuple, dict, set):
        return f"{len(value)} item{'' if len(value) == 1 else 's'}"
    words = str(value) if isinstance(value, (str, int, tuple)) else type(value).__name__
    if hasattr(value, "__len__") and not isinstance(value, (str, tuple)):
        words += f" ({len(value)})"
    return words if len(words) <= _MOST_CHARACTERS else words[:_MOST_CHARACTERS] + "…"
