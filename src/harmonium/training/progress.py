"""The live progress bar. It says nothing when the output is not a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

_SHORT = {
    "pseudo_likelihood": "pl/site",
    "reconstruction": "recon",
    "free_energy_gap": "ΔF",
    "weight_norm": "|W|",
    "samples_per_second": "rows/s",
}


class ProgressBar:
    """A bar over the epochs with the last metrics beside it; used as a context manager."""

    def __init__(self, epochs: int, done: int, enabled: bool, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._bar: Any = None
        if enabled and console.is_terminal:
            self._bar = RichProgress(
                TextColumn("epoch"),
                MofNCompleteColumn(),
                BarColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[metrics]}"),
                console=console,
            )
            self._task = self._bar.add_task("train", total=epochs, completed=done, metrics="")

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: float, metrics: dict[str, float]) -> None:
        """Show that ``done`` epochs are over."""
        if self._bar is None:
            return
        shown = [f"{_SHORT[key]} {value:.4g}" for key, value in metrics.items() if key in _SHORT]
        self._bar.update(self._task, completed=done, metrics="  ".join(shown))
