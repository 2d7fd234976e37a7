"""Configurations by name, chosen from measurements (``docs/mnist-500.md``): ``--config best``, ``plan="best"``."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import InvalidOption
from ..paths import expand, read_toml


def configurations() -> list[str]:
    """Return the names of the configurations.

    >>> configurations()[:3]
    ['best', 'best-fixed', 'modes']
    """
    files = (file.name for file in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))


def read_configuration(given: str | Path) -> dict[str, Any]:
    """Return the tables of a TOML file, or of a configuration of this package by its name.

    >>> read_configuration("plain")["training"]["learning_rate"]
    0.05
    """
    if str(given) in configurations():
        return tomllib.loads(resources.files(__name__).joinpath(f"{given}.toml").read_text("utf-8"))
    path = expand(given)
    try:
        return read_toml(path)
    except FileNotFoundError as error:
        known = ", ".join(configurations())
        raise InvalidOption(f"{error}; give a configuration in TOML, or one of {known}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidOption(f"{path}: expected a configuration in TOML ({why})") from None
