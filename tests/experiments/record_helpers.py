"""Check the output of an experiment."""

from __future__ import annotations

import csv
import json

from experiments import Record


def check_left_behind(record: Record, figure: str | None) -> None:
    """Check that there are a figure, tables with rows, and a verdict with a measurement for every claim."""
    folder = record.folder
    if figure is not None:
        assert (folder / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
    tables = list(folder.glob("*.csv"))
    assert tables
    for path in tables:
        with path.open(encoding="utf-8") as file:
            assert list(csv.DictReader(file))
    verdict = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    assert len(verdict["claims"]) == len(record.claims) > 0
    assert all(claim["measured"] for claim in verdict["claims"])
