"""Plots of a machine: samples, receptive fields, reconstructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from torch import Tensor

from ..couplings import Coupling
from ..errors import InvalidData
from ..machines import Machine
from ..meanfield import reconstruct
from ..units import Unit
from ..units.support import OneHot
from . import style, tiling
from .kernel_images import kernels

Picture = tuple[int, int, int] | None
_MOST_ROWS = 60
_MOST_NAMES = 40  # names of units in a font of ordinary size
_CHUNK = 512  # hidden units projected at once


def samples(
    machine: Machine,
    states: Any,
    *,
    image: Picture = None,
    columns: int | None = None,
    letters: str | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Show visible states (n, *visible), samples or data.

    Draws tiles if ``image``, the shape (channels, height, width) of a row, is given; the image is the first part of a
    row, which a label may follow. For Potts units, draws the frequency of each state at each site; otherwise a heat map
    with one line per row, with the ``names`` of the visible units.
    """
    unit, array = machine.visible, style.as_array(states)
    if image is not None:
        pictures, pixels = tiling.pictures(array, image), unit.parts[0]
        limits = value_range(pixels, pictures)
        return tiling.tiles(pictures, columns=columns, limits=limits, ink=is_ink(pixels), title=title, ax=ax)
    with style.look():
        ax = style.axes(ax, (5.0, 3.3))
        if isinstance(unit.support, OneHot):
            _frequencies(ax, array.reshape(len(array), -1, unit.shape[-1]).mean(0), letters)
        else:
            rows = array.reshape(len(array), -1)[:_MOST_ROWS]
            style.heat_map(ax, rows, value_range(unit, array), "value", style.SEQUENTIAL)
            ax.set(xlabel="visible unit", ylabel="row")
            _name_units(ax.xaxis, names, unit.size)
        return style.titled(ax, title)


