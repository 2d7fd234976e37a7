"""Plots of the interactions between visible units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..errors import InvalidData
from ..interactions import InteractionComparison, Strength, all_tuples, n_body
from ..machines import RBM
from . import style

_SHORT_NAME = 3  # characters
_MOST_POINTS = 20_000
_MARKERS = "osD^v"


def interaction_strength(
    strengths: Strength | Mapping[str, Strength], *, title: str | None = None, ax: Axes | None = None
) -> Figure:
    """Plot the root mean square interaction against the order, on a logarithmic scale, with a fitted exponential."""
    named = {"": strengths} if isinstance(strengths, Strength) else dict(strengths)
    if not named:
        raise InvalidData("interaction strength: expected at least one machine, found none")
    with style.look():
        ax = style.axes(ax, (4.6, 3.2))
        for k, (name, found) in enumerate(named.items()):
            color, marker = style.COLORS[k % len(style.COLORS)], _MARKERS[k % len(_MARKERS)]
            orders = np.array([order for order, value in zip(found.orders, found.values, strict=True) if value > 0])
            values = [value for value in found.values if value > 0]
            label = name
            if len(orders) > 1:
                decay = found.decay()
                ends = np.array([orders.min(), orders.max()], dtype=float)
                ax.plot(ends, [decay.at(end) for end in ends], color=color, linewidth=1, alpha=0.6)
                label = f"{name}: ×{decay.factor:.2g} per order" if name else f"×{decay.factor:.2g} per order"
            ax.plot(orders, values, marker, color=color, markersize=6, label=label or None)
        ax.set_yscale("log")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set(xlabel="order of the interaction", ylabel="root mean square")
        ax.margins(x=0.08, y=0.1)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(fontsize=9)
        return style.titled(ax, title)


def interaction_scatter(
    x: Any,
    y: Any,
    *,
    labels: tuple[str, str] = ("first machine", "second machine"),
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot the interactions of two machines (or by two methods) against each other, with y = x and the fitted slope.

    For symmetric matrices only the pairs above the diagonal are drawn; more than 20 000 points are thinned evenly.
    """
    first, second = (_values(part) for part in (x, y))
    if first.shape != second.shape or first.size == 0:
        raise InvalidData(f"scatter: expected equally many values in both, found {first.size} and {second.size}")
    comparison = InteractionComparison.of(torch.from_numpy(second), torch.from_numpy(first))
    step = max(1, -(-first.size // _MOST_POINTS))
    with style.look():
        ax = style.axes(ax, (3.9, 3.6))
        ends = np.array([min(first.min(), second.min()), max(first.max(), second.max())])
        ax.plot(ends, ends, color=style.FAINT, linewidth=0.9, zorder=0, label="y = x")
        ax.scatter(first[::step], second[::step], s=4, color=style.ACCENT, alpha=0.3, linewidths=0, rasterized=True)
        span = np.array([first.min(), first.max()])
        ax.plot(span, comparison.slope * span, color=style.SECOND, linewidth=1.2,
                label=f"slope {comparison.slope:.2f}, correlation {comparison.pearson:.2f}")  # fmt: skip
        ax.set(xlabel=labels[0], ylabel=labels[1])
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.yaxis.set_major_locator(MaxNLocator(5))
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8.5, borderaxespad=0.2, handlelength=1.4)
        if title:
            ax.set_title(title, pad=24)
    return style.figure_of(ax)


def exact_against_small(
    rbm: RBM, order: int = 2, indices: Any = None, *, title: str | None = None, ax: Axes | None = None
) -> Figure:
    """Plot the small-parameter limit, Bulso & Roudi (2021), eqs. (19) and (21), against the exact interactions."""
    number = rbm.visible.sites
    chosen = all_tuples(number, order) if indices is None and order != 2 else indices
    exact, small = (n_body(rbm, order, chosen, method=method, bias=False, seed=0) for method in ("exact", "small"))
    return interaction_scatter(exact, small, labels=("exact", "small-parameter limit"), title=title, ax=ax)


def coupling_map(
    couplings: Any,
    unit: int,
    image: tuple[int, int] | tuple[int, int, int],
    *,
    limit: float | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Show the couplings of one pixel to all others as an image (height, width); a ring marks the pixel itself.

    ``couplings`` is a machine or a matrix (N, N), such as ``n_body(rbm, 2)``. Couplings to red pixels are positive,
    to blue pixels negative. Colors saturate at ``limit``, by default the 99.5 % quantile of the magnitudes.
    """
    height, width = image[-2:]
    row = _couplings(couplings, unit)
    if row.size != height * width:
        raise InvalidData(f"coupling map: expected an image of {row.size} pixels, found {height} × {width}")
    limit = (float(np.quantile(np.abs(row), 0.995)) or 1.0) if limit is None else limit
    with style.look():
        ax = style.axes(ax, (4.0, 3.5))
        picture = row.reshape(height, width)
        style.heat_map(ax, picture, (-limit, limit), "coupling", style.DIVERGING)
        ax.set_aspect("equal")
        y, x = divmod(unit, width)
        ax.plot(x, y, "o", markersize=9, markerfacecolor="none", markeredgecolor=style.INK, markeredgewidth=1.4)
        ax.set_xticks([])
        ax.set_yticks([])
        return style.titled(ax, title)


def interaction_network(
    couplings: Any,
    names: Sequence[str] | None = None,
    *,
    n: int = 40,
    fields: Any = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the ``n`` strongest couplings as lines between variables on a circle: positive red, negative blue.

    ``couplings`` is a machine or a matrix (N, N). The width of a line grows with the magnitude. The color of a dot is
    its field if ``fields`` (N,) are given. Variables with similar couplings are placed close to each other.
    """
    matrix = _matrix(couplings)
    size = len(matrix)
    names = [str(k) for k in range(size)] if names is None else list(names)
    if len(names) != size:
        raise InvalidData(f"network: expected {size} names, found {len(names)}")
    place = {variable: 2 * np.pi * k / size for k, variable in enumerate(_circle(matrix))}
    first, second = np.triu_indices(size, 1)
    values = matrix[first, second]
    drawn = np.argsort(-np.abs(values), kind="stable")[:n]
    drawn = drawn[values[drawn] != 0]
    largest = float(np.abs(values).max()) or 1.0 if values.size else 1.0
    colors = matplotlib.colormaps[style.DIVERGING]
    with style.look():
        ax = style.axes(ax, (5.0, 5.0))
        for k in drawn[::-1]:
            angles = np.array([place[first[k]], place[second[k]]])
            level = values[k] / largest
            ax.plot(np.cos(angles), np.sin(angles), color=colors(0.5 + 0.42 * np.sign(level)),
                    linewidth=0.4 + 3.6 * abs(level), alpha=0.25 + 0.6 * abs(level), solid_capstyle="round",
                    zorder=1)  # fmt: skip
        angles = np.array([place[k] for k in range(size)])
        dots: Any = {"color": style.INK}
        if fields is not None:
            field = style.as_array(fields)
            reach = float(np.abs(field).max()) or 1.0
            dots = {"c": field, "cmap": style.DIVERGING, "norm": Normalize(-reach, reach)}
        ax.scatter(np.cos(angles), np.sin(angles), s=46, edgecolors=style.INK, linewidths=0.8, zorder=2, **dots)
        font = 9 if size <= 40 else 6
        short = max(map(len, names), default=0) <= _SHORT_NAME
        for name, angle in zip(names, angles, strict=True):
            if short:  # upright: a 6 and a 9 must not look alike
                ax.text(1.12 * np.cos(angle), 1.12 * np.sin(angle), name, ha="center", va="center", fontsize=font)
                continue
            left = np.cos(angle) < -1e-9
            turn = np.degrees(angle) + (180 if left else 0)
            ax.text(1.07 * np.cos(angle), 1.07 * np.sin(angle), name, rotation=turn, rotation_mode="anchor",
                    ha="right" if left else "left", va="center", fontsize=font)  # fmt: skip
        ax.set_aspect("equal")
        ax.set(xlim=(-1.45, 1.45), ylim=(-1.45, 1.45))
        return style.bare(ax, title)


def _values(given: Any) -> np.ndarray:
    """Return the values as a vector; for a symmetric matrix, those above the diagonal."""
    array = style.as_array(given)
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        return array[np.triu_indices(len(array), 1)]
    return array.ravel()


def _matrix(couplings: Any) -> np.ndarray:
    matrix = style.as_array(n_body(couplings, 2) if isinstance(couplings, RBM) else couplings)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidData(f"couplings: expected a square matrix, found shape {matrix.shape}")
    return matrix


def _couplings(couplings: Any, unit: int) -> np.ndarray:
    """Return the row of one unit."""
    matrix = _matrix(couplings)
    if not 0 <= unit < len(matrix):
        raise InvalidData(f"coupling map: expected a unit from 0 to {len(matrix) - 1}, found {unit}")
    return matrix[unit]


def _circle(matrix: np.ndarray) -> list[int]:
    """Sort the variables by the angle of the leading eigenvectors, so that strong couplings are short lines."""
    if len(matrix) < 3:
        return list(range(len(matrix)))
    values, vectors = np.linalg.eigh(matrix)
    top = np.argsort(-values, kind="stable")[:2]
    return [int(k) for k in np.argsort(np.arctan2(*vectors[:, top].T), kind="stable")]
