"""Compare runs: their numbers in a table, their learning curves in common plots, and their samples side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from .. import data, files, plots
from ..errors import HarmoniumError, InvalidOption
from ..machines import Machine, layout
from ..plots import tiling
from ..plots.curves import described, drawable, drawn
from ..plots.machine import is_ink, value_range
from ..runs import config as schema
from ..training import Run
from ..training.values import text_of
from . import figures, saved
from .page import render

_SAMPLES, _SWEEPS, _WIDE = 40, 200, 10
_SHOWN = ("pseudo_likelihood", "reconstruction", "free_energy_gap", "label_error", "mixing_time", "seconds")


@dataclass(frozen=True)
class ComparedRun:
    """A run of a comparison: its name, machine, configuration, metrics and saved evaluation."""

    name: str
    run: Run
    machine: Machine
    config: Mapping[str, Any]
    history: list[dict[str, float]]

    def numbers(self) -> dict[str, float | str]:
        """Return the numbers of the run: its size, the last metrics, and those of ``harmonium evaluate``."""
        last: dict[str, float] = {}
        for row in self.history:
            last |= row
        found: dict[str, float | str] = {
            "machine": " – ".join(f"{'×'.join(map(str, unit.shape))} {unit.name()}" for unit in self.machine.layers),
            "negative phase": _negative(self.config),
            "parameters": sum(p.numel() for p in self.machine.parameters()),
            "epochs": int(last.get("epoch", 0)),
        }
        found |= {described(name)[0]: last[name] for name in drawn([last]) if name in _SHOWN}
        if "seconds" in last:
            found["training time, s"] = last["seconds"]
        kept = saved.read(self.run.folder, int(last.get("epoch", 0)))
        if kept is not None:
            for part in kept.measures:
                if part.name.startswith("log-likelihood"):
                    both = ((f"{part.name}, train", part.train), (f"{part.name}, {kept.test_name}", part.test))
                    found |= {name: value for name, value in both if value is not None}
                    if "trustworthy" in part.note:
                        found[f"{part.name}, verdict"] = part.note.partition(": ")[2].partition(":")[0]
        return found


def load_runs(folders: Sequence[str | Path]) -> list[ComparedRun]:
    """Load the runs of a comparison; folders of the same name are named by their paths."""
    if len(folders) < 2:
        raise InvalidOption(f"compare: expected two or more run folders, found {len(folders)}")
    paths = [Path(folder) for folder in folders]
    short = [path.name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) < len(names):
        raise InvalidOption("compare: expected different run folders, found the same one twice")
    runs = [Run(path) for path in paths]
    configs = [run.read_config() for run in runs]
    return [
        ComparedRun(name, run, files.load(run.folder), config, run.read_metrics())
        for name, run, config in zip(names, runs, configs, strict=True)
    ]


def table(runs: Sequence[ComparedRun]) -> tuple[list[str], list[list[float | str | None]]]:
    """Return the names of the runs, and a line of the name and the values of each number that a run has."""
    found = [run.numbers() for run in runs]
    units = dict(described(name) for name in _SHOWN)
    lines = {name: f"{name}, {units[name]}" if units.get(name) else name for numbers in found for name in numbers}
    return [run.name for run in runs], [[words, *(part.get(name) for part in found)] for name, words in lines.items()]


def write(run_folders: Sequence[str | Path], target: str | Path) -> Path:
    """Write a page that compares runs, and return its path. The page is one self-contained file.

    Args:
        run_folders: two or more folders of runs.
        target: the HTML file to write.
    """
    runs = load_runs(run_folders)
    title = "Comparison of " + ", ".join(run.name for run in runs)
    names, lines = table(runs)
    page = render(
        "compare.html",
        title=title,
        columns=["", *names],
        rows=[[cell_text(cell) for cell in line] for line in lines],
        curves=_curves(runs),
        samples=_samples(runs),
        n=_SAMPLES,
        sweeps=_SWEEPS,
    )
    path = Path(target)
    files.write_text(path, page)
    return path


def cell_text(value: float | str | None) -> str:
    """Format a cell of the table.

    >>> cell_text(None), cell_text(1104), cell_text(-0.36123), cell_text("pcd:1")
    ('–', '1,104', '−0.3612', 'pcd:1')
    """
    if isinstance(value, str):
        return value
    if value is None:
        return "–"
    if value == math.inf:
        return "not reached"
    words = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    return words.replace("-", "−")


def _curves(runs: Sequence[ComparedRun]) -> list[tuple[str, Markup]]:
    """Return the title and the drawing of each metric."""
    names = dict.fromkeys(name for run in runs for name in drawable(run.history))
    parts = []
    for k, name in enumerate(names):
        histories = {run.name: run.history for run in runs if any(name in row for row in run.history)}
        title, unit = described(name)
        figure = plots.compared_curves(histories, name)
        figure.axes[0].set_title("", loc="left")
        parts.append((title, figures.svg(figure, f"curve-{k}", f"{title} of each run against the epoch, in {unit}")))
    return parts


def _samples(runs: Sequence[ComparedRun]) -> list[tuple[str, Markup | None, str]]:
    """Return the name of each run with a drawing of its samples, or with the reason why there is none."""
    parts: list[tuple[str, Markup | None, str]] = []
    known = ((run.machine.visible.size, picture_shape(run.config)) for run in runs)
    shapes = {size: image for size, image in known if image is not None}  # also for runs of hm.fit on the same data
    for k, run in enumerate(runs):
        try:
            drawn_states = run.machine.sample(_SAMPLES, sweeps=_SWEEPS, seed=0, check_mixing=False)
        except HarmoniumError as error:
            parts.append((run.name, None, str(error)))
            continue
        alt, image = f"{_SAMPLES} samples of {run.name}", shapes.get(run.machine.visible.size)
        if image is None:
            picture = figures.svg(plots.samples(run.machine, drawn_states), f"samples-{k}", alt)
        else:
            shown, pixels = tiling.pictures(drawn_states, image), run.machine.visible.parts[0]
            limits = value_range(pixels, shown)
            picture = figures.png(plots.mosaic(shown, columns=_WIDE, limits=limits, ink=is_ink(pixels)), alt)
        parts.append((run.name, picture, ""))
    return parts


def picture_shape(config: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Return the image shape (channels, height, width) of the rows of a run, if its configuration names it.

    >>> picture_shape({"data": {"source": "digits"}}), picture_shape({"data": {"source": "x.npy", "image": "2x3"}})
    ((1, 8, 8), (1, 2, 3))
    """
    table = config.get("data")
    if not isinstance(table, Mapping):
        return None
    source, image = str(table.get("source", "")), table.get("image")
    if image is not None:
        sizes = layout.parse_shape(str(image))
        return (1, *sizes) if len(sizes) == 2 else sizes  # type: ignore[return-value]
    if not source or schema.is_path(source):
        return None
    info = data.info(source)
    return info.shape if info.is_image else None  # type: ignore[return-value]


def _negative(config: Mapping[str, Any]) -> str:
    """Return the negative phase of a run as text."""
    training = config.get("training")
    table = training.get("negative") if isinstance(training, Mapping) else None
    return "–" if table is None else text_of("negative", table)
