"""The look of all pictures: few lines, quiet colors, readable at the width of a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#3b4048"  # text and axes; a page may put its own color in the place of it
FAINT = "#a3a8b0"
ACCENT = "#2f7ab8"
SECOND = "#d9722e"
SEQUENTIAL, DIVERGING = "Greys", "RdBu_r"

_SETTINGS: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "axes.grid": False,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}


@contextmanager
def look() -> Iterator[None]:
    """The settings for the time of drawing."""
    with matplotlib.rc_context(cast("Any", _SETTINGS)):
        yield


def axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The given axes, or those of a new figure of ``size`` (inches)."""
    if ax is not None:
        return ax
    return Figure(figsize=size, layout="constrained").subplots()


def figure_of(ax: Axes) -> Figure:
    """The figure that the axes belong to."""
    found = ax.get_figure(root=True) if hasattr(ax.figure, "get_figure") else ax.figure
    assert isinstance(found, Figure)
    return found


def as_array(values: Any) -> np.ndarray:
    """Tensors of any device, lists and arrays as float arrays."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def heat_map(ax: Axes, values: np.ndarray, limits: tuple[float, float], label: str, colors: str) -> None:
    """A matrix as colors, with a bar that says what they mean."""
    shown = ax.imshow(values, aspect="auto", interpolation="nearest", cmap=colors, vmin=limits[0], vmax=limits[1])
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = figure_of(ax).colorbar(shown, ax=ax, shrink=0.85, pad=0.02, aspect=25)
    bar.set_label(label)
    bar.outline.set_visible(False)
