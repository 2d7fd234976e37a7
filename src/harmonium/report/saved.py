"""``evaluation.json``: the numbers of ``harmonium evaluate`` in a run folder, which the report shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import __version__, files
from ..errors import HarmoniumError
from ..paths import check_file
from ..quality import SampleComparison
from ..shown import plain
from .evaluation import LikelihoodRow

NAME = "evaluation.json"
FORMAT = 1


@dataclass(frozen=True)
class Evaluation:
    """The measures of a machine after ``epoch`` epochs, on ``train`` training rows and ``test`` held-out rows.

    ``samples`` has the comparison of samples with data: the table of measures, the verdict, and how they were drawn.
    """

    epoch: int
    train: int
    test: int
    test_name: str
    measures: Sequence[LikelihoodRow]
    samples: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; numbers that are not finite are None."""
        values: dict[str, Any] = plain(
            {
                "format": FORMAT,
                "harmonium": __version__,
                "epoch": self.epoch,
                "rows": {"train": self.train, "test": self.test, "test_name": self.test_name},
                "measures": [asdict(row) for row in self.measures],
                "samples": self.samples,
            }
        )
        return values

    def save(self, folder: Path) -> Path:
        """Write the numbers into a run folder, atomically."""
        path = folder / NAME
        files.write_text(path, json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n")
        return path


def compared(found: SampleComparison, sweeps: int) -> dict[str, Any]:
    """Return the entry ``samples`` of an evaluation."""
    table = [row._asdict() for row in found.table()]
    return {"n": found.sample_rows, "sweeps": sweeps, "verdict": found.verdict, "table": table}


def read(folder: Path, epoch: int) -> Evaluation | None:
    """Read the numbers of a run folder; None if there are none, or if they are not those of the machine at ``epoch``.

    A damaged file counts as none.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> row = LikelihoodRow("log-likelihood, exact", "nats per row", -2.5)
    >>> path = Evaluation(3, 100, 0, "test", [row]).save(folder)
    >>> read(folder, 3).measures[0].train, read(folder, 4)
    (-2.5, None)
    """
    try:
        check_file(folder / NAME)
        found = json.loads((folder / NAME).read_text(encoding="utf-8"))
        rows = found["rows"]
        measures = [LikelihoodRow(**row) for row in found["measures"]]
        kept = Evaluation(found["epoch"], rows["train"], rows["test"], rows["test_name"], measures, found["samples"])
    except (OSError, KeyError, TypeError, ValueError, HarmoniumError):
        return None
    return kept if kept.epoch == epoch else None
