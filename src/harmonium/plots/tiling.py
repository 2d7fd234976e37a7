"""Grids of small images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..errors import InvalidData
from . import style

_GAP = (150, 158, 168, 110)  # RGBA of the space between tiles


def mosaic(
    images: Any,
    *,
    columns: int | None = None,
    limits: tuple[float, float] | None = None,
    ink: bool = True,
    tile: int = 48,
    gap: int = 3,
) -> np.ndarray:
    """Arrange images (n, height, width) or (n, channels, height, width) in a grid (height, width, 4) of RGBA bytes.

    Each pixel is enlarged by a whole number, so that nothing is blurred. The gaps are a faint gray, visible on light
    and dark pages. Gray values are scaled from ``limits`` to black and white: larger values are darker with ``ink``,
    brighter without. Three channels are red, green and blue.

    >>> mosaic(np.ones((6, 8, 8)), columns=3, tile=8, gap=1).shape
    (17, 26, 4)
    """
    pictures = _pictures(images)
    low, high = (float(pictures.min()), float(pictures.max())) if limits is None else limits
    level = np.clip((pictures - low) / ((high - low) or 1.0), 0.0, 1.0)
    rgb = np.repeat(1 - level if ink else level, 3, axis=1) if pictures.shape[1] == 1 else level
    return _grid(rgb, columns, tile, gap)


def diverging(
    images: Any, *, columns: int | None = None, limit: float | None = None, tile: int = 48, gap: int = 3
) -> np.ndarray:
    """Arrange signed images in a grid: white is zero, blue and red are ∓ ``limit`` (by default the largest magnitude).

    Three channels are shown as colors around mid-gray.
    """
    pictures = _pictures(images)
    limit = (float(np.abs(pictures).max()) or 1.0) if limit is None else limit
    level = np.clip(pictures / (2 * limit) + 0.5, 0.0, 1.0)
    if pictures.shape[1] == 1:
        level = matplotlib.colormaps[style.DIVERGING](level[:, 0])[..., :3].transpose(0, 3, 1, 2)
    return _grid(level, columns, tile, gap)


def tiles(
    images: Any,
    *,
    columns: int | None = None,
    limits: tuple[float, float] | None = None,
    ink: bool = True,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Show images (n, height, width) or (n, channels, height, width) as tiles with thin gaps; see :func:`mosaic`."""
    return show(mosaic(images, columns=columns, limits=limits, ink=ink), title, ax)


def pictures(rows: Any, image: tuple[int, int, int]) -> np.ndarray:
    """Return the rows (n, …) as images (n, *image). Entries after the image, such as those of a label, are left out.

    >>> pictures(np.ones((5, 74)), (1, 8, 8)).shape
    (5, 1, 8, 8)
    """
    flat = style.as_array(rows).reshape(len(rows), -1)
    return flat[:, : math.prod(image)].reshape(-1, *image)


def show(
    picture: np.ndarray,
    title: str | None,
    ax: Axes | None,
    labels: Sequence[object] = (),
    columns: int | None = None,
) -> Figure:
    """Show an image on axes without ticks, with a label in the upper left corner of each tile of a grid."""
    with style.look():
        height = max(0.6, 6.3 * picture.shape[0] / picture.shape[1])
        ax = style.axes(ax, (6.3, height + (0.3 if title else 0.0)))
        ax.imshow(picture, interpolation="nearest")
        across = _across(len(labels), columns) if labels else 1
        down = math.ceil(len(labels) / across)
        for k, label in enumerate(labels):
            row, column = divmod(k, across)
            corner = (column / across * picture.shape[1] + 1, row / down * picture.shape[0] + 1)
            ax.annotate(str(label), corner, va="top", ha="left", fontsize=6)
        return style.bare(ax, title)


def _pictures(images: Any) -> np.ndarray:
    array = style.as_array(images)
    array = array[:, None] if array.ndim == 3 else array
    if array.ndim != 4 or array.shape[1] not in (1, 3) or len(array) == 0:
        raise InvalidData(
            "images: expected shape (n, height, width) or (n, 1 or 3 channels, height, width), "
            f"found {np.shape(images)}"
        )
    return array


def _grid(rgb: np.ndarray, columns: int | None, tile: int, gap: int) -> np.ndarray:
    n, _, height, width = rgb.shape
    columns = _across(n, columns)
    rows = math.ceil(n / columns)
    zoom = max(1, round(tile / max(height, width)))
    step_y, step_x = height * zoom + gap, width * zoom + gap
    out = np.empty((rows * step_y - gap, columns * step_x - gap, 4), dtype=np.uint8)
    out[...] = _GAP
    large = (rgb * 255 + 0.5).astype(np.uint8).transpose(0, 2, 3, 1).repeat(zoom, 1).repeat(zoom, 2)
    for k, picture in enumerate(large):
        y, x = (k // columns) * step_y, (k % columns) * step_x
        out[y : y + height * zoom, x : x + width * zoom, :3] = picture
        out[y : y + height * zoom, x : x + width * zoom, 3] = 255
    return out


def _across(n: int, columns: int | None) -> int:
    """The number of tiles side by side."""
    return min(n, columns or math.ceil(math.sqrt(n * 1.6)))
