"""Writing TOML (Python reads it, but does not write it): tables of plain values."""

from __future__ import annotations

import json
import math
from typing import Any


def dumps(config: dict[str, Any]) -> str:
    """A nested dict of strings, numbers, booleans and lists as TOML; ``None`` values are left out.

    >>> print(dumps({"seed": 0, "data": {"name": "digits"}}), end="")
    seed = 0
    <BLANKLINE>
    [data]
    name = "digits"
    """
    return "\n".join(_table(config, ())).lstrip("\n") + "\n"


def _table(table: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = [f"{key} = {_value(value)}" for key, value in table.items() if _plain(value)]
    if path and (lines or not table):
        lines = ["", f"[{'.'.join(path)}]", *lines]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += _table(value, (*path, key))
        elif _is_tables(value):
            for item in value:
                lines += ["", f"[[{'.'.join((*path, key))}]]"]
                lines += [f"{name} = {_value(entry)}" for name, entry in item.items() if entry is not None]
    return lines


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
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    return str(value) if isinstance(value, int) else json.dumps(str(value), ensure_ascii=False)
