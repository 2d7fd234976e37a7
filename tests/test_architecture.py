"""The generated parts of the pages are up to date, and every name in ``harmonium`` that the pages give exists."""

from __future__ import annotations

import importlib
import pkgutil
import re

import architecture
import pytest

import harmonium

NAMED = re.compile(r"`(harmonium(?:\.\w+)+)`")
PAGES = ["docs/architecture.md", "docs/references.md", "CONTRIBUTING.md"]


def names(page: str) -> list[str]:
    return sorted(set(NAMED.findall((architecture.REPOSITORY / page).read_text(encoding="utf-8"))))


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                break
            found = getattr(found, part)
        else:
            return True
    return False


def modules_with(name: str) -> list[str]:
    """Where a function or class of this name is defined: a hint for a name that has moved."""
    found = []
    for info in pkgutil.walk_packages(harmonium.__path__, "harmonium."):
        if not info.name.endswith("__main__"):
            value = getattr(importlib.import_module(info.name), name, None)
            if getattr(value, "__module__", None) == info.name:
                found.append(f"{info.name}.{name}")
    return found


@pytest.mark.slow
def test_generated_parts_are_up_to_date():
    stale = [path.name for path in architecture.outdated()]
    assert not stale, f"{', '.join(stale)}: run python tools/architecture.py"


def test_changes_are_seen():
    with pytest.raises(ValueError, match="markers"):
        architecture.updated("no markers here", ("order",))
    text = "a\n<!-- begin order -->\nold\n<!-- end order -->\nb"
    new = architecture.updated(text, ("order",))
    assert "old" not in new and "units" in new and new.startswith("a\n") and new.endswith("\nb")
    assert architecture.updated(new, ("order",)) == new


def test_the_graph_is_that_of_the_imports():
    graph = architecture.graph()
    assert "errors" in graph["units"] and "units" in graph["machines"]
    assert set(graph) <= set(architecture.ORDER)
    for package in graph:  # the drawn arrows lead to everything that is imported
        seen, todo = set(), [package]
        while todo:
            for other in architecture.reduced(todo.pop()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        assert seen == architecture.reachable(package)


@pytest.mark.parametrize("page", PAGES)
def test_names_exist(page):
    missing = {name: modules_with(name.rpartition(".")[2]) for name in names(page) if not exists(name)}
    assert not missing, f"{page} names what does not exist (and where that name is now): {missing}"


def test_names_are_checked():
    assert len(names("docs/architecture.md")) > 30
    assert exists("harmonium.RBM.free_energy") and exists("harmonium.machines.rbm")
    assert not exists("harmonium.RBM.no_such_thing") and not exists("harmonium.no_such_module")
