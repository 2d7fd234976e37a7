"""Common style of all plots."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#3b4048"  # text and axes; the report replaces it by the text color of the page
FAINT = "#a3a8b0"
ACCENT = "#2f7ab8"
SECOND = "#d9722e"
#: colors of lines and dots, different for readers with red-green blindness too (a test simulates it)
COLORS = (ACCENT, SECOND, "#009e73", "#cc79a7", "#2f3a4a")
SEQUENTIAL, DIVERGING = "Greys", "RdBu_r"
#: publishers want TrueType fonts in PDF files, and text that can be edited
FILE_SETTINGS: dict[str, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}

_SETTINGS: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.titley": 1.0,  # else every drawing measures all tick labels to place it
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


class PlotFigure(Figure):
    """A figure that is saved with TrueType fonts and shown in notebooks, without ``pyplot``."""

    def savefig(self, fname: Any, **kwargs: Any) -> None:
        """Save the figure as :meth:`matplotlib.figure.Figure.savefig`, with TrueType fonts."""
        with matplotlib.rc_context(cast("Any", FILE_SETTINGS)):
            super().savefig(fname, **kwargs)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


@contextmanager
def look() -> Iterator[None]:
    """Apply the style to everything drawn in this context."""
    with matplotlib.rc_context(cast("Any", _SETTINGS)):
        yield


def new_figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure of ``size`` (inches) whose parts do not overlap."""
    return PlotFigure(figsize=size, layout="constrained")


def axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the given axes, or those of a new figure of ``size`` (inches)."""
    if ax is not None:
        return ax
    return new_figure(size).subplots()


def bare(ax: Axes, title: str | None) -> Figure:
    """Remove ticks and frame, set the title, and return the figure."""
    ax.set_axis_off()
    return titled(ax, title)


def titled(ax: Axes, title: str | None) -> Figure:
    """Set the title, if there is one, and return the figure."""
    if title:
        ax.set_title(title)
    return figure_of(ax)


def figure_of(ax: Axes) -> Figure:
    """Return the figure that contains the axes."""
    found = ax.get_figure(root=True) if hasattr(ax.figure, "get_figure") else ax.figure
    assert isinstance(found, Figure)
    return found


def as_array(values: Any) -> np.ndarray:
    """Convert a tensor on any device, a list or an array to a float64 array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def heat_map(ax: Axes, values: np.ndarray, limits: tuple[float, float], label: str, colors: str) -> None:
    """Draw a matrix as a heat map with a labeled color bar."""
    shown = ax.imshow(values, aspect="auto", interpolation="nearest", cmap=colors, vmin=limits[0], vmax=limits[1])
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = figure_of(ax).colorbar(shown, ax=ax, shrink=0.85, pad=0.02, aspect=25)
    bar.set_label(label)
    bar.outline.set_visible(False)
