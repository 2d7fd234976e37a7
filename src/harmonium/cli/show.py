"""Printed output: formatted tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from ..machines import RBM, Machine
from ..shown import plain
from ..training import Callback, Progress
from .streams import printable


def facts(title: str, rows: Mapping[str, Any], console: Console | None = None) -> None:
    """Print names and values, one per line."""
    console = console or Console()
    if not console.is_terminal:
        print(title)
        for name, value in rows.items():
            print(printable(f"  {name}: {value}"))
        return
    grid = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows.items():
        grid.add_row(_escaped(name), _escaped(value))
    console.print(grid)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[int] = ()) -> None:
    """Print a table; the columns ``numbers`` are right-aligned."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    grid = Table(box=None, padding=(0, 2, 0, 0))
    for k, column in enumerate(columns):
        name = _escaped(column)
        grid.add_column(name, justify="right" if k in numbers else "left", overflow="fold", header_style="cyan")
    for row in rows:
        grid.add_row(*(_escaped(cell) for cell in row))
    console.print(_escaped(title), style="bold", highlight=False)  # as title of the table it would be wrapped
    console.print(grid)


def json_object(value: Any) -> None:
    """Print plain values as one line of JSON; numbers that are not finite are null."""
    print(json.dumps(plain(value), ensure_ascii=False))


def answer(as_json: bool, run: Callable[..., Any], /, *arguments: Any, **options: Any) -> None:
    """Run a command that prints its result and returns its numbers; with ``as_json``, print only the numbers.

    If the command fails, what it has printed until then goes to standard error, so that no result is lost.
    """
    if not as_json:
        run(*arguments, **options)
        return
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            found = run(*arguments, **options)
    except Exception:
        sys.stderr.write(printed.getvalue())
        raise
    json_object(found)


def number(value: float | None, digits: int = 4) -> str:
    """Format a number for reading; a dash stands for None.

    >>> number(1234567.0), number(0.0123461), number(None)
    ('1,234,567', '0.01235', '–')
    """
    if value is None or not math.isfinite(value):
        return "–" if value is None else str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.1f}"


#: units of the metrics of training
_UNITS = {
    "pseudo_likelihood": "nats per unit",
    "reconstruction": "squared error per value",
    "free_energy_gap": "nats, validation minus training rows",
    "label_error": "of the validation rows",
    "mixing_time": "sweeps",
    "chain_drift": "standard errors (above 5: out of equilibrium)",
}


def metrics(last: Mapping[str, float], longest: int) -> dict[str, str]:
    """Describe the metrics of an epoch for reading, with their units; ``longest`` is the longest mixing time measured.

    >>> metrics({"epoch": 3, "seconds": 2.0, "reconstruction_1": 0.12345, "mixing_time": float("inf")}, 500)
    {'epoch': '3', 'updates': '2.0 s', 'reconstruction 1': '0.1235 squared error per value',
    'mixing time': 'more than 500 sweeps'}
    """
    rows = {}
    for name, value in last.items():
        words = number(value) if math.isfinite(value) or name != "mixing_time" else f"more than {longest}"
        rows[name.replace("_", " ")] = f"{words} {_UNITS.get(name.rstrip('_0123456789'), '')}".strip()
    if "seconds" in last:
        speed = f", {last['samples_per_second']:,.0f} rows per second" if "samples_per_second" in last else ""
        rows = {("updates" if name == "seconds" else name): words for name, words in rows.items()}
        rows["updates"] = duration(last["seconds"]) + speed
        rows.pop("samples per second", None)
    return rows


def duration(seconds: float) -> str:
    """Format a duration in seconds for reading.

    >>> duration(42.3), duration(3700)
    ('42.3 s', '1 h 02 min')
    """
    if seconds < 90 or not math.isfinite(seconds):
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


class Announcement(Callback):
    """Callback that runs a function when training starts for the first time, after all checks have passed."""

    def __init__(self, say: Callable[[], None]) -> None:
        self.say, self.said = say, False

    def on_start(self, progress: Progress) -> None:
        if not self.said:
            self.say()
        self.said = True


class Stages(Callback):
    """Callback that prints which layers of a deep machine are trained, at the start of every stage."""

    pretraining = True

    def on_start(self, progress: Progress) -> None:
        if progress.epoch < progress.epochs:
            stage = "pretraining" if isinstance(progress.machine, RBM) else "training"
            print(f"{stage} of {layers(progress.machine)}", flush=True)


def layers(machine: Machine) -> str:
    """Return the kind of a machine and its layers.

    >>> import harmonium as hm
    >>> layers(hm.RBM(hm.units.Bernoulli(6), hm.units.Spin((2, 3))))
    'RBM bernoulli:6 – spin:2x3'
    """
    units = " – ".join(f"{unit.name()}:{'x'.join(map(str, unit.shape))}" for unit in machine.layers)
    return f"{type(machine).__name__} {units}"


def _escaped(value: Any) -> str:
    from rich.markup import escape

    return escape(printable(value))
