"""Plots of sequences: logos of alignments and of hidden units, maps of contacts and of mutations."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path as Outline
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import Affine2D

from ..errors import InvalidData, InvalidOption
from ..interactions import ContactRanking
from ..machines import RBM
from ..units.support import OneHot
from . import style

#: colors of amino acids by chemistry, different for color-blind readers too: hydrophobic, polar, amide, basic, acidic
_AMINO_ACIDS = {
    **dict.fromkeys("AVLIPWFM", "#2f3a4a"),
    **dict.fromkeys("GSTYC", "#009e73"),
    **dict.fromkeys("QN", "#cc79a7"),
    **dict.fromkeys("KRH", "#2f7ab8"),
    **dict.fromkeys("DE", "#d55e00"),
}
_BASES = {"A": "#009e73", "C": "#2f7ab8", "G": "#f0b429", "T": "#d55e00", "U": "#d55e00"}
_WIDTH, _GLYPH = 0.2, 0.94  # inches per site, and the share of it that a letter fills
_LEAST, _MOST = 4.0, 22.0  # limits of the width of a figure, in inches
_SMALLEST = 0.01  # letters below this share of the axis are not drawn
_DASH = 0.22  # height of the gap sign, as a share of its place in the stack


def logo(
    values: Any,
    letters: str | None = None,
    *,
    weights: Any = None,
    limit: float | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a sequence logo: a stack of letters at each site.

    Sequences are drawn as in Schneider & Stephens (1990): the stack of a site is as high as its information content,
    log2 q minus the entropy of its q letters, in bits, and the height of a letter in it is proportional to its
    frequency. The gap counts as a letter, but is not drawn.

    Other values (sites, letters), such as the weights of a hidden unit, are the heights of the letters: positive ones
    above the axis, negative ones below, the largest outside.

    Args:
        values: an :class:`harmonium.data.Alignment`, one-hot sequences (n, sites, letters) or heights (sites, letters).
        letters: one letter for each state; not needed for an alignment.
        weights: weight of each sequence, (n,), for their frequencies.
        limit: upper end of the axis, and for heights with negative values minus its lower end.
        title: title of the figure.
        ax: axes to draw on.

    >>> figure = logo(np.array([[0.5, -0.2, 0.0], [0.1, 0.3, -0.4]]), "AC-")
    >>> len(figure.axes[0].collections)
    1
    """
    if letters is None:
        letters = getattr(values, "alphabet", None)
        if letters is None:
            raise InvalidOption("letters: expected one letter for each state, found none")
    array = style.as_array(getattr(values, "rows", values))
    if array.ndim not in (2, 3) or array.shape[-1] != len(letters) or 0 in array.shape:
        raise InvalidData(
            f"values: expected shape (n, sites, {len(letters)}) or (sites, {len(letters)}) for the letters "
            f"{letters}, found {array.shape}"
        )
    counts = array.ndim == 3
    heights = _information(array, weights, letters) if counts else array
    with style.look():
        ax = style.axes(ax, (float(np.clip(0.9 + _WIDTH * len(heights), _LEAST, _MOST)), 1.9))
        _draw(ax, heights, letters, limit)
        ax.set_xlabel("site")
        ax.set_ylabel("information (bits)" if counts else "weight")
        return style.titled(ax, title)


