"""Plots of the singular values of the weights: histogram, order, growth during training, and the singular vectors."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..errors import InvalidOption
from ..spectra import DataModes, MarchenkoPastur, SpectralHistory, Spectrum
from . import style
from .tiling import diverging, show

Picture = tuple[int, int, int]
_MOST_LINES = 8


def spectrum_histogram(
    spectrum: Spectrum, *, noise: MarchenkoPastur | None = None, bins: int = 60, ax: Axes | None = None
) -> Figure:
    """Plot a histogram of the singular values with the distribution of ``noise`` (by default with the same median)."""
    noise = noise or spectrum.noise
    values = style.as_array(spectrum.values)
    low, edge = noise.edges
    with style.look():
        ax = style.axes(ax, (4.6, 2.8))
        counts, places, _ = ax.hist(values, bins=bins, range=(0, max(values.max(), edge) * 1.03), color=style.ACCENT,
                                    alpha=0.75, linewidth=0)  # fmt: skip
        grid = torch.linspace(low, edge, 400, dtype=torch.float64)
        law = style.as_array(noise.density(grid)) * len(values) * (places[1] - places[0])
        ax.plot(grid, law, color=style.INK, linewidth=1.2, label="noise (Marchenko–Pastur)")
        above = int((values > noise.threshold).sum())
        ax.set(xlabel="singular value", ylabel="modes", yscale="log", ylim=(0.6, 1.6 * max(np.max(counts), law.max())))
        ax.set_title(f"{above} of {len(values)} modes above the noise")
        ax.legend(fontsize=8)
    return style.figure_of(ax)


def singular_values(history: SpectralHistory, *, data: DataModes | None = None, ax: Axes | None = None) -> Figure:
    """Plot the singular values in decreasing order at several epochs, on logarithmic axes.

    If ``data`` are given, also plots the standard deviations along their principal axes, scaled so that the first one
    equals the first singular value of the last epoch.
    """
    shown = np.unique(np.linspace(0, len(history.epochs) - 1, _MOST_LINES).round().astype(int))
    colors = matplotlib.colormaps["viridis"](np.linspace(0.9, 0.1, len(shown)))
    with style.look():
        ax = style.axes(ax, (4.6, 3.4))
        for color, k in zip(colors, shown, strict=True):
            line = style.as_array(history.spectra[k].values)
            ax.plot(np.arange(1, len(line) + 1), line, color=color, label=f"epoch {history.epochs[k]:g}")
        if data is not None and data.variances[0] > 0:  # constant data have no axes
            spread = np.sqrt(style.as_array(data.variances)[: len(history.spectra[-1])])
            ax.plot(
                np.arange(1, len(spread) + 1),
                spread * (history.spectra[-1].values[0].item() / spread[0]),
                color=style.INK, linestyle=":", linewidth=1.3, label="data (scaled)",
            )  # fmt: skip
        values = style.as_array(history.values)
        low, top = values.min(), values.max()
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="mode",
            ylabel="singular value",
            ylim=(max(top * 1e-3, low * 0.6), top * 1.6),
        )
        ax.set_title("Singular values")
        ax.legend(fontsize=7.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return style.figure_of(ax)


def mode_evolution(history: SpectralHistory, *, modes: Sequence[int] = (), ax: Axes | None = None) -> Figure:
    """Plot some singular values against the epoch; ``modes`` count from 1 and by default cover the whole range."""
    most = len(history.spectra[0])
    chosen = list(modes) or sorted(
        {1, 2, *np.geomspace(3, most, 5).round().astype(int).tolist()} & {*range(1, most + 1)}
    )
    if not all(1 <= mode <= most for mode in chosen):
        raise InvalidOption(f"modes: expected 1 to {most}, found {chosen}")
    values = style.as_array(history.values)
    colors = matplotlib.colormaps["viridis"](np.linspace(0.05, 0.9, len(chosen)))
    with style.look():
        ax = style.axes(ax, (4.6, 2.8))
        for color, mode in zip(colors, chosen, strict=True):
            ax.plot(history.epochs, values[:, mode - 1], color=color, marker="o", markersize=2.5, label=f"mode {mode}")
        if history.epochs[-1] > 20:
            ax.set_xscale("symlog", linthresh=1)
            ax.xaxis.set_major_formatter("{x:g}")
        else:
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        ax.set_yscale("log")
        ax.set(xlabel="epoch", ylabel="singular value")
        ax.set_title("Modes during training")
        ax.legend(fontsize=7.5, ncols=2)
    return style.figure_of(ax)


def mode_pictures(
    modes: Spectrum | DataModes,
    image: Picture,
    *,
    n: int = 10,
    columns: int | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Show the left singular vectors u^α of the strongest modes, or the principal axes of data, as images."""
    vectors = modes.left if isinstance(modes, Spectrum) else modes.axes
    shown = style.as_array(vectors[:n]).reshape(-1, *image)
    limit = float(np.quantile(np.abs(shown), 0.995)) or 1.0
    return show(diverging(shown, columns=columns or min(10, len(shown)), limit=limit), title, ax)


def alignment_map(spectrum: Spectrum, data: DataModes, *, n: int = 20, ax: Axes | None = None) -> Figure:
    """Show |u^α · e^β| between the strongest modes and the first principal axes of the data."""
    overlap = style.as_array(spectrum.alignment(data.axes[:n])[:n])
    with style.look():
        ax = style.axes(ax, (3.8, 3.2))
        extent = (0.5, overlap.shape[1] + 0.5, overlap.shape[0] + 0.5, 0.5)
        style.heat_map(ax, overlap, (0, 1), "|overlap|", style.SEQUENTIAL)
        ax.images[0].set_extent(extent)
        ax.set(xlabel="principal axis of the data", ylabel="mode of the weights")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        ax.set_title("Modes and principal axes")
    return style.figure_of(ax)


def spectrum_page(history: SpectralHistory, data: DataModes | None = None) -> Figure:
    """Plot the singular values of a run: by order, by epoch, against noise, and against the axes of the ``data``."""
    with style.look():
        figure = style.new_figure((9.8, 6.2))
        grid = figure.subplots(2, 2)
        singular_values(history, data=data, ax=grid[0, 0])
        mode_evolution(history, ax=grid[0, 1])
        spectrum_histogram(history.spectra[-1], noise=history.spectra[0].noise, ax=grid[1, 0])
        if data is None:
            grid[1, 1].set_visible(False)
        else:
            alignment_map(history.spectra[-1], data, ax=grid[1, 1])
    return figure


def mode_page(spectrum: Spectrum, data: DataModes, image: Picture, *, n: int = 20) -> Figure:
    """Show the strongest modes of the weights above the first principal axes of the data."""
    with style.look():
        figure = style.new_figure((8.0, 3.9))
        above, below = figure.subplots(2, 1)
        mode_pictures(spectrum, image, n=n, title="Strongest modes of the weights", ax=above)
        mode_pictures(data, image, n=n, title="Principal axes of the data", ax=below)
    return figure
