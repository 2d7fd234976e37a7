"""Comparison of samples with data: moments, principal axes, nearest neighbors, and all of them in one figure.

Each function takes a part of the result of :func:`harmonium.quality.compare`. Data are gray, samples are colored.
"""

from __future__ import annotations

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from ..errors import InvalidOption
from ..quality import Correlations, NeighborAccuracy, Principal, SampleComparison
from . import style

_DATA, _SAMPLES = style.INK, style.SECOND
_MOST_POINTS = 20_000
_LABELS = {1: "⟨$x_i$⟩", 2: "⟨$x_i x_j$⟩$_c$", 3: "⟨$x_i x_j x_k$⟩$_c$"}


def correlation_scatter(correlations: Correlations, *, ax: Axes | None = None) -> Figure:
    """Plot the moments of the samples against those of the data, with the identity line.

    The shaded band is twice the noise floor: it would contain about 95 % of the points if the samples were data.
    """
    both = np.stack([style.as_array(correlations.data), style.as_array(correlations.samples)], 1)
    x, y = _thinned(both, _MOST_POINTS).T
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    margin = 0.05 * (high - low) or 0.5
    ends = np.array([low - margin, high + margin])
    width = 2 * correlations.floor.value
    pearson, ideal = correlations.pearson.value, correlations.ideal_pearson
    note = f"correlation {pearson:.3f} (ideal {ideal:.3f})\n" if np.isfinite(pearson) else ""
    note += f"difference {correlations.ratio:.2f} × noise floor"
    with style.look():
        ax = style.axes(ax, (3.4, 3.4))
        ax.fill_between(
            ends, ends - width, ends + width, color=style.FAINT, alpha=0.35, linewidth=0, label="noise floor"
        )
        ax.plot(ends, ends, color=style.FAINT, linewidth=0.9, label="identity")
        size, alpha = (12, 0.7) if len(x) < 500 else (3, 0.25)
        ax.scatter(x, y, s=size, alpha=alpha, color=_SAMPLES, linewidths=0, rasterized=len(x) > 2000, zorder=3)
        ax.text(0.04, 0.97, note, transform=ax.transAxes, va="top", fontsize=8.5, linespacing=1.4)
        ax.legend(loc="lower right", fontsize=8, handlelength=1.2)
        ax.set(xlim=ends, ylim=ends, aspect="equal")
        ax.set_title(correlations.name.capitalize())
        label = _LABELS[correlations.order]
        ax.set(xlabel=f"{label} of the data", ylabel=f"{label} of the samples")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(5))
    return style.figure_of(ax)


def principal_clouds(principal: Principal, *, axes: tuple[int, int] = (0, 1), figure: Figure | None = None) -> Figure:
    """Plot data and samples projected on two principal axes of the data, side by side on the same scales."""
    with style.look():
        figure = figure or style.new_figure((6.4, 3.2))
        left, right = figure.subplots(1, 2, sharex=True, sharey=True)
        _clouds(principal, axes, (left, right))
        left.set_title("Data")
        right.set_title("Samples")
        right.set_ylabel("")
    return figure


def principal_overlay(principal: Principal, *, axes: tuple[int, int] = (0, 1), ax: Axes | None = None) -> Figure:
    """Plot data and samples projected on two principal axes of the data, the samples on top of the data."""
    with style.look():
        ax = style.axes(ax, (3.6, 3.4))
        _clouds(principal, axes, (ax, ax))
        for handle in ax.legend(fontsize=9, markerscale=1.5).legend_handles:
            if handle is not None:
                handle.set_alpha(0.9)
    return style.figure_of(ax)


def axis_histogram(principal: Principal, *, axis: int = 0, bins: int = 50, ax: Axes | None = None) -> Figure:
    """Plot the densities of data and samples along one principal axis of the data."""
    edges, data, samples = (style.as_array(part) for part in principal.histogram(axis, bins))
    with style.look():
        ax = style.axes(ax, (3.6, 2.6))
        ax.stairs(data, edges, fill=True, color=_DATA, alpha=0.25, label="data")
        ax.stairs(samples, edges, color=_SAMPLES, linewidth=1.4, label="samples")
        ax.set(xlabel=_axis_label(axis), ylabel="density", ylim=(0, None))
        distance, floor = float(principal.distances[axis]), float(principal.distance_floors[axis])
        ax.set_title(f"Axis {axis + 1}: distance {distance:.3f}, floor {floor:.3f}")
        ax.xaxis.set_major_locator(MaxNLocator(6))
        ax.legend(fontsize=9)
    return style.figure_of(ax)


def spectra(principal: Principal, *, ax: Axes | None = None) -> Figure:
    """Plot the leading eigenvalues of the covariances of data and samples, largest first."""
    with style.look():
        ax = style.axes(ax, (3.6, 3.0))
        for values, color, label, width in (
            (principal.data_spectrum, _DATA, "data", 2.6),
            (principal.sample_spectrum, _SAMPLES, "samples", 1.3),
        ):
            array = style.as_array(values)
            shown = array[array > 1e-6 * max(array.max(), 1e-300)]  # no logarithm of zero
            mark = "o" if len(shown) < 25 else None
            ax.plot(np.arange(1, len(shown) + 1), shown, color=color, linewidth=width, label=label, marker=mark,
                    markersize=width + 1.5, alpha=0.55 if label == "data" else 1.0)  # fmt: skip
        ax.set_yscale("log")
        if len(principal.data_spectrum) >= 25:
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter(NullFormatter())
        else:
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set(xlabel="rank", ylabel="eigenvalue")
        ax.set_title("Spectra of the covariances")
        ax.legend(fontsize=9)
    return style.figure_of(ax)


