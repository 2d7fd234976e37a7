"""Plots of hidden activity and of the distribution of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from ..machines import Machine
from ..meanfield import hidden_means
from . import style


@torch.no_grad()
def hidden_activity(machine: Machine, data: Any, *, layer: int = 1, ax: Axes | None = None) -> Figure:
    """Plot ⟨h | v⟩ of every unit of a hidden layer: its mean over the rows of ``data``, and the 10 % to 90 % quantiles.

    Units are sorted by their mean; the quantiles are a band. Each state of a one-hot unit is shown separately. The
    means are those of :func:`harmonium.meanfield.hidden_means`.
    """
    means = style.as_array(hidden_means(machine, data)[layer - 1]).reshape(len(data), -1)
    order = np.argsort(-means.mean(0), kind="stable")
    low, high = np.quantile(means[:, order], [0.1, 0.9], axis=0)
    with style.look():
        ax = style.axes(ax, (5.0, 2.9))
        number = np.arange(1, len(order) + 1)
        ax.fill_between(
            number, low, high, step="mid", color=style.ACCENT, alpha=0.22, linewidth=0, label="80 % of rows"
        )
        ax.step(number, means.mean(0)[order], where="mid", color=style.ACCENT, label="mean over the rows")
        ax.set(xlabel="hidden unit, most active first", ylabel="mean activity", xlim=(0.5, len(order) + 0.5))
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=9, borderaxespad=0.2)
    return style.figure_of(ax)


def weight_histogram(machine: Machine, *, bins: int = 81, ax: Axes | None = None) -> Figure:
    """Plot a histogram of the weights with a logarithmic vertical axis; the couplings of a deep machine overlap."""
    weights = [style.as_array(coupling.weight).ravel() for coupling in machine.couplings]
    limit = max(float(np.abs(w).max()) for w in weights) or 1.0
    edges = np.linspace(-limit, limit, bins + 1)
    with style.look():
        ax = style.axes(ax, (5.0, 2.9))
        for k, (weight, color) in enumerate(zip(weights, (style.ACCENT, style.SECOND) * len(weights), strict=False)):
            label = f"coupling {k + 1}" if len(weights) > 1 else None
            ax.hist(
                weight, edges.tolist(), color=color, alpha=0.85 if len(weights) == 1 else 0.5, log=True, label=label
            )
        ax.axvline(0, color=style.FAINT, linewidth=0.8)
        ax.set(xlabel="weight", ylabel="number of weights")
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.yaxis.set_minor_formatter(NullFormatter())
        if len(weights) > 1:
            ax.legend(fontsize=9)
    return style.figure_of(ax)
