"""Curves by the number of hidden units, one for each activation function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from harmonium.plots import style

from .counting import ACTIVATIONS

COLORS = dict(zip(ACTIVATIONS, (style.ACCENT, style.SECOND, "#4f8f4a", "#8a5aa8"), strict=True))


def curves_by_size(ax: Axes, sizes: Sequence[int], curves: Mapping[str, Sequence[float]]) -> None:
    """A line for each activation function, a point for each of the ``sizes``."""
    for activation, values in curves.items():
        ax.plot(sizes, values, "o-", color=COLORS[activation], markersize=4, linewidth=1.2, label=activation)
    ax.set_xlabel("hidden units M")
