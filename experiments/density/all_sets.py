"""Test log-likelihoods of RBMs on fourteen binary data sets, from both sides, as one table.

See ``density/NAME`` for one set. A stopped run continues with the sets that have no row yet.
"""

from __future__ import annotations

import json
from typing import Any

from harmonium import data, files

from ..options import override
from ..record import Record
from .settings import BUDGETS
from .tested import claims, one

#: the smallest first
SETS = (
    *("nltcs", "mushrooms", "dna", "adult", "plants", "jester", "baudio", "bnetflix"),
    *("accidents", "pumsb-star", "ocr-letters", "nips", "caltech-silhouettes", "binarized-mnist"),
)


def run(record: Record, scale: str, updates: int = 0, betas: int = 0, seeds: int = 0, seed: int = 0) -> None:
    """Run every data set that is available."""
    budget = override(BUDGETS[scale], updates=updates, betas=betas, seeds=seeds)
    table: list[dict[str, Any]] = []
    for name in SETS:
        if data.status(name) == "missing":
            record.say(f"{name}: not found, left out")
            continue
        finished = record.folder / f"{name}.json"
        if finished.exists():
            row = json.loads(finished.read_text(encoding="utf-8"))
        else:
            row = one(record, name, budget, seed)
            files.write_text(finished, json.dumps(row))
        claims(record, name, row)
        table.append({"set": name, **row})
        record.table("density", table)
