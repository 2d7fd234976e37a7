"""Progress of training: a bar on a terminal, a line in a notebook, and otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

_SHORT = {
    "pseudo_likelihood": "pl/site",
    "reconstruction": "recon",
    "free_energy_gap": "ΔF",
    "weight_norm": "|W|",
    "samples_per_second": "rows/s",
}
_SECONDS = 10.0  # between the lines of a program whose output is not a terminal
_REFRESH = 0.2  # seconds between the updates of a notebook


class Display(Protocol):
    """What shows the progress."""

    def update(self, done: float, words: str) -> None:
        """Show ``done`` finished epochs and some words."""

    def close(self) -> None:
        """Stop."""


class ProgressBar:
    """Progress over the epochs with the latest metrics, shown as the output allows; a context manager."""

    def __init__(self, epochs: int, done: int, enabled: bool, console: Console | None = None) -> None:
        self._shown: Display | None = _display(epochs, done, console) if enabled else None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.close()

    def update(self, done: float, metrics: dict[str, float]) -> None:
        """Show ``done`` finished epochs and the metrics."""
        if self._shown is None:
            return
        words = [f"{_SHORT[key]} {value:.4g}" for key, value in metrics.items() if key in _SHORT]
        self._shown.update(done, "  ".join(words))


def _display(epochs: int, done: int, console: Console | None) -> Display | None:
    """Return the display for the present output."""
    if console is None and not sys.stderr.isatty():
        return Notebook(epochs) if in_notebook() else Lines(epochs)
    try:
        return Bar(epochs, done, console)
    except ModuleNotFoundError:
        return Lines(epochs)


def in_notebook() -> bool:
    """Return whether the program runs in a Jupyter notebook."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class Bar:
    """A progress bar of rich on a terminal."""

    def __init__(self, epochs: int, done: int, console: Console | None) -> None:
        from rich import console as consoles
        from rich import progress

        self._bar = progress.Progress(
            progress.TextColumn("epoch"),
            progress.MofNCompleteColumn(),
            progress.BarColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[metrics]}"),
            console=console or consoles.Console(stderr=True),
        )
        self._task = self._bar.add_task("train", total=epochs, completed=done, metrics="")
        self._bar.start()

    def update(self, done: float, words: str) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=done, metrics=words)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.stop()


class Notebook:
    """A line of a notebook cell with a bar, which is replaced at most five times per second."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self._last = epochs, 0.0
        self._handle: Any = None
        self._pending = ""

    def update(self, done: float, words: str) -> None:
        """Replace the line."""
        share = 100 * done / max(1, self.epochs)
        self._pending = (
            f'<progress max="100" value="{share:.1f}"></progress> epoch {done:.0f}/{self.epochs}&emsp;{words}'
        )
        if time.perf_counter() - self._last >= _REFRESH:
            self._show()

    def close(self) -> None:
        """Show the last state."""
        if self._pending:
            self._show()

    def _show(self) -> None:
        from IPython.display import HTML, display

        self._last, markup = time.perf_counter(), HTML(self._pending)
        if self._handle is None:
            self._handle = display(markup, display_id=True)
        else:
            self._handle.update(markup)
        self._pending = ""


class Lines:
    """A line on standard error every ten seconds, for the log of a long training; a short one prints nothing."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self._began = epochs, time.perf_counter()
        self._last = self._began

    def update(self, done: float, words: str) -> None:
        """Print a line if the last one is old enough."""
        now = time.perf_counter()
        if now - self._last >= _SECONDS:
            self._last = now
            print(f"epoch {done:.1f}/{self.epochs}, {now - self._began:.0f} s  {words}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Print nothing more."""
