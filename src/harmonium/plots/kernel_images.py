"""Kernels of convolutional couplings as small images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..couplings import Coupling
from ..errors import InvalidOption
from . import style, tiling


@dataclass(frozen=True)
class Tiles:
    """Kernels as images (n, 1 or 3, height, width), the number of columns (None: any) and the color limit."""

    images: np.ndarray
    columns: int | None
    limit: float

    def picture(self, columns: int | None = None) -> np.ndarray:
        """Arrange the kernels in a grid of RGBA bytes, on one scale symmetric about zero."""
        return tiling.diverging(self.images, columns=self.columns or columns, limit=self.limit)


def kernel_tiles(coupling: Coupling, n: int = 100) -> Tiles | None:
    """Return the kernels of the ``n`` feature maps with the largest norms; None if the coupling has no kernels.

    One or three lower channels give one image for each map, in gray or color. Otherwise each line has the kernels of
    one map, one for each lower channel.
    """
    found = coupling.kernels()
    if found is None:
        return None
    weights = style.as_array(found)
    maps, channels, *size = weights.shape
    order = np.argsort(-np.linalg.norm(weights.reshape(maps, -1), axis=1), kind="stable")[:n]
    chosen = weights[order]
    # the same limit as for receptive fields: a single large weight does not wash out the others
    limit = float(np.quantile(np.abs(chosen), 0.998)) or 1.0
    if channels in (1, 3):
        return Tiles(chosen, None, limit)
    lines = max(1, n // channels)
    return Tiles(chosen[:lines].reshape(-1, 1, *size), channels, limit)


def kernels(
    coupling: Coupling,
    *,
    n: int = 100,
    columns: int | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Show the kernels of a convolutional coupling, those with the largest norms first.

    Kernels of three lower channels are shown in color around mid-gray. With other numbers of channels, a line shows
    the kernels of one feature map, one for each lower channel.
    """
    tiles = kernel_tiles(coupling, n)
    if tiles is None:
        raise InvalidOption(f"kernels: expected a convolutional coupling, found {type(coupling).__name__}")
    return tiling.show(tiles.picture(columns), title, ax)