def neighbor_accuracy(neighbors: NeighborAccuracy, *, ax: Axes | None = None) -> Figure:
    """Plot the nearest-neighbor accuracies with three standard errors; the ideal value is 0.5."""
    lines = {"both": neighbors.accuracy, "of data": neighbors.truth, "of samples": neighbors.synthetic}
    if neighbors.train is not None:
        lines["training rows"] = neighbors.train.accuracy
    with style.look():
        ax = style.axes(ax, (3.8, 2.4))
        places = np.arange(len(lines))[::-1]
        ax.axvline(0.5, color=style.FAINT, linewidth=1)
        ax.errorbar(
            [line.value for line in lines.values()],
            places,
            xerr=[3 * line.standard_error for line in lines.values()],
            fmt="o",
            color=_SAMPLES,
            markersize=5,
            elinewidth=1.3,
            capsize=0,
        )
        ax.set_yticks(places, labels=list(lines))
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.6, len(lines) - 0.4))
        ax.set_xticks([0, 0.5, 1], labels=["0\ncopies", "0.5\nideal", "1\ndistinct"])
        ax.set_title("Nearest-neighbor accuracy")
        if neighbors.privacy_loss is not None:
            ax.set_xlabel(f"privacy loss {neighbors.privacy_loss}")
    return style.figure_of(ax)


def quality(comparison: SampleComparison, *, figure: Figure | None = None) -> Figure:
    """Plot a whole comparison in one figure: moments, principal axes, nearest neighbors, and the verdict as title.

    >>> import torch
    >>> from harmonium.quality import compare
    >>> data = torch.rand(400, 6, generator=torch.Generator().manual_seed(0)).round()
    >>> page = quality(compare(data[:200], data[200:]))
    >>> page.axes[0].get_title(loc="left")
    'Single-site means'
    """
    found = comparison.principal
    with style.look():
        if figure is None:
            figure = style.new_figure((10.2, 9.4))
            figure.set_layout_engine("constrained", hspace=0.06, wspace=0.04)
        grid = figure.subplots(3, 3, height_ratios=[1.12, 1, 0.8])
        for ax, order in zip(grid[0], (1, 2, 3), strict=True):
            if order in comparison.correlations:
                correlation_scatter(comparison.correlations[order], ax=ax)
            else:
                ax.set_visible(False)
        if len(found.axes) > 1:
            _clouds(found, (0, 1), (grid[1, 0], grid[1, 1]))
            grid[1, 0].set_title("Data")
            grid[1, 1].set_title("Samples")
        else:
            grid[1, 0].set_visible(False)
            grid[1, 1].set_visible(False)
        spectra(found, ax=grid[1, 2])
        for axis, ax in enumerate(grid[2, :2]):
            if axis < len(found.axes):
                axis_histogram(found, axis=axis, ax=ax)
            else:
                ax.set_visible(False)
        neighbor_accuracy(comparison.neighbors, ax=grid[2, 2])
        figure.suptitle(textwrap.fill(comparison.verdict, 125), x=0.01, ha="left", fontsize=10.5)
    return figure


def _clouds(principal: Principal, axes: tuple[int, int], targets: tuple[Axes, Axes]) -> None:
    """Return equally many points of data and samples, and axis limits that contain both."""
    _check(principal, *axes)
    sides = [style.as_array(points)[:, list(axes)] for points in (principal.data, principal.samples)]
    number = min(_MOST_POINTS, *map(len, sides))
    size, alpha = (9, 0.5) if number < 1500 else (3, 0.25)
    both = np.concatenate(sides)
    low, high = both.min(0), both.max(0)
    margin = 0.05 * (high - low) + 1e-9
    for ax, side, color, label in zip(targets, sides, (_DATA, _SAMPLES), ("data", "samples"), strict=True):
        x, y = _thinned(side, number).T
        ax.scatter(x, y, s=size, alpha=alpha, color=color, linewidths=0, label=label, rasterized=number > 2000)
        ax.set(xlim=(low[0] - margin[0], high[0] + margin[0]), ylim=(low[1] - margin[1], high[1] + margin[1]))
        ax.set(xlabel=_axis_label(axes[0]), ylabel=_axis_label(axes[1]))


def _axis_label(axis: int) -> str:
    return f"principal axis {axis + 1} of the data"


def _check(principal: Principal, *axes: int) -> None:
    for axis in axes:
        if not 0 <= axis < len(principal.axes):
            raise InvalidOption(f"axes: expected numbers from 0 to {len(principal.axes) - 1}, found {axis}")


def _thinned(points: np.ndarray, number: int) -> np.ndarray:
    """Return a fixed random subset of the points (n, 2)."""
    if len(points) <= number:
        return points
    return points[np.random.default_rng(0).permutation(len(points))[:number]]