def hidden_logos(rbm: RBM, letters: str, *, n: int = 6, title: str | None = None) -> Figure:
    """Draw the weights of the ``n`` hidden units with the largest norms as logos, strongest first, on one scale.

    Weights are shown in the zero-sum gauge: at each site they sum to zero over the letters. A change of this sum is a
    change of the hidden bias, so the gauge does not change the machine. A letter above the axis increases the field of
    the hidden unit, one below decreases it (Tubiana et al. 2019, figure 2).
    """
    if not isinstance(rbm.visible.support, OneHot) or rbm.visible.shape[-1] != len(letters):
        raise InvalidOption(
            f"letters: expected one for each state of one-hot visible units, found {len(letters)} letters for "
            f"{rbm.visible.name()} units of shape {rbm.visible.shape}"
        )
    weights = style.as_array(rbm.coupling.matrix()).T.reshape(-1, rbm.visible.sites, len(letters))
    weights = weights - weights.mean(-1, keepdims=True)
    order = np.argsort(-np.linalg.norm(weights, axis=(1, 2)), kind="stable")[:n]
    if not len(order):
        raise InvalidOption(f"n: expected at least one hidden unit, found {n}")
    limit = max(np.clip(sign * weights[order], 0, None).sum(-1).max() for sign in (1, -1))
    with style.look():
        width = float(np.clip(0.9 + _WIDTH * rbm.visible.sites, _LEAST, _MOST))
        figure = style.new_figure((width, 1.75 * len(order) + 0.3 * bool(title)))
        for ax, unit in zip(figure.subplots(len(order), squeeze=False)[:, 0], order, strict=True):
            logo(weights[unit], letters, limit=1.05 * float(limit) or 1.0, title=f"hidden unit {unit}", ax=ax)
            if unit != order[-1]:
                ax.set_xlabel("")
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def contact_map(
    ranking: ContactRanking, sites: int, *, n: int | None = None, title: str | None = None, ax: Axes | None = None
) -> Figure:
    """Draw scores of pairs of sites, and the ``n`` pairs with the highest scores (by default as many as sites).

    Scores are above the diagonal. Below it are the first pairs; with known contacts (gray squares) pairs in contact are
    blue and others orange. Sites are counted from 1.
    """
    first, second = (ranking.pairs[:, k].cpu().numpy() for k in (0, 1))
    shown = np.full((sites, sites), np.nan)
    shown[second, first] = style.as_array(ranking.scores)  # rows are the vertical axis
    count = min(sites if n is None else n, len(first))
    hits = None if ranking.hits is None else style.as_array(ranking.hits)
    with style.look():
        ax = style.axes(ax, (4.8, 4.2))
        ends = (0.5, sites + 0.5)
        limit = float(np.nanmax(np.abs(shown))) or 1.0
        drawn = ax.imshow(shown, cmap=style.DIVERGING, vmin=-limit, vmax=limit, origin="lower", extent=(*ends, *ends))
        if hits is not None:
            near = np.full((sites, sites), np.nan)
            near[first, second] = np.where(hits == 1, 1.0, np.nan)
            ax.imshow(near, cmap="Greys", vmin=0, vmax=3.2, origin="lower", extent=(*ends, *ends))
        colors: Any = style.INK
        if hits is not None:
            colors = [style.ACCENT if hit == 1 else style.SECOND if hit == 0 else style.FAINT for hit in hits[:count]]
        ax.scatter(second[:count] + 1, first[:count] + 1, s=14, c=colors, zorder=2, linewidths=0)
        if hits is not None:
            for color, label, marker in (
                (style.ACCENT, "contact", "o"),
                (style.SECOND, "no contact", "o"),
                ("#c4c4c4", "known contacts", "s"),
            ):
                ax.scatter([], [], s=18, color=color, marker=marker, label=label, linewidths=0)
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=8.5, borderaxespad=0.2,
                      handletextpad=0.2, columnspacing=1.2)  # fmt: skip
        ax.plot(ends, ends, color=style.FAINT, linewidth=0.8)
        ax.set(xlabel=f"site (below: the first {count} pairs)", ylabel="site (above: scores)", xlim=ends, ylim=ends)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        bar = style.figure_of(ax).colorbar(drawn, ax=ax, shrink=0.85, pad=0.02, aspect=25)
        bar.set_label("corrected norm of the couplings")
        bar.outline.set_visible(False)
        if title:
            ax.set_title(title, pad=8 if hits is None else 24)
    return style.figure_of(ax)


