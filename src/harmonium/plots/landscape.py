"""Plots of the mean-field solutions during training: number, free energies, positions, and how they split."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..errors import InvalidData
from ..landscape import Growth, Landscape
from ..landscape.solutions import HEALTHY
from . import style


def solution_counts(growth: Growth, *, ax: Axes | None = None) -> Figure:
    """Plot the number of distinct solutions against the epoch, with a line at a tenth of the number of starts."""
    with style.look():
        ax = style.axes(ax, (4.6, 2.8))
        ax.plot(growth.epochs, growth.counts, color=style.ACCENT, marker="o", markersize=3.5)
        limit = HEALTHY * growth.landscapes[-1].starts
        ax.axhline(limit, color=style.FAINT, linewidth=0.8, zorder=0)
        ax.annotate(f"a tenth of the {growth.landscapes[-1].starts} starts", (growth.epochs[0], limit),
                    textcoords="offset points", xytext=(2, 3), fontsize=8, color=style.FAINT)  # fmt: skip
        ax.set_yscale("log")
        ax.set_ylim(top=3 * max(limit, *growth.counts))  # room for the annotation
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
        ax.set_xlabel("epoch")
        ax.set_title("Distinct solutions")
    return style.figure_of(ax)


def solution_depths(landscape: Landscape, *, ax: Axes | None = None) -> Figure:
    """Plot the number of starts that converged to each solution against its free energy."""
    if len(landscape) == 0:
        raise InvalidData("solution depths: expected at least one solution, found none")
    with style.look():
        ax = style.axes(ax, (4.6, 2.8))
        depth, sizes = style.as_array(landscape.free_energy), style.as_array(landscape.sizes)
        ax.vlines(depth, 0.5, np.maximum(sizes, 0.5), color=style.FAINT, linewidth=0.8)
        ax.plot(depth, np.maximum(sizes, 0.5), "o", color=style.ACCENT, markersize=3.5)
        ax.set_yscale("log")
        ax.set_xlabel("free energy, nats")
        ax.set_ylabel("starts")
        ax.set_title("Solutions and their basins")
    return style.figure_of(ax)


def landscape_page(growth: Growth) -> Figure:
    """Plot the number of solutions during the run, and the free energies of those of the last checkpoint."""
    with style.look():
        figure = style.new_figure((9.2, 2.9))
        left, right = figure.subplots(1, 2)
        solution_counts(growth, ax=left)
        if len(growth.landscapes[-1]):
            solution_depths(growth.landscapes[-1], ax=right)
        else:
            right.set_visible(False)
    return figure


def solution_map(growth: Growth, *, most: int = 6, neighbors: int = 5, figure: Figure | None = None) -> Figure:
    """Plot the solutions of up to ``most`` checkpoints in an Isomap plane; the size shows the number of starts."""
    places = growth.embedding(neighbors)
    shown = np.unique(np.linspace(0, len(places) - 1, min(most, len(places))).round().astype(int))
    with style.look():
        columns = min(3, len(shown))
        lines = -(-len(shown) // columns)
        figure = figure or style.new_figure((2.5 * columns, 2.5 * lines))
        grid = np.atleast_1d(figure.subplots(lines, columns, sharex=True, sharey=True)).ravel()
        for ax, k in zip(grid, shown, strict=False):
            found = growth.landscapes[k]
            sizes = style.as_array(found.sizes)
            depth = style.as_array(found.free_energy)
            ax.scatter(
                *places[-1].T, s=6, facecolors="none", edgecolors=style.FAINT, linewidths=0.4, alpha=0.5, zorder=0
            )
            area = 8 + 90 * np.sqrt(sizes / max(1.0, sizes.sum()))
            ax.scatter(*places[k].T, s=area, c=depth - depth.min(), cmap="viridis_r", alpha=0.85, linewidths=0)
            ax.set_title(f"epoch {growth.epochs[k]:g}: {len(found)}")
            ax.set_xticks([])
            ax.set_yticks([])
        for ax in grid[len(shown) :]:
            ax.set_visible(False)
    return figure


def solution_tree(growth: Growth, *, ax: Axes | None = None) -> Figure:
    """Draw how solutions split during training: each branch leads from a solution to its successors."""
    heights = _heights(growth)
    with style.look():
        ax = style.axes(ax, (5.6, 3.6))
        for k, parent, child in growth.tree():
            ax.plot(
                growth.epochs[k : k + 2], [heights[k][parent], heights[k + 1][child]], color=style.ACCENT, linewidth=0.7
            )
        for epoch, values in zip(growth.epochs, heights, strict=True):
            ax.plot(np.full(len(values), epoch), values, "o", color=style.INK, markersize=2)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("epoch")
        ax.set_title("The tree of solutions")
    return style.figure_of(ax)


def _heights(growth: Growth) -> list[np.ndarray]:
    """Return the position of each solution: leaves ordered by ancestry, a parent in the middle of its children."""
    leaves = np.lexsort(tuple(_ancestry(growth)))
    heights = [np.empty(growth.counts[-1])]
    heights[0][leaves] = np.arange(len(leaves))
    for k in range(len(growth.parents) - 1, -1, -1):
        label = style.as_array(growth.parents[k]).astype(int)
        values = np.full(growth.counts[k], np.nan)
        for parent in range(growth.counts[k]):
            children = heights[0][label == parent]
            if len(children):
                values[parent] = children.mean()
        values[np.isnan(values)] = len(leaves) + np.arange(int(np.isnan(values).sum()))
        heights.insert(0, values)
    return heights


def _ancestry(growth: Growth) -> list[np.ndarray]:
    """Return the indices of the ancestors of every solution of the last checkpoint, the nearest first."""
    current = np.arange(growth.counts[-1])
    lines = [current]
    for parents in reversed(growth.parents):
        label = style.as_array(parents).astype(int)
        current = np.where(current >= 0, label[np.maximum(current, 0)], -1)
        lines.append(current)
    return lines
