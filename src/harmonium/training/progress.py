"""Progress of training: a bar of rich on a terminal and in a notebook, and otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
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
_SECONDS = 10.0  # between the lines of a program whose output is not a terminal; a short training prints none


class ProgressBar:
    """Progress over the epochs with the latest metrics; a context manager."""

    def __init__(self, epochs: int, done: int, enabled: bool, console: Console | None = None) -> None:
        self.epochs, self._enabled = epochs, enabled
        self._began = self._last = time.perf_counter()
        self._bar = _bar(console) if enabled and (console is not None or _can_draw()) else None
        self._task = (
            None if self._bar is None else self._bar.add_task("train", total=epochs, completed=done, metrics="")
        )

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: float, metrics: dict[str, float]) -> None:
        """Show ``done`` finished epochs and the metrics."""
        words = "  ".join(f"{_SHORT[key]} {value:.4g}" for key, value in metrics.items() if key in _SHORT)
        now = time.perf_counter()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, metrics=words)
        elif self._enabled and now - self._last >= _SECONDS:
            self._last = now
            print(f"epoch {done:.1f}/{self.epochs}, {now - self._began:.0f} s  {words}", file=sys.stderr, flush=True)


def _can_draw() -> bool:
    """Return whether the output is a terminal or a notebook in which rich can draw."""
    notebook = "ipykernel" in sys.modules and find_spec("ipywidgets") is not None
    return (notebook or sys.stderr.isatty()) and find_spec("rich") is not None


def _bar(console: Console | None) -> Any:
    from rich import console as consoles
    from rich import progress

    return progress.Progress(
        progress.TextColumn("epoch"),
        progress.MofNCompleteColumn(),
        progress.BarColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[metrics]}"),
        console=console or consoles.Console(stderr=True),
    )
