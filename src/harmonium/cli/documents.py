"""The command ``topics``: machines trained on documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import tasks
from ..errors import InvalidOption
from ..machines import RBM
from ..report import some_rows
from ..runs.setup import reopen
from . import output, show

_ROWS = 20_000  # documents that give the frequencies of the words


def topics_run(folder: Path, *, data: str | None = None, n: int = 10, out: Path | None = None) -> dict[str, Any]:
    """Print the words of each hidden unit; write them with their weights to a table (CSV)."""
    if out is not None:
        output.check_folder(out)
    setup = reopen(folder, data)
    words = setup.rows.words
    if words is None:
        raise InvalidOption(f"{folder}: expected a run on documents, found data without words, {setup.rows.title}")
    if not isinstance(setup.machine, RBM):
        raise InvalidOption(
            f"{folder}: expected a machine with one hidden layer, found a {type(setup.machine).__name__}"
        )
    documents = some_rows(setup.rows.train, setup.machine, _ROWS, seed=0)
    found = tasks.topics(setup.machine, words, min(n, len(words)), documents=documents)
    show.table(
        f"{folder}: words that become more probable when a hidden unit is active",
        ["unit", "activity", "words"],
        [[topic.unit, f"{topic.activity:.0%}", str(topic)] for topic in found],
        numbers=(0, 1),
    )
    if out is not None:
        rows = [
            [topic.unit, rank + 1, word, weight]
            for topic in found
            for rank, (word, weight) in enumerate(zip(topic.words, topic.weights, strict=True))
        ]
        output.write_table(out, ["unit", "rank", "word", "weight"], rows)
    return {
        "topics": [
            {"unit": topic.unit, "activity": topic.activity, "words": list(topic.words), "weights": list(topic.weights)}
            for topic in found
        ]
    }
