"""The commands ``data list`` and ``data info``."""

from __future__ import annotations

from typing import Any

from .. import data
from . import show


def list_data() -> dict[str, Any]:
    """Print the data sets, and which are available."""
    rows = []
    for name in data.names():
        facts, status = data.info(name), data.status(name)
        found = status if status in ("embedded", "missing") else "found"
        sizes = " + ".join(f"{n:,} {split}" for split, n in facts.splits.items())
        rows.append(
            [name, found, facts.kind, "×".join(map(str, facts.shape)), sizes, facts.suggested_visible, facts.license]
        )
    show.table("data sets", ["name", "status", "kind", "shape", "rows", "units", "license"], rows)
    if any(row[1] == "missing" for row in rows):
        print("How to get a missing one: harmonium data info NAME")
    sets = {}
    for name in data.names():
        facts = data.info(name)
        sets[name] = {"status": data.status(name), "kind": facts.kind, "shape": facts.shape, "rows": dict(facts.splits)}
    return sets


def describe_data(name: str) -> dict[str, Any]:
    """Print the details of a data set."""
    facts, status = data.info(name), data.status(name)
    rows: dict[str, Any] = {
        "name": facts.name,
        "status": status,
        "kind": facts.kind,
        "shape": "×".join(map(str, facts.shape)),
        "rows": ", ".join(f"{n:,} {split}" for split, n in facts.splits.items()),
        "split": facts.split_rule,
        "suggested units": facts.suggested_visible,
        "labels": facts.label_meaning or "none",
        "license": facts.license,
        "citation": facts.citation,
        "source": facts.source,
        "how to obtain": facts.obtain,
    }
    if facts.note:
        rows["note"] = facts.note
    for file in facts.files:
        rows[file.name] = f"{file.size:,} bytes, sha256 {file.sha256}"
    show.facts(facts.title, rows)
    return {"title": facts.title, **rows, "shape": facts.shape, "rows": dict(facts.splits)}
