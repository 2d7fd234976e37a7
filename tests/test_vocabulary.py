"""One word for one idea: every parameter of the public interface is in ``vocabulary.toml``, and no other."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import harmonium

PACKAGES = [
    *("units", "couplings", "machines", "sampling", "meanfield", "likelihood", "training", "testing", "interactions"),
    *("spectra", "landscape", "replicas", "quality", "tasks", "data", "plots", "report", "convert"),
]
SECTIONS = tomllib.loads((Path(__file__).parent / "vocabulary.toml").read_text(encoding="utf-8"))
WORDS = {word for section in SECTIONS.values() for word in section}


def signatures(package: Any) -> Iterator[tuple[str, inspect.Signature]]:
    """(name, signature) of the public functions, constructors and methods of a package."""
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isfunction(value):
            yield name, inspect.signature(value)
        elif inspect.isclass(value):
            for part, method in inspect.getmembers(value, inspect.isfunction):
                own = method.__module__.startswith("harmonium") and (part == "__init__" or not part.startswith("_"))
                generated = part == "__init__" and hasattr(value, "__dataclass_fields__")  # results, not arguments
                if own and not generated:
                    yield f"{name}.{part}", inspect.signature(method)


def parameters(package: Any) -> Iterator[tuple[str, str]]:
    for name, signature in signatures(package):
        yield from ((word, name) for word in signature.parameters if word not in ("self", "cls"))


@pytest.mark.parametrize("name", PACKAGES)
def test_parameters_are_in_the_vocabulary(name):
    package = importlib.import_module(f"harmonium.{name}")
    unknown = [f"{word} in {function}" for word, function in parameters(package) if word not in WORDS]
    assert not unknown, f"harmonium.{name}: words outside the vocabulary: {', '.join(unknown)}"


def test_the_vocabulary_has_no_other_words():
    found = {word for name in PACKAGES for word, _ in parameters(importlib.import_module(f"harmonium.{name}"))}
    assert not WORDS - found


def test_no_word_has_two_entries():
    assert len(WORDS) == sum(len(section) for section in SECTIONS.values())


def test_a_word_outside_the_vocabulary_is_found():
    class Package:
        __all__ = ("sample",)

        @staticmethod
        def sample(n, temperature_ladder):
            """Has a parameter that is not in the vocabulary."""

    assert [word for word, _ in parameters(Package) if word not in WORDS] == ["temperature_ladder"]


@pytest.mark.parametrize("name", PACKAGES)
def test_no_result_has_a_bare_value(name):
    package = importlib.import_module(f"harmonium.{name}")
    bare = [key for key in package.__all__ if hasattr(getattr(package, key), "value")]
    fields = [key for key in package.__all__ if "value" in getattr(getattr(package, key), "__dataclass_fields__", ())]
    assert not bare and not fields


@pytest.mark.parametrize("name", PACKAGES)
def test_no_module_has_the_name_of_a_function(name):
    package = importlib.import_module(f"harmonium.{name}")
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package.__all__)


def test_every_public_class_name_is_used_once():
    homes = defaultdict(set)
    for name in PACKAGES:
        package = importlib.import_module(f"harmonium.{name}")
        for key in package.__all__:
            if inspect.isclass(getattr(package, key)):
                homes[key].add(getattr(package, key))
    assert not {key: classes for key, classes in homes.items() if len(classes) > 1}


def test_public_names_are_shown():
    assert {"fit", "RBM", "units", "plots"} <= set(dir(harmonium))
    assert not {"importlib", "annotations", "Any"} & set(dir(harmonium))
