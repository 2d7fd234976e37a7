"""Denoising: scores against the noise level, and the images, as in figs. 8 and 9 of Tramel et al. (2018)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..errors import InvalidData, InvalidOption
from ..tasks import DenoisingCurves
from . import style, tiling

Picture = tuple[int, int, int]
_COLORS = (style.ACCENT, style.SECOND, "#4a9a5e", "#8a63b0", "#b8973b")
_AXIS = {"p": "probability of a flip, $p$", "σ": "standard deviation of the noise, $σ$", "erased": "fraction erased"}


def denoising_curves(
    curves: DenoisingCurves | Sequence[DenoisingCurves], *, title: str | None = None, ax: Axes | None = None
) -> Figure:
    """Plot the score of each denoiser against the noise level, with its interval as a band.

    For several results (such as machines of different sizes) only the baselines of the first are drawn.
    """
    several = [curves] if isinstance(curves, DenoisingCurves) else list(curves)
    if not several:
        raise InvalidData("denoising curves: expected at least one result, found none")
    machines = [(found, next(iter(found.scores))) for found in several]
    if len({name for _, name in machines}) < len(machines):
        raise InvalidOption(f"denoising curves: expected different names, found {[name for _, name in machines]}")
    first = several[0]
    baselines = [(first, name) for name in list(first.scores)[1:]]
    with style.look():
        ax = style.axes(ax, (5.4, 3.6))
        for k, (found, name) in enumerate(machines):
            _band(ax, found, name, _COLORS[k % len(_COLORS)], "-")
        for (found, name), dashes in zip(baselines, ("--", "-", ":"), strict=False):
            _band(ax, found, name, style.INK, dashes, width=1.1)
        ax.set(xlabel=_AXIS.get(first.symbol, first.symbol), ylabel=next(iter(first.scores.values()))[0].name)
        ax.set_title(title or "Denoising")
        ax.xaxis.set_major_locator(MaxNLocator(6))
        ax.yaxis.set_major_locator(MaxNLocator(6))
        ax.margins(x=0.01)
        ax.legend(handlelength=1.6)
    return style.figure_of(ax)


def denoising_strip(
    curves: DenoisingCurves, level: int = 0, *, image: Picture, title: str | None = None, ax: Axes | None = None
) -> Figure:
    """Show signals, their noisy observations at one noise level, and the estimate of each denoiser, one line for each.

    ``level`` is the index of the noise level; ``image`` is the shape (channels, height, width) of a row.
    """
    if not 0 <= level < len(curves.levels):
        raise InvalidOption(f"level: expected a number from 0 to {len(curves.levels) - 1}, found {level}")
    lines = {"signal": style.as_array(curves.signals)}
    lines |= {name: style.as_array(values[level]) for name, values in curves.estimates.items()}
    title = title or f"{curves.symbol} = {curves.levels[level]:.3g}"
    return _lines(curves, lines, image, title, ax, [])


def denoising_levels(
    curves: DenoisingCurves, number: int = 0, *, image: Picture, title: str | None = None, ax: Axes | None = None
) -> Figure:
    """Show one signal at every noise level: the noisy observation, and the posterior mean of each denoiser."""
    if not 0 <= number < len(curves.signals):
        raise InvalidOption(f"number: expected a number from 0 to {len(curves.signals) - 1}, found {number}")
    lines = {name: style.as_array(values[:, number]) for name, values in curves.estimates.items()}
    labels = [f"{level:.2g}" for level in curves.levels]
    return _lines(curves, lines, image, title, ax, labels)


def _band(ax: Axes, curves: DenoisingCurves, name: str, color: str, dashes: str, width: float = 1.8) -> None:
    scores = curves.scores[name]
    low, high = [score.low for score in scores], [score.high for score in scores]
    ax.fill_between(curves.levels, low, high, color=color, alpha=0.18, linewidth=0)
    ax.plot(
        curves.levels,
        [score.estimate for score in scores],
        color=color,
        linestyle=dashes,
        linewidth=width,
        marker="o" if len(scores) < 4 else None,
        markersize=4,
        label=name,
    )


def _lines(
    curves: DenoisingCurves,
    lines: dict[str, np.ndarray],
    image: Picture,
    title: str | None,
    ax: Axes | None,
    below: list[str],
) -> Figure:
    """Draw a line of images for each name, with the name on its left and the column labels below."""
    signals = style.as_array(curves.signals)
    low, high = float(signals.min()), float(signals.max())
    pictures = np.concatenate([values.reshape(-1, *image) for values in lines.values()])
    pictures = np.where(np.isnan(pictures), (low + high) / 2, pictures)  # erased values are gray
    columns = len(pictures) // len(lines)
    picture = tiling.mosaic(pictures, columns=columns, limits=(low, high), ink=len(np.unique(signals)) <= 2)
    height, width = picture.shape[:2]
    with style.look():
        ax = style.axes(ax, (6.3, 5.5 * height / width + (0.35 if title else 0.1) + (0.5 if below else 0.0)))
        ax.imshow(picture, interpolation="nearest")
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_yticks([height * (k + 0.5) / len(lines) for k in range(len(lines))], labels=list(lines))
        ax.set_xticks([width * (k + 0.5) / columns for k in range(len(below))], labels=below)
        ax.tick_params(length=0)
        if below:
            ax.set_xlabel(_AXIS.get(curves.symbol, curves.symbol))
        return style.titled(ax, title)
