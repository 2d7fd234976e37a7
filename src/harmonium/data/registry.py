"""Registry of the data sets. To add one, add a table to ``data_sets.toml`` and write a function that loads its rows."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from harmonium.data import images, sequences, tables, text
from harmonium.data.dataset import DataFile, DatasetInfo, Fetch, Loader


@dataclass(frozen=True)
class Entry:
    """A data set: its description, its loader, and for word counts the function that returns the vocabulary."""

    info: DatasetInfo
    load: Loader
    vocabulary: Callable[[Fetch], tuple[str, ...]] | None = None


_MODULES = {"images": images, "tables": tables, "text": text}
_ALPHABETS = {"protein": sequences.AMINO_ACIDS, "rna": sequences.NUCLEOTIDES}
#: the loaders of the data sets of a family
_FAMILIES: dict[str, Callable[[DatasetInfo], Loader]] = {
    "binary": lambda info: tables.packed(info.files[0].name, info.shape),
    "alignment": lambda info: sequences.alignment(info.files[0].name, info.alphabet or ""),
    "spikes": lambda info: tables.spikes(info.shape[0]),
}


def _entry(name: str, table: Mapping[str, Any], families: Mapping[str, Mapping[str, Any]]) -> Entry:
    family = table.get("family")
    keys: dict[str, Any] = {**families.get(str(family), {}), **table}
    files = tuple(DataFile(**file) for file in keys.pop("files", ()))
    if "sites" in keys:
        letters = _ALPHABETS[keys["alphabet"]]
        note = f"Letters are in the order {letters}; the last is the gap, and any other letter is read as a gap."
        keys.update(shape=(keys.pop("sites"), len(letters)), alphabet=letters, note=note)
    load, words = keys.pop("load", None), keys.pop("words", None)
    keys.pop("family", None)
    info = DatasetInfo(name=name, files=files, **{**keys, "shape": tuple(keys["shape"])})
    loader = _function(load) if family is None else _FAMILIES[family](info)
    return Entry(info, loader, None if words is None else _function(words))


def _function(path: str) -> Any:
    module, _, name = path.partition(".")
    return getattr(_MODULES[module], name)


def _registry() -> dict[str, Entry]:
    tables = tomllib.loads(resources.files(__package__).joinpath("data_sets.toml").read_text(encoding="utf-8"))
    return {name: _entry(name, table, tables["families"]) for name, table in tables["data"].items()}


REGISTRY: dict[str, Entry] = _registry()
