"""Figures for publication: in the width of a column, with TrueType fonts."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from ..errors import InvalidOption
from ..files import atomic
from . import style

#: widths in inches: 89 mm and 183 mm, as most journals have
COLUMNS = {"single": 3.5, "double": 7.2}
FORMATS = ("pdf", "svg", "eps", "png", "tif")
_SMALLEST_FONT = 6.0  # points; journals want no smaller text


def save_figure(
    figure: Figure, path: str | os.PathLike[str], *, width: str | float | None = None, dpi: int = 300
) -> Path:
    """Save a figure for publication, as PDF, SVG, EPS, PNG or TIFF by the suffix of ``path``.

    Fonts are TrueType in PDF and EPS, and text in SVG. The file is written atomically, and ``figure`` is unchanged.

    Args:
        figure: any figure of ``hm.plots`` or of matplotlib.
        path: name of the file.
        width: "single" (89 mm) or "double" (183 mm) for the width of a column, or inches; by default the width of the
            figure. Height, text and lines are scaled in proportion, but text is never below 6 points.
        dpi: resolution of PNG and TIFF, and of parts of other formats that are images.

    Returns:
        The path of the file.

    Example:
        >>> import tempfile, torch
        >>> from harmonium import plots
        >>> figure = plots.tiles(torch.rand(6, 8, 8))
        >>> save_figure(figure, tempfile.mkdtemp() + "/figure.pdf", width="single").name
        'figure.pdf'
    """
    target = Path(path)
    kind = target.suffix.lower().lstrip(".").replace("tiff", "tif")
    if kind not in FORMATS:
        raise InvalidOption(f"path: expected a suffix .{', .'.join(FORMATS)}, found '{target.name}'")
    inches = _inches(figure, width)
    settings = matplotlib.rc_context(cast("Any", style.FILE_SETTINGS))
    with settings, _scaled(figure, inches), atomic(target) as temporary:
        figure.savefig(temporary, format=kind, dpi=dpi)
    return target


def _inches(figure: Figure, width: str | float | None) -> float:
    if width is None:
        return float(figure.get_figwidth())
    inches = COLUMNS.get(width) if isinstance(width, str) else float(width)
    if inches is None or not 0.5 <= inches <= 100 or not math.isfinite(inches):
        raise InvalidOption(f"width: expected 'single', 'double' or from 0.5 to 100 inches, found {width!r}")
    return inches


@contextmanager
def _scaled(figure: Figure, inches: float) -> Iterator[None]:
    """Scale a figure, its text and its lines to a width; undone at the end."""
    across, down = (float(size) for size in figure.get_size_inches())
    factor = inches / across
    if abs(factor - 1) < 1e-6:
        yield
        return

    def font(size: float) -> float:
        return max(min(size, _SMALLEST_FONT), size * factor)

    figure.draw_without_rendering()  # so that all ticks and their labels exist
    texts = [(part, part.get_fontsize()) for part in _found(figure, Text)]
    lines = [(part, part.get_linewidth(), part.get_markersize()) for part in _found(figure, Line2D)]
    ticks = [(axis, _label_size(axis)) for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    try:
        figure.set_size_inches(inches, down * factor)
        for axis, size in ticks:  # also for ticks that are made when the figure is drawn
            axis.set_tick_params(which="both", labelsize=font(size))
        for text, size in texts:
            text.set_fontsize(font(size))
        for line, thickness, marker in lines:
            line.set_linewidth(thickness * factor)
            line.set_markersize(marker * factor)
        yield
    finally:
        figure.set_size_inches(across, down)
        for axis, size in ticks:
            axis.set_tick_params(which="both", labelsize=size)
        for text, size in texts:
            text.set_fontsize(size)
        for line, thickness, marker in lines:
            line.set_linewidth(thickness)
            line.set_markersize(marker)


def _found(figure: Figure, kind: type) -> list[Any]:
    return cast("list[Any]", figure.findobj(kind))


def _label_size(axis: Any) -> float:
    labels = axis.get_ticklabels()
    return float(labels[0].get_fontsize() if labels else axis.label.get_fontsize())
