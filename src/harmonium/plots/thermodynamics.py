"""The phases of a random machine with one mode, over its noise and the strength of the mode."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from ..replicas.phases import PhaseDiagram
from . import style

PHASES = {"paramagnetic": "#f3f1ec", "ferromagnetic": "#a9cbe4", "mixed": "#e9c7a8", "spin glass": "#d98f6a"}


def phase_diagram(diagram: PhaseDiagram, *, ax: Axes | None = None) -> Figure:
    """The phases over the coupling w/σ and the temperature 1/σ, named where they are.

    The lines are exact for all components: the paramagnet gives way to the mode at w = 1, to the spin glass at σ = 1.
    """
    names = list(PHASES)
    number = np.array([[names.index(name) for name in row] for row in diagram.phases])
    across, up = style.as_array(diagram.couplings), style.as_array(diagram.temperatures)
    with style.look():
        ax = style.axes(ax, (4.6, 3.8))
        colors = ListedColormap(list(PHASES.values()))
        ax.pcolormesh(across, up, number, cmap=colors, vmin=-0.5, vmax=len(names) - 0.5, shading="nearest")
        limits = ax.get_xlim(), ax.get_ylim()
        most = max(across[-1], up[-1]) + 1
        ax.plot([1, most], [1, most], color=style.INK, linewidth=0.9)
        ax.plot([0, 1], [1, 1], color=style.INK, linewidth=0.9)
        ax.set_xlim(limits[0])
        ax.set_ylim(limits[1])
        for k, name in enumerate(names):
            place = _inside(number == k)
            if place is not None:
                ax.annotate(name, (across[place[1]], up[place[0]]), ha="center", va="center", fontsize=9)
        ax.set_xlabel("w / σ")
        ax.set_ylabel("1 / σ")
        ax.set_title(f"Phases of one {diagram.components} mode, κ = {diagram.kappa:g}")
    return style.figure_of(ax)


def _inside(region: np.ndarray) -> tuple[int, int] | None:
    """The cell of the region that is farthest from all others: (row, column), or none for an empty region."""
    if not region.any():
        return None
    rows, columns = np.nonzero(region)
    outside = np.pad(~region, 1, constant_values=True)
    away = np.argwhere(outside) - 1
    cells = np.stack([rows, columns], 1)
    depth = ((cells[:, None] - away[None]) ** 2 / np.array([1.0, 3.0])).sum(-1).min(1)  # a name is wider than high
    row, column = cells[depth.argmax()]
    return int(row), int(column)
