"""Pictures of a machine: what it draws, what it looks for, what it remembers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..errors import InvalidData
from ..machines import RBM, BoltzmannMachine
from ..units import Unit
from ..units.support import OneHot
from . import style, tiling

Picture = tuple[int, int, int] | None
_MOST_ROWS = 60


def samples(
    machine: BoltzmannMachine,
    states: Any,
    *,
    image: Picture = None,
    columns: int | None = None,
    letters: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Visible states (n, *visible), drawn or of the data.

    As tiles where ``image`` (channels, height, width) says how a row is a picture; for Potts units the frequency of
    each state at each site; else a heat map with a line for each row.
    """
    unit, array = machine.visible, style.as_array(states)
    if image is not None:
        pictures = array.reshape(len(array), *image)
        limits = value_range(unit, array)
        return tiling.tiles(pictures, columns=columns, limits=limits, ink=is_ink(unit), title=title, ax=ax)
    with style.look():
        ax = style.axes(ax, (5.0, 3.3))
        if isinstance(unit.support, OneHot):
            _frequencies(ax, array.reshape(len(array), -1, unit.shape[-1]).mean(0), letters)
        else:
            rows = array.reshape(len(array), -1)[:_MOST_ROWS]
            style.heat_map(ax, rows, value_range(unit, array), "value", style.SEQUENTIAL)
            ax.set(xlabel="visible unit", ylabel="row")
        if title:
            ax.set_title(title)
    return style.figure_of(ax)


def receptive_fields(
    rbm: RBM,
    *,
    image: Picture = None,
    n: int = 100,
    columns: int | None = None,
    letters: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """The weights of the hidden units with the largest norms, in that order, on one scale symmetric about zero.

    Pictures where ``image`` is given; for Potts units the weight of each state at each site of the strongest unit;
    else the whole matrix as a heat map.
    """
    weights, limit = ordered_weights(rbm, n)
    if image is not None:
        picture = tiling.diverging(weights.reshape(-1, *image), columns=columns, limit=limit)
        return tiling.show(picture, title, ax)
    with style.look():
        ax = style.axes(ax, (5.0, 3.3))
        if isinstance(rbm.visible.support, OneHot):
            values = weights[0].reshape(-1, rbm.visible.shape[-1]).T
            style.heat_map(ax, values, (-limit, limit), "weight", style.DIVERGING)
            _letters(ax, letters)
            ax.set(xlabel="site", ylabel="state")
        else:
            style.heat_map(ax, weights.T, (-limit, limit), "weight", style.DIVERGING)
            ax.set(xlabel="hidden unit, strongest first", ylabel="visible unit")
        if title:
            ax.set_title(title)
    return style.figure_of(ax)


@torch.no_grad()
def reconstructions(
    rbm: RBM,
    data: Any,
    *,
    image: Picture = None,
    columns: int = 12,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Rows of the data and ⟨v⟩ given the mean hidden response to each.

    Pictures in pairs, a row of data above the row of its reconstructions; for Potts units the probability of the
    true state at each site; else the reconstruction against the data, value by value.
    """
    rows = rbm.as_states(data)
    if len(rows) == 0:
        raise InvalidData("reconstructions: expected at least one row, found none")
    before, after = style.as_array(rows), style.as_array(rbm.reconstruct(rows))
    if image is not None:
        pairs = paired(before.reshape(-1, *image), after.reshape(-1, *image), columns)
        limits = value_range(rbm.visible, before)
        across, ink = min(columns, len(before)), is_ink(rbm.visible)
        return tiling.tiles(pairs, columns=across, limits=limits, ink=ink, title=title, ax=ax)
    with style.look():
        ax = style.axes(ax, (5.0, 3.3))
        if isinstance(rbm.visible.support, OneHot):
            states = rbm.visible.shape[-1]
            correct = (before * after).reshape(len(before), -1, states).sum(-1)[:_MOST_ROWS]
            style.heat_map(ax, correct, (0, 1), "probability of the true state", style.SEQUENTIAL)
            ax.set(xlabel="site", ylabel="row")
        else:
            _round_trip(ax, before, after)
        if title:
            ax.set_title(title)
    return style.figure_of(ax)


def paired(above: np.ndarray, below: np.ndarray, columns: int) -> np.ndarray:
    """Two series of pictures as alternating lines of ``columns`` tiles; whole lines only where there are several."""
    columns = min(columns, len(above))
    lines = max(1, len(above) // columns)
    parts = [part[k * columns : (k + 1) * columns] for k in range(lines) for part in (above, below)]
    return np.concatenate(parts)


def ordered_weights(rbm: RBM, n: int) -> tuple[np.ndarray, float]:
    """Incoming weights of the ``n`` hidden units of largest norm, (n, visible), and the limit of the colors.

    The limit is where 1 weight in 500 is cut, so that a single large weight does not pale all others.
    """
    matrix = style.as_array(rbm.coupling.matrix()).T
    order = np.argsort(-np.linalg.norm(matrix, axis=1), kind="stable")[:n]
    return matrix[order], float(np.quantile(np.abs(matrix[order]), 0.998)) or 1.0


def value_range(unit: Unit, values: np.ndarray) -> tuple[float, float]:
    """From the smallest to the largest value of the unit; without such, that of the values, outermost left out."""
    states = unit.support.states() if not unit.event_shape else None
    if states is not None:
        return float(states.min()), float(states.max())
    low, high = getattr(unit.support, "low", None), getattr(unit.support, "high", None)
    lowest, highest = np.quantile(values, [0.002, 0.998])
    low = lowest if low is None or not np.isfinite(low) else low
    high = highest if high is None or not np.isfinite(high) else high
    return float(low), float(high if high > low else low + 1)


def is_ink(unit: Unit) -> bool:
    """Whether a large value is drawn dark: binary pictures are ink on paper, others are photographs."""
    return unit.cardinality == 2**unit.sites


def _frequencies(ax: Axes, frequency: np.ndarray, letters: str | None) -> None:
    style.heat_map(ax, frequency.T, (0, 1), "frequency", style.SEQUENTIAL)
    _letters(ax, letters)
    ax.set(xlabel="site", ylabel="state")


def _letters(ax: Axes, letters: str | None) -> None:
    if letters is not None:
        ax.set_yticks(range(len(letters)), labels=list(letters), fontsize=7)


def _round_trip(ax: Axes, before: np.ndarray, after: np.ndarray) -> None:
    """Reconstructed values against those of the data: a box for each value where there are few, else points."""
    flat, back = before.ravel(), after.ravel()
    values = np.unique(flat)
    ax.set(xlabel="value in the data", ylabel="reconstructed mean")
    if len(values) <= 12:
        groups = [back[flat == value] for value in values]
        boxes = ax.boxplot(groups, showfliers=False, whis=(5, 95), widths=0.5)
        ax.set_xticks(range(1, len(values) + 1), labels=[f"{value:g}" for value in values])
        for line in [line for part in boxes.values() for line in part]:
            line.set(color=style.ACCENT, linewidth=1.2)
        return
    step = max(1, len(flat) // 4000)
    ax.scatter(flat[::step], back[::step], s=4, color=style.ACCENT, alpha=0.35, linewidths=0, rasterized=True)
    ends = [flat.min(), flat.max()]
    ax.plot(ends, ends, color=style.FAINT, linewidth=1)