def receptive_fields(
    machine: Machine,
    *,
    layer: int = 1,
    image: Picture = None,
    n: int = 100,
    columns: int | None = None,
    letters: str | None = None,
    names: Sequence[str] | None = None,
    numbers: bool = True,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Show the weights of the hidden units with the largest norms, in that order, on one scale symmetric about zero.

    For a hidden ``layer`` above the first, the weights are multiplied with those of the layers below, W₁W₂…, a linear
    projection to the visible layer. Draws the kernels of a convolutional first layer (:func:`kernels`); images if
    ``image`` is given; for Potts units the weight of each state at each site of the strongest hidden unit; otherwise
    the whole matrix as a heat map. ``numbers`` are the numbers of the hidden units, from 0; ``names`` those of the
    visible units of a heat map.
    """
    if layer == 1 and machine.couplings[0].kernels() is not None:
        return kernels(machine.couplings[0], n=n, columns=columns, title=title, ax=ax)
    matrix = _projected(machine, layer)
    units = _strongest(matrix, n)
    weights, limit = matrix[units], _color_limit(matrix[units])
    if image is not None:
        picture = tiling.diverging(tiling.pictures(weights, image), columns=columns, limit=limit)
        return tiling.show(picture, title, ax, units.tolist() if numbers else (), columns)
    with style.look():
        ax = style.axes(ax, (5.0, 3.3))
        if isinstance(machine.visible.support, OneHot):
            values = weights[0].reshape(-1, machine.visible.shape[-1]).T
            style.heat_map(ax, values, (-limit, limit), "weight", style.DIVERGING)
            _letters(ax, letters)
            ax.set(xlabel=_sites(ax, letters), ylabel="state")
        else:
            style.heat_map(ax, weights.T, (-limit, limit), "weight", style.DIVERGING)
            ax.set(xlabel="hidden unit, strongest first", ylabel="visible unit")
            if numbers and len(units) <= _MOST_NAMES:
                ax.set_xticks(range(len(units)), labels=units.astype(str), fontsize=7)
            _name_units(ax.yaxis, names, machine.visible.size)
        return style.titled(ax, title)


@torch.no_grad()
def reconstructions(
    machine: Machine,
    data: Any,
    *,
    image: Picture = None,
    columns: int = 12,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Show rows of the data and their reconstructions ⟨v | ⟨h | v⟩⟩ (:func:`harmonium.meanfield.reconstruct`).

    Images are shown in pairs, data above reconstructions; for Potts units the probability of the true state at each
    site is shown; otherwise each reconstructed value is plotted against its value in the data.
    """
    rows = machine.as_states(data)
    if len(rows) == 0:
        raise InvalidData("reconstructions: expected at least one row, found none")
    before, after = style.as_array(rows), style.as_array(reconstruct(machine, rows))
    if image is not None:
        shown, pixels = tiling.pictures(before, image), machine.visible.parts[0]
        pairs = paired(shown, tiling.pictures(after, image), columns)
        limits = value_range(pixels, shown)
        across, ink = min(columns, len(before)), is_ink(pixels)
        return tiling.tiles(pairs, columns=across, limits=limits, ink=ink, title=title, ax=ax)
    with style.look():
        ax = style.axes(ax, (5.0, 3.3))
        if isinstance(machine.visible.support, OneHot):
            states = machine.visible.shape[-1]
            correct = (before * after).reshape(len(before), -1, states).sum(-1)[:_MOST_ROWS]
            style.heat_map(ax, correct, (0, 1), "probability of the true state", style.SEQUENTIAL)
            ax.set(xlabel="site", ylabel="row")
        else:
            _round_trip(ax, before, after)
        return style.titled(ax, title)


def paired(above: np.ndarray, below: np.ndarray, columns: int) -> np.ndarray:
    """Interleave two series of images in lines of ``columns`` tiles; an incomplete line is drawn only if alone."""
    columns = min(columns, len(above))
    lines = max(1, len(above) // columns)
    parts = [part[k * columns : (k + 1) * columns] for k in range(lines) for part in (above, below)]
    return np.concatenate(parts)


def ordered_weights(machine: Machine, n: int, layer: int = 1) -> tuple[np.ndarray, float]:
    """Return the weights of the ``n`` hidden units of a layer with the largest norms, (n, visible), and a color limit.

    Weights of a layer above the first are projected to the visible layer: W₁W₂… The limit is the 99.8 % quantile of the
    magnitudes, so that a single large weight does not wash out the others.
    """
    matrix = _projected(machine, layer)
    order = _strongest(matrix, n)
    return matrix[order], _color_limit(matrix[order])


def _strongest(matrix: np.ndarray, n: int) -> np.ndarray:
    """The ``n`` rows with the largest norms, in that order."""
    return np.argsort(-np.linalg.norm(matrix, axis=1), kind="stable")[:n]


def _color_limit(weights: np.ndarray) -> float:
    return float(np.quantile(np.abs(weights), 0.998)) or 1.0


def _name_units(axis: Axis, names: Sequence[str] | None, size: int) -> None:
    """Label the units of an axis of a heat map with their names."""
    if names is None:
        return
    if len(names) != size:
        raise InvalidData(f"names: expected {size}, one for each visible unit, found {len(names)}")
    axis.set_ticks(range(size), labels=[str(name) for name in names], fontsize=7 if size <= _MOST_NAMES else 5)


@torch.no_grad()
def _projected(machine: Machine, layer: int) -> np.ndarray:
    """The weights of a hidden layer, projected to the visible layer: (hidden, visible)."""
    couplings = machine.couplings[:layer]
    parts = []
    for index in _shown_units(couplings[-1]).split(_CHUNK):
        x = torch.zeros(len(index), couplings[-1].upper.numel(), dtype=machine.dtype, device=machine.device)
        x[torch.arange(len(index)), index] = 1
        for coupling in reversed(couplings):
            if x[0].numel() < coupling.upper.numel():  # pooled states, for which all detection units are alike
                x = x.unsqueeze(-1).expand(-1, *coupling.upper)
            x = coupling.down(x.reshape(-1, *coupling.upper))
        parts.append(style.as_array(x.flatten(1)))
    return np.concatenate(parts)


def _shown_units(coupling: Coupling) -> Tensor:
    """Return the units of the upper layer to show: all, or the central unit of each map if maps share their weights."""
    upper = coupling.upper
    if len(upper) == 3 and coupling.weight.numel() < coupling.lower.numel() * upper.numel():
        maps, height, width = upper
        return torch.arange(maps) * height * width + (height // 2) * width + width // 2
    return torch.arange(upper.numel())


def value_range(unit: Unit, values: np.ndarray) -> tuple[float, float]:
    """Return the range of the unit's support; if it is unbounded, the range of the values without outliers."""
    states = unit.support.states() if not unit.event_shape else None
    if states is not None:
        return float(states.min()), float(states.max())
    low, high = getattr(unit.support, "low", None), getattr(unit.support, "high", None)
    lowest, highest = np.quantile(values, [0.002, 0.998])
    low = lowest if low is None or not np.isfinite(low) else low
    high = highest if high is None or not np.isfinite(high) else high
    return float(low), float(high if high > low else low + 1)


def is_ink(unit: Unit) -> bool:
    """Return whether large values are drawn dark: yes for binary images, no for gray values, as in photographs."""
    return unit.cardinality == 2**unit.sites


def _frequencies(ax: Axes, frequency: np.ndarray, letters: str | None) -> None:
    style.heat_map(ax, frequency.T, (0, 1), "frequency", style.SEQUENTIAL)
    _letters(ax, letters)
    ax.set(xlabel=_sites(ax, letters), ylabel="state")


def _letters(ax: Axes, letters: str | None) -> None:
    if letters is not None:
        ax.set_yticks(range(len(letters)), labels=list(letters), fontsize=7)


def _sites(ax: Axes, letters: str | None) -> str:
    """Count the sites of sequences of letters from 1, as logos and files do; return the label of the axis."""
    if letters is not None:
        left, right, bottom, top = ax.images[0].get_extent()
        ax.images[0].set_extent((left + 1, right + 1, bottom, top))
    return "site"


def _round_trip(ax: Axes, before: np.ndarray, after: np.ndarray) -> None:
    """Plot reconstructed values against those of the data: a box for each value if there are few, otherwise points."""
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
