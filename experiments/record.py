"""The results of an experiment: figures, tables, and a verdict on every claim."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harmonium import __version__, files
from harmonium.errors import RunError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Claim:
    """One sentence that can be true or false. ``holds`` is ``None`` if the claim is open."""

    claimed: str
    measured: str
    holds: bool | None


class Record:
    """Collects the results of an experiment and writes them to ``folder`` as they come."""

    def __init__(self, name: str, scale: str, folder: Path) -> None:
        self.name, self.scale, self.folder = name, scale, folder
        self.claims: list[Claim] = []
        self.numbers: dict[str, Any] = {}
        if (folder / "verdict.json").exists():
            raise RunError(f"{folder}: contains a finished experiment; choose another folder")
        folder.mkdir(parents=True, exist_ok=True)

    def say(self, line: str) -> None:
        """Print a line about the progress of the experiment."""
        print(line, flush=True)

    def claim(self, claimed: str, measured: str, holds: bool | None) -> None:
        """Add a claim with what was measured and the verdict."""
        self.claims.append(Claim(claimed, measured, None if holds is None else bool(holds)))

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write ``NAME.csv``; columns in the order in which they first appear."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        files.write_text(self.folder / f"{name}.csv", text.getvalue())

    def figure(self, name: str, figure: Figure) -> None:
        """Write ``NAME.png``."""
        files.write_figure(self.folder / f"{name}.png", figure)

    def close(self) -> None:
        """Write ``verdict.json``: the claims, and the numbers that are in no table."""
        verdict = {
            "experiment": self.name,
            "scale": self.scale,
            "harmonium": __version__,
            "claims": [asdict(claim) for claim in self.claims],
            "numbers": self.numbers,
        }
        files.write_text(self.folder / "verdict.json", json.dumps(verdict, indent=1, ensure_ascii=False) + "\n")
