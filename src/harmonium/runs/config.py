"""The configuration of a run: one schema for the command line, ``--config`` files and ``config.toml``."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

from ..data import names
from ..errors import InvalidOption, RunError, unknown
from ..limits import read_toml
from ..options import DataOptions, MachineOptions, TrainingOptions
from ..paths import expanded, is_folder, resolved

FORMAT = 1


@dataclass
class Config:
    """All options of a run. ``format`` is the format of the file, ``harmonium`` the version that wrote it."""

    data: DataOptions = field(default_factory=DataOptions)
    machine: MachineOptions = field(default_factory=MachineOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    harmonium: str | None = None
    format: int = FORMAT

    def to_dict(self) -> dict[str, Any]:
        """Return nested plain values, top-level keys first; unset values are ``None``."""
        tables = asdict(self)
        return {"format": tables.pop("format"), "harmonium": tables.pop("harmonium"), **tables}


def from_dict(tables: Mapping[str, Any], where: str = "configuration") -> Config:
    """Build the configuration from nested tables. An unknown key raises an error that suggests the nearest valid one.

    >>> from_dict({"training": {"epochs": 3}}).training.epochs
    3
    >>> from_dict({"training": {"epoch": 3}})
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: unknown key of [training] in configuration 'epoch': did you mean 'epochs'? (...)
    """
    config = Config()
    written = tables.get("format", FORMAT)
    if type(written) is not int or written > FORMAT:
        raise RunError(f"{where}: expected a format up to {FORMAT}, found {written!r} of a newer harmonium")
    _fill(config, tables, f"key in {where}", "")
    return config


def read(path: str | Path) -> Config:
    """Read the configuration from a TOML file; a relative path of data is relative to the folder of the file."""
    path = expanded(path)
    try:
        tables = read_toml(path)
    except FileNotFoundError:
        raise InvalidOption(f"{path}: no such file; expected a configuration in TOML") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidOption(f"{path}: expected a configuration in TOML ({why})") from None
    if written_by_fit(tables):
        raise RunError(
            f"{path}: expected one written by 'harmonium train', found one of hm.fit, which does not name its data"
        )
    config = from_dict(tables, str(path))
    if is_path(config.data.source):
        config.data.source = str(resolved(path.parent / expanded(config.data.source)))
    return config


def written_by_fit(tables: Mapping[str, Any]) -> bool:
    """Return whether a configuration was written by ``hm.fit``, which does not name its data.

    >>> written_by_fit({"harmonium": {"format": 1}}), written_by_fit({"harmonium": "0.1.0"})
    (True, False)
    """
    machine = tables.get("machine")
    return isinstance(tables.get("harmonium"), Mapping) or (isinstance(machine, Mapping) and "layers" in machine)


def merge(config: Config, options: Mapping[str, Mapping[str, Any]]) -> Config:
    """Return the configuration with the given options (those that are not ``None``) replaced."""
    tables = config.to_dict()
    for name, values in options.items():
        tables[name] |= {key: value for key, value in values.items() if value is not None}
    given = options.get("data", {})
    if given.get("source") is not None:  # other data: drop what was recorded about the old file
        own = ("array", "alphabet", "columns", "ratings", "vocabulary", "stop_words")
        kept = {key: given.get(key) for key in own}
        tables["data"] |= dict.fromkeys(("rows", "bytes", "sha256")) | kept
    return from_dict({k: v for k, v in tables.items() if v is not None}, "the options")


def is_path(source: str) -> bool:
    """Return whether a data source is a file or a folder and not the name of a data set.

    A folder in the current directory needs no slash, unless a data set has its name.

    >>> is_path("digits"), is_path("mine.csv"), is_path("folder/mine"), is_path("a" * 5000)
    (False, True, True, False)
    """
    if Path(source).suffix or "/" in source or "\\" in source:
        return True
    return bool(source) and source not in names() and is_folder(expanded(source))


def _fill(target: Any, table: Mapping[str, Any], kind: str, name: str) -> None:
    types = typing.get_type_hints(type(target))
    for key, value in table.items():
        if key not in types:
            raise unknown(kind, key, [f.name for f in fields(target)])
        if hasattr(types[key], "__dataclass_fields__"):
            if not isinstance(value, Mapping):
                raise InvalidOption(f"{key}: expected a table [{key}], found {value!r}")
            _fill(getattr(target, key), value, kind.replace("key in", f"key of [{key}] in"), key)
        elif value is not None:
            setattr(target, key, _typed(f"{name}.{key}".lstrip("."), value, types[key]))


_WORDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list"}


def _typed(name: str, value: Any, expected: Any) -> Any:
    kinds = [
        t for t in (typing.get_args(expected) if isinstance(expected, UnionType) else (expected,)) if t != NoneType
    ]
    for kind in kinds:
        if type(value) is kind or (kind is float and type(value) is int):
            return kind(value)
        if typing.get_origin(kind) is list and type(value) is list and value:
            return [_typed(f"{name}[{k}]", item, typing.get_args(kind)[0]) for k, item in enumerate(value)]
    words = " or ".join(_WORDS[kind.__name__] for kind in kinds)
    shown = repr(value)
    raise InvalidOption(f"{name}: expected {words}, found {shown if len(shown) <= 200 else shown[:200] + '…'}")
