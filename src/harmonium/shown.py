"""How objects are shown: a short line, and a small table in notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any


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
