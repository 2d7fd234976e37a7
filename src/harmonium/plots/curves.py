"""Learning curves: one small plot for each recorded metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..errors import InvalidData
from . import style

#: title and unit of each metric of ``fit``
METRICS = {
    "pseudo_likelihood": ("Pseudo-log-likelihood", "nats per unit"),
    "reconstruction": ("Reconstruction error", "squared, per value"),
    "free_energy_gap": ("Free-energy gap", "nats, validation − training"),
    "weight_norm": ("Norm of the weights", "‖W‖"),
    "mixing_time": ("Mixing time", "sweeps"),
    "chain_drift": ("Drift of the chains", "standard errors"),
    "label_error": ("Label error", "fraction of rows"),
}
_NOT_DRAWN = ("epoch", "seconds", "samples_per_second")


def learning_curves(history: Sequence[dict[str, float]], *, figure: Figure | None = None) -> Figure:
    """Plot each metric against the epoch, two plots per row; ``history`` is that of :func:`harmonium.fit`."""
    names = drawn(history)
    if not names:
        raise InvalidData("learning curves: expected metrics of at least one epoch, found none")
    columns = min(2, len(names))
    lines = math.ceil(len(names) / columns)
    with style.look():
        figure = figure or style.new_figure((3.3 * columns, 2.3 * lines))
        grid = np.atleast_1d(figure.subplots(lines, columns, sharex=True)).ravel()
        for ax, name in zip(grid, names, strict=False):
            learning_curve(history, name, ax=ax)
        for ax in grid[len(names) :]:
            ax.set_visible(False)
    return figure


def likelihood_curve(
    minutes: Sequence[float],
    values: Sequence[float],
    *,
    references: Mapping[str, float],
    final: tuple[float, float] | None = None,
    title: str = "",
) -> Figure:
    """Plot the log-likelihood against the training time, with horizontal lines at the values of ``references``.

    ``final`` is the interval of a more accurate estimate of the last value, drawn as an error bar.
    """
    if not len(minutes) or len(minutes) != len(values):
        raise InvalidData(
            f"likelihood curve: expected equally many minutes and values, found {len(minutes)} and {len(values)}"
        )
    with style.look():
        ax = style.axes(None, (6.4, 3.6))
        for words, value in references.items():
            ax.axhline(value, color=style.FAINT, linewidth=0.8, zorder=0)
            ax.annotate(f"{value:.2f}  {words}", (0.01, value), xycoords=("axes fraction", "data"), ha="left",
                        va="bottom", fontsize=7, color=style.FAINT)  # fmt: skip
        ax.plot(minutes, values, color=style.ACCENT, marker="o", markersize=3.5, linewidth=1.6, label="during training")
        if final is not None:
            low, high = sorted(final)
            middle = (low + high) / 2
            ax.errorbar([minutes[-1]], [middle], [[middle - low], [high - middle]], color=style.SECOND, capsize=4,
                        marker="_", label=f"final, annealed in both directions: {low:.2f} to {high:.2f}")  # fmt: skip
            ax.legend(loc="lower right", fontsize=8)
        ax.set_xlabel("minutes of training")
        ax.set_ylabel("log-likelihood, nats")
        ax.set_title(title, loc="left")
    figure = ax.figure
    assert isinstance(figure, Figure)
    return figure


def learning_curve(history: Sequence[dict[str, float]], name: str, *, ax: Axes | None = None) -> Figure:
    """Plot one metric against the epoch; if there are many points, as a thin line with the running mean on top."""
    points = np.array([(row["epoch"], row[name]) for row in history if name in row], dtype=np.float64)
    if len(points) == 0:
        raise InvalidData(f"learning curve: expected a metric '{name}' in the history, found none")
    title, unit = described(name)
    with style.look():
        ax = style.axes(ax, (4.6, 2.8))
        epochs, values = points.T
        window = len(values) // 20
        many = window >= 3
        ax.plot(epochs, values, color=style.ACCENT, linewidth=0.8 if many else 1.6, alpha=0.35 if many else 1.0,
                marker="o" if len(values) == 1 else None, markersize=4)  # fmt: skip
        if many:
            ax.plot(epochs, running_mean(values, window), color=style.ACCENT, linewidth=1.8)
        if name.startswith("free_energy_gap"):
            ax.axhline(0, color=style.FAINT, linewidth=0.8, zorder=0)
        ax.set_title(title)
        ax.set(xlabel="epoch", ylabel=unit)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(5))
        ax.margins(x=0.01)
    return style.figure_of(ax)


def compared_curves(history: Mapping[str, Sequence[dict[str, float]]], name: str, *, ax: Axes | None = None) -> Figure:
    """Plot one metric of several runs against the epoch, one line for each run.

    Args:
        history: the history of each run, by its name.
        name: the metric, such as "reconstruction".
        ax: axes to draw on.

    >>> first, second = [{"epoch": 1, "reconstruction": 0.2}], [{"epoch": 1, "reconstruction": 0.1}]
    >>> len(compared_curves({"cd": first, "pcd": second}, "reconstruction").axes[0].lines)
    2
    """
    lines = {run: [(row["epoch"], row[name]) for row in rows if name in row] for run, rows in history.items()}
    if not any(lines.values()):
        raise InvalidData(f"compared curves: expected a metric '{name}' in a history, found none")
    title, unit = described(name)
    with style.look():
        ax = style.axes(ax, (4.6, 2.8))
        for run, points in lines.items():
            ax.plot(*zip(*points, strict=True), label=run, linewidth=1.5, marker="o" if len(points) == 1 else None)
        ax.legend(fontsize=8)
        ax.set_title(title)
        ax.set(xlabel="epoch", ylabel=unit)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return style.figure_of(ax)


def drawn(history: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the metrics in a history, the known ones first, for each machine of a stack."""
    present = list(dict.fromkeys(name for row in history for name in row if name not in _NOT_DRAWN))
    known = {base: [name for name in present if of_machine(name)[0] == base] for base in METRICS}
    listed = [name for names in known.values() for name in names]
    return listed + [name for name in present if name not in listed]


def drawable(history: Sequence[dict[str, Any]]) -> list[str]:
    """Return the metrics in a history with a finite value; a mixing time beyond the measured sweeps is infinite.

    >>> drawable([{"epoch": 1, "reconstruction": 0.1, "mixing_time": math.inf}])
    ['reconstruction']
    """
    return [name for name in drawn(history) if any(math.isfinite(row[name]) for row in history if name in row)]


def of_machine(name: str) -> tuple[str, int | None]:
    """Split the name of a metric of one machine of a stack into the name of the metric and the number of the machine.

    >>> of_machine("reconstruction_2"), of_machine("free_energy_gap")
    (('reconstruction', 2), ('free_energy_gap', None))
    """
    base, _, number = name.rpartition("_")
    return (base, int(number)) if base in METRICS and number.isdecimal() else (name, None)


def described(name: str) -> tuple[str, str]:
    """Return the title and the unit of a metric.

    >>> described("reconstruction_2")
    ('Reconstruction error, machine 2', 'squared, per value')
    """
    base, machine = of_machine(name)
    title, unit = METRICS.get(base, (name.replace("_", " "), ""))
    return title if machine is None else f"{title}, machine {machine}", unit


def running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Return the running mean over ``window`` values, fewer at the ends.

    >>> running_mean(np.array([0.0, 3.0, 6.0]), 3)
    array([1.5, 3. , 4.5])
    """
    kernel = np.ones(window)
    return np.convolve(values, kernel, "same") / np.convolve(np.ones_like(values), kernel, "same")
