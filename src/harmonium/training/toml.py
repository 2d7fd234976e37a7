"""Write TOML tables of plain values (the standard library can only read TOML)."""

from __future__ import annotations

import json
import numbers
import re
from typing import Any


def dumps(config: dict[str, Any]) -> str:
    """Return a nested dict of strings, numbers, booleans and lists as TOML; None values are omitted.

    >>> print(dumps({"seed": 0, "data": {"name": "digits"}}), end="")
    seed = 0
    <BLANKLINE>
    [data]
    name = "digits"
    """
    return "\n".join(_table(config, ())).lstrip("\n") + "\n"


def _table(table: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = [f"{_key(key)} = {_value(value)}" for key, value in table.items() if _plain(value)]
    if path and (lines or not table):
        lines = ["", f"[{'.'.join(path)}]", *lines]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += _table(value, (*path, _key(key)))
        elif _is_tables(value):
            for item in value:
                lines += ["", f"[[{'.'.join((*path, _key(key)))}]]", *_pairs(item)]
    return lines


def _pairs(table: dict[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None]


def _is_tables(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(item, dict) for item in value)


def _plain(value: Any) -> bool:
    return value is not None and not isinstance(value, dict) and not _is_tables(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(_pairs(value)) + " }"
    if isinstance(value, numbers.Integral):  # includes NumPy integers
        return str(int(value))
    return repr(float(value)) if isinstance(value, numbers.Real) else _string(str(value))


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _string(key)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
