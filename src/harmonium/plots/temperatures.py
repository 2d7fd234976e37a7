"""Plots of a machine at several temperatures: energy, specific heat and overlaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..errors import InvalidData
from ..sampling import TemperatureSweep
from . import style


def temperature_sweep(sweep: TemperatureSweep, *, figure: Figure | None = None) -> Figure:
    """Plot the mean energy and the specific heat against the inverse temperature, with standard errors."""
    betas = style.as_array(sweep.betas)
    with style.look():
        figure = figure or style.new_figure((6.6, 2.6))
        left, right = figure.subplots(1, 2)
        for ax, values, errors, label in (
            (left, sweep.energy, sweep.energy_error, "mean energy, nats"),
            (right, sweep.specific_heat, sweep.specific_heat_error, "specific heat"),
        ):
            ax.errorbar(betas, style.as_array(values), style.as_array(errors), color=style.ACCENT, marker="o",
                        markersize=3.5, linewidth=1.2, capsize=2)  # fmt: skip
            ax.axvline(1.0, color=style.FAINT, linewidth=0.8, zorder=0)
            ax.set(xlabel="inverse temperature β", ylabel=label)
    return figure


def overlap_histogram(overlaps: Mapping[str, Any] | Any, *, bins: int = 60, ax: Axes | None = None) -> Figure:
    """Plot the distribution of overlaps (n,), or of several sets of them by name."""
    sets = overlaps if isinstance(overlaps, Mapping) else {"": overlaps}
    arrays = {name: style.as_array(values).ravel() for name, values in sets.items()}
    if not arrays or any(len(values) == 0 for values in arrays.values()):
        raise InvalidData("overlaps: expected at least one overlap in each set, found none")
    joined = np.concatenate(list(arrays.values()))
    edges = np.histogram_bin_edges(joined, bins=bins)
    with style.look():
        ax = style.axes(ax, (4.6, 2.8))
        for k, (name, values) in enumerate(arrays.items()):
            ax.hist(values, bins=edges.tolist(), density=True, histtype="step", linewidth=1.5,
                    color=style.COLORS[k % len(style.COLORS)], label=str(name) or None)  # fmt: skip
        ax.set(xlabel="overlap q", ylabel="density")
        if len(arrays) > 1:
            ax.legend()
    return style.figure_of(ax)
