"""Phase diagram of a random machine with one mode, by noise and by strength of the mode."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from ..replicas.phases import PhaseDiagram
from . import style

PHASES = {"paramagnetic": "#f3f1ec", "ferromagnetic": "#a9cbe4", "mixed": "#e9c7a8", "spin glass": "#d98f6a"}


def phase_diagram(diagram: PhaseDiagram, *, ax: Axes | None = None) -> Figure:
    """Draw the phases against the coupling w/σ and the temperature 1/σ, with their names.

    The lines are exact for all distributions of components: the paramagnetic phase ends at w = 1 (ferromagnetic
    phase) and at σ = 1 (spin glass).
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
    """Return the cell (row, column) of the region that is farthest from its boundary, or None for an empty region."""
    if not region.any():
        return None
    rows, columns = np.nonzero(region)
    outside = np.pad(~region, 1, constant_values=True)
    away = np.argwhere(outside) - 1
    cells = np.stack([rows, columns], 1)
    depth = ((cells[:, None] - away[None]) ** 2 / np.array([1.0, 3.0])).sum(-1).min(1)  # names are wide
    row, column = cells[depth.argmax()]
    return int(row), int(column)
