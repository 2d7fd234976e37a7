"""The configuration of a run, ``config.toml``: the tables ``[data]``, ``[machine]`` and ``[training]``."""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..checks import check_type, count
from ..data import names
from ..errors import InvalidOption, unknown
from ..paths import expand
from ..presets import configurations, read_configuration
from ..training.plan import Plan
from ..training.threads import check_threads
from ..training.values import without_objects

_MACHINES, _INPUTS = ("rbm", "dbm", "dbn"), ("samples", "means")


@dataclass
class DataOptions:
    """The data: name of a data set or a file, and how its values are read. The last fields are written by the run."""

    source: str = ""
    binarize: str | None = None
    split: str | None = None
    validation: str | float | None = None
    image: str | None = None
    array: str | None = None
    transpose: bool = False
    alphabet: str | None = None
    columns: str | list[str] | None = None
    labels: bool = False
    ratings: str | None = None
    similarity: float | None = None
    vocabulary: int | None = None
    stop_words: str | None = None
    window: int | None = None
    robust: bool = False
    rows: int | None = None
    bytes: int | None = None
    sha256: str | None = None
    mean: float | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "vocabulary", "window")
        if self.similarity is not None and not 0 < self.similarity <= 1:
            raise InvalidOption(f"similarity: expected a fraction above 0 and at most 1, found {self.similarity:g}")


@dataclass
class MachineOptions:
    """The machine: its kind and its layers, from the visible layer up, and where it is trained."""

    machine: str | None = None
    visible: str | None = None
    hidden: str | int | list[str | int] = "bernoulli:100"
    inputs: str | None = None
    dtype: str = "float32"
    device: str = "cpu"
    threads: int | None = None

    def __post_init__(self) -> None:
        for name, known in (("machine", _MACHINES), ("inputs", _INPUTS)):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise unknown(name, value, known)
        _check_positive(self, "threads")
        if self.threads is not None:
            check_threads(self.threads)


@dataclass
class Config:
    """All options of a run. ``harmonium`` is the version that wrote the file."""

    data: DataOptions = field(default_factory=DataOptions)
    machine: MachineOptions = field(default_factory=MachineOptions)
    training: Plan = field(default_factory=Plan)
    harmonium: str | None = None

    @property
    def seed(self) -> int:
        """The seed of the run, which has been chosen."""
        assert self.training.seed is not None
        return self.training.seed

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the three tables, without options that have their default."""
        return {"data": _given(self.data), "machine": _given(self.machine), "training": self.training.table()}


def from_dict(tables: Mapping[str, Any], where: str = "configuration", *, own_objects: bool = False) -> Config:
    """Build the configuration from nested tables. An unknown key raises an error that suggests the nearest valid one.

    With ``own_objects``, the plan may have been made with objects that only a program knows, and lacks them.

    >>> from_dict({"training": {"epochs": 3}}).training.epochs
    3
    >>> from_dict({"training": {"epoch": 3}})
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: configuration: unknown key of [training] 'epoch': did you mean 'epochs'? (...)
    """
    known = [one.name for one in fields(Config)]
    for name, value in tables.items():
        if name not in known:
            raise unknown(f"key in {where}", name, known)
        if name != "harmonium" and not isinstance(value, Mapping):
            raise InvalidOption(f"{name}: expected a table [{name}], found {value!r}")
    training = tables.get("training", {})
    try:
        data = DataOptions(**_typed("data", DataOptions, tables.get("data", {})))
        machine = MachineOptions(**_typed("machine", MachineOptions, tables.get("machine", {})))
        plan = Plan.from_table(without_objects(training) if own_objects else training)
    except InvalidOption as error:
        raise InvalidOption(f"{where}: {error}" if where else str(error)) from None
    return Config(data, machine, plan, tables.get("harmonium"))


def read(path: str | Path, *, own_objects: bool = False) -> Config:
    """Read a configuration of this package by name, or a TOML file; paths of data are relative to the folder of it."""
    config = from_dict(read_configuration(path), str(path), own_objects=own_objects)
    if str(path) not in configurations() and is_path(config.data.source):
        config.data.source = os.path.realpath(expand(path).parent / expand(config.data.source))
    return config


def merge(config: Config, options: Mapping[str, Any]) -> Config:
    """Return the configuration with the given options (those that are not ``None``) of the three tables replaced."""
    tables: dict[str, Any] = {"data": _given(config.data), "machine": _given(config.machine)}
    given = {name: _present(options.get(name, {})) for name in tables}
    if "source" in given["data"]:  # other data: drop what was recorded about the old file
        own = ("array", "alphabet", "columns", "ratings", "vocabulary", "stop_words", "rows", "bytes", "sha256", "mean")
        tables["data"] = {key: value for key, value in tables["data"].items() if key not in own}
    merged = {name: {**tables[name], **given[name]} for name in tables}
    found = from_dict(merged, "")
    found.training = Plan(**_present(options.get("training", {}))).over(config.training)
    return found


def _check_positive(table: Any, *names: str) -> None:
    for name in names:
        value = getattr(table, name)
        if value is not None and count(name, value) < 1:
            raise InvalidOption(f"{name}: expected at least 1, found {value}")


def is_path(source: str) -> bool:
    """Return whether a data source is a file or a folder and not the name of a data set.

    A folder in the current directory needs no slash, unless a data set has its name.

    >>> is_path("digits"), is_path("mine.csv"), is_path("folder/mine"), is_path("a" * 5000)
    (False, True, True, False)
    """
    if Path(source).suffix or "/" in source or "\\" in source:
        return True
    return bool(source) and source not in names() and os.path.isdir(expand(source))


def _present(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _given(table: Any) -> dict[str, Any]:
    """Return the fields of a table that do not have their default."""
    values = {one.name: (getattr(table, one.name), one.default) for one in fields(table)}
    return {name: value for name, (value, default) in values.items() if value != default}


def _typed(name: str, kind: type, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table, without values of None, after a check of its names and of the types of its values."""
    types = typing.get_type_hints(kind)
    for key, value in table.items():
        if key not in types:
            raise unknown(f"key of [{name}]", key, types)
        if value is not None:
            check_type(f"[{name}]", key, value, types[key])
    return _present(table)
