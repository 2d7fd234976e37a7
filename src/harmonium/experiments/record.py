"""What an experiment leaves behind: figures, tables, and a verdict on every claim."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__, files
from ..errors import RunError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Claim:
    """One sentence that can be true or false. ``holds`` is ``None`` where it could not be decided at this scale."""

    claimed: str
    measured: str
    holds: bool | None


class Record:
    """Collects what an experiment finds and writes it into ``folder`` as it comes."""

    def __init__(self, name: str, scale: str, folder: Path) -> None:
        self.name, self.scale, self.folder = name, scale, folder
        self.claims: list[Claim] = []
        self.numbers: dict[str, Any] = {}
        if (folder / "verdict.json").exists():
            raise RunError(f"{folder}: holds a finished experiment already; choose another folder")
        self._made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)

    def say(self, line: str) -> None:
        """Tell the reader where the experiment is."""
        print(line, flush=True)

    def claim(self, claimed: str, measured: str, holds: bool | None) -> None:
        """Set what was claimed beside what was measured."""
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

    def abandon(self) -> None:
        """Take the folder away again, if it was made for this and nothing was written."""
        if self._made and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def close(self) -> None:
        """Write ``verdict.json``: the claims, and numbers that belong to no table."""
        verdict = {
            "experiment": self.name,
            "scale": self.scale,
            "harmonium": __version__,
            "claims": [asdict(claim) for claim in self.claims],
            "numbers": self.numbers,
        }
        files.write_text(self.folder / "verdict.json", json.dumps(verdict, indent=1, ensure_ascii=False) + "\n")
