"""The command ``compare``: runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import output, show
from .steps import step


def compare_runs(folders: Sequence[Path], *, out: Path) -> dict[str, Any]:
    """Print a table of the numbers of several runs, and write a page with their curves and samples."""
    from ..report import side_by_side

    output.check_folder(out)
    runs = side_by_side.load_runs(folders)
    names, lines = side_by_side.table(runs)
    with step("samples and curves"):
        path = side_by_side.write(folders, out)
    cells = [[side_by_side.cell_text(cell) for cell in line] for line in lines]
    show.table("runs", ["", *names], cells, numbers=range(1, len(names) + 1))
    print(path)
    return {run.name: {"folder": str(run.run.folder), **run.numbers()} for run in runs}
