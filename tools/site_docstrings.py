"""Extension of griffe for the API reference: docstrings as Markdown.

Examples become blocks of code, roles such as ``:class:`RBM``` become code, and the arguments of ``fit``, which are
declared elsewhere, are filled in.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([^`]+)`")
_FILLED_IN = "{arguments}"


def as_markdown(text: str) -> str:
    """Return a docstring with its examples fenced and its roles as code.

    >>> as_markdown("See :class:`RBM`.\\n\\n>>> 1 + 1\\n2")
    'See `RBM`.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    lines: list[str] = []
    indent = None
    for line in _ROLE.sub(r"`\1`", text).split("\n"):
        if indent is None and line.lstrip().startswith(">>> "):
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}```pycon")
        elif indent is not None and not line.strip():
            lines.append(f"{indent}```")
            indent = None
        lines.append(line)
    return "\n".join([*lines, *([] if indent is None else [f"{indent}```"])])


class Docstrings(griffe.Extension):
    """Rewrites the docstring of every object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        if _FILLED_IN in text:
            text = inspect.getdoc(getattr(importlib.import_module(obj.parent.path), obj.name)) or text  # type: ignore[union-attr]
        obj.docstring.value = as_markdown(text)
