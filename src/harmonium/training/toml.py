"""Write configurations as TOML."""

from __future__ import annotations

from typing import Any

import numpy as np
import tomli_w


def dumps(config: dict[str, Any]) -> str:
    """Return a nested dict of strings, numbers, booleans and lists as TOML; None values are omitted.

    >>> print(dumps({"seed": np.int64(0), "data": {"name": "digits", "mean": None}}), end="")
    seed = 0
    <BLANKLINE>
    [data]
    name = "digits"
    """
    return tomli_w.dumps(_plain(config))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