def mutation_map(
    values: Any,
    letters: str,
    sequence: Any = None,
    *,
    limit: float | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a table of single mutations (sites, letters), as returned by ``harmonium.tasks.mutations``, as a heat map.

    Dots mark the letters of the wild type, which are those of ``sequence`` (one-hot, (sites, letters)). Unfavorable
    mutations are blue, favorable ones red. Colors saturate at ``limit``, by default the 99 % quantile of magnitudes.
    """
    table = style.as_array(values)
    if table.ndim != 2 or table.shape[1] != len(letters):
        raise InvalidData(f"values: expected shape (sites, {len(letters)}), found {table.shape}")
    limit = (float(np.quantile(np.abs(table), 0.99)) or 1.0) if limit is None else limit
    with style.look():
        ax = style.axes(ax, (float(np.clip(1.6 + _WIDTH * len(table), _LEAST, _MOST)), 0.9 + 0.15 * len(letters)))
        style.heat_map(ax, table.T, (-limit, limit), "ln p(mutant) − ln p(wild type)", style.DIVERGING)
        ax.set_yticks(range(len(letters)), labels=list(letters), fontsize=7)
        if sequence is not None:
            wild = style.as_array(sequence).argmax(-1)
            ax.scatter(range(len(wild)), wild, s=5, color=style.INK, linewidths=0)
            ax.set_xlabel("site and letter of the wild type")
        _number_sites(ax, len(table), None if sequence is None else [letters[k] for k in wild])
        ax.set_ylabel("mutant")
        return style.titled(ax, title)


# -- letters --------------------------------------------------------------------------------------------------------


def _information(rows: np.ndarray, weights: Any, letters: str) -> np.ndarray:
    """Heights of the letters, frequency times information content in bits: (sites, letters), 0 for the gap."""
    share = np.ones(len(rows)) if weights is None else style.as_array(weights)
    if share.shape != (len(rows),):
        raise InvalidData(f"weights: expected one for each of {len(rows)} sequences, found shape {share.shape}")
    frequency = np.tensordot(share / share.sum(), rows, 1)
    terms = np.zeros_like(frequency)
    np.log2(frequency, out=terms, where=frequency > 0)
    information = np.log2(len(letters)) + (frequency * terms).sum(-1, keepdims=True)
    heights = frequency * information
    heights[:, [letter == "-" for letter in letters]] = 0
    return heights


def _draw(ax: Axes, heights: np.ndarray, letters: str, limit: float | None) -> None:
    top = np.clip(heights, 0, None).sum(-1).max()
    bottom = np.clip(-heights, 0, None).sum(-1).max()
    upper = limit if limit is not None else 1.05 * float(top) or 1.0
    lower = 0.0 if bottom == 0 else -(limit if limit is not None else 1.05 * float(bottom))
    colors = _BASES if set(letters) <= {*_BASES, "-"} else _AMINO_ACIDS
    paths, faces = [], []
    for site, row in enumerate(heights):
        for sign in (1, -1):
            reached = 0.0
            for state in np.argsort(sign * row, kind="stable"):  # the largest is drawn last, farthest from the axis
                height = sign * row[state]
                if height <= 0:
                    continue
                if height > _SMALLEST * (upper - lower):
                    low = reached if sign > 0 else -reached - height
                    paths.append(_placed(letters[state], site + 1, low, height))
                    faces.append(colors.get(letters[state], style.FAINT if letters[state] == "-" else style.INK))
                reached += height
    ax.add_collection(PathCollection(paths, facecolors=faces, edgecolors="none"))
    ax.set(xlim=(0.4, len(heights) + 0.6), ylim=(lower, upper))
    ax.axhline(0, color=style.INK, linewidth=0.8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=min(len(heights), 16)))
    ax.yaxis.set_major_locator(MaxNLocator(4))


def _placed(letter: str, site: int, low: float, height: float) -> Outline:
    """The outline of a letter in its place: ``site`` is its center."""
    if letter == "-":  # a letter stretched to its whole place would be a block
        low, height = low + height * (1 - _DASH) / 2, height * _DASH
    place = Affine2D().scale(_GLYPH, height).translate(site - _GLYPH / 2, low)
    return place.transform_path(_glyph(letter))


@cache
def _glyph(letter: str) -> Outline:
    """The outline of a letter, stretched to the unit square."""
    outline = TextPath((0, 0), letter, size=10, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = outline.get_extents()
    scale = Affine2D().translate(-box.x0, -box.y0)
    # a narrow letter such as I keeps its shape, in the middle
    width = max(box.width, 0.6 * box.height) if letter in "Iil1|" else box.width
    scale = scale.scale(1 / width, 1 / (box.height or 1)).translate((1 - box.width / width) / 2, 0)
    return scale.transform_path(outline)


def _number_sites(ax: Axes, sites: int, letters: list[str] | None) -> None:
    """Label sites from 1, each with its letter if there is room."""
    if letters is not None and sites <= 80:
        labels = [f"{letter}\n{k + 1}" if (k + 1) % 5 == 0 or k == 0 else letter for k, letter in enumerate(letters)]
        ax.set_xticks(range(sites), labels=labels, fontsize=7)
        return
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x + 1:.0f}"))
    if not ax.get_xlabel():
        ax.set_xlabel("site")
