"""Progress bar, shown if the output is a terminal and rich is installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_SHORT = {
    "pseudo_likelihood": "pl/site",
    "reconstruction": "recon",
    "free_energy_gap": "ΔF",
    "weight_norm": "|W|",
    "samples_per_second": "rows/s",
}


class ProgressBar:
    """Progress bar over the epochs with the latest metrics; a context manager."""

    def __init__(self, epochs: int, done: int, enabled: bool, console: Console | None = None) -> None:
        self._bar: Any = _bar(console) if enabled else None
        if self._bar is not None:
            self._task = self._bar.add_task("train", total=epochs, completed=done, metrics="")

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: float, metrics: dict[str, float]) -> None:
        """Show ``done`` finished epochs and the metrics."""
        if self._bar is None:
            return
        shown = [f"{_SHORT[key]} {value:.4g}" for key, value in metrics.items() if key in _SHORT]
        self._bar.update(self._task, completed=done, metrics="  ".join(shown))


def _bar(console: Console | None) -> Any:
    """Return a rich progress bar; None without a terminal or without rich."""
    if console is None and not sys.stderr.isatty():
        return None  # without loading rich
    try:
        from rich import console as consoles
        from rich import progress
    except ModuleNotFoundError:
        return None
    console = console or consoles.Console(stderr=True)
    if not console.is_terminal:
        return None
    return progress.Progress(
        progress.TextColumn("epoch"),
        progress.MofNCompleteColumn(),
        progress.BarColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[metrics]}"),
        console=console,
    )
