"""Figure 6: the TAP solutions of binary-MNIST along training, in the plane that Isomap finds for the last of them."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.sparse.csgraph import connected_components
from sklearn.manifold import Isomap
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from ...analysis import Landscape
from ...plots import style
from ..record import Record
from .fig5 import Along, explore
from .trained import Machines, on_machines

DATASET = "binary-mnist"
_NEIGHBOURS = 5
_PANELS = 8
_SHUFFLES = 999
_CHANCE = 0.01


@on_machines
def run(record: Record, trained: Machines) -> None:
    """One machine, N_h = 100 where there is one."""
    along = explore(record, trained, DATASET)
    points = [states(part) for part in along.found]
    places = embed(points[-1], points)
    record.table(
        "places",
        [
            {"epoch": epoch, "x": x, "y": y, "free_energy": value, "starts": int(size)}
            for epoch, part, plane in zip(along.epochs, along.found, places, strict=True)
            for (x, y), value, size in zip(plane, part.free_energy.tolist(), part.sizes.tolist(), strict=True)
        ],
    )
    correlations = [correlation(part) for part in points]
    record.table(
        "spread",
        [
            {"epoch": epoch, "solutions": len(part), "correlation": "" if np.isnan(value) else value}
            for epoch, part, value in zip(along.epochs, points, correlations, strict=True)
        ],
    )
    record.figure("fig6", _figure(along, places))
    _claims(record, along, points, correlations)


def states(found: Landscape) -> np.ndarray:
    """Visible and hidden magnetisations of every solution, side by side: (solutions, units)."""
    return torch.cat([x.flatten(1) for x in found.solutions.magnetisations], 1).double().cpu().numpy()


def embed(fitted: np.ndarray, points: list[np.ndarray]) -> list[np.ndarray]:
    """``points`` in the plane that Isomap finds for ``fitted``; with fewer than four of those, zeros.

    Each has as many neighbours as it takes for all to be connected, from five on.
    """
    most = len(fitted) - 1
    if most < 3:
        return [np.zeros((len(part), 2)) for part in points]
    neighbours = min(_NEIGHBOURS, most)
    while neighbours < most and connected_components(kneighbors_graph(fitted, neighbours), directed=False)[0] > 1:
        neighbours = min(2 * neighbours, most)
    isomap = Isomap(n_neighbors=neighbours, n_components=2).fit(fitted)
    return [isomap.transform(part) if len(part) else np.empty((0, 2)) for part in points]


def correlation(points: np.ndarray) -> float:
    """The mean correlation of two solutions; NaN where there is one alone."""
    if len(points) < 2:
        return float("nan")
    matrix = np.corrcoef(points)
    return float((matrix.sum() - np.trace(matrix)) / (len(matrix) * (len(matrix) - 1)))


def smoothness(points: np.ndarray, values: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """How ``values`` correlate with their mean over the nearest solutions, and how often that comes by chance."""
    nearest = NearestNeighbors(n_neighbors=_NEIGHBOURS + 1).fit(points).kneighbors(points, return_distance=False)[:, 1:]

    def found(values: np.ndarray) -> float:
        return float(np.corrcoef(values, values[nearest].mean(1))[0, 1])

    draw, own = np.random.default_rng(seed), found(values)
    beyond = sum(found(draw.permutation(values)) >= own for _ in range(_SHUFFLES))
    return own, (beyond + 1) / (_SHUFFLES + 1)


def _claims(record: Record, along: Along, points: list[np.ndarray], correlations: list[float]) -> None:
    last = along.found[-1]
    if len(last) > 2 * _NEIGHBOURS:
        own, chance = smoothness(points[-1], style.as_array(last.free_energy))
        measured = (
            f"the free energy of a solution correlates by {own:.2f} with the mean of its {_NEIGHBOURS} nearest, "
            f"by chance as much in {chance:.3f} of the cases ({len(last)} solutions)"
        )
        holds: bool | None = chance <= _CHANCE
    else:
        measured, holds = f"{len(last)} solutions", None
    record.claim("free energies are not random over the solutions but go with their location", measured, holds)
    record.claim(
        "the solutions progress from few to many",
        ", ".join(f"{n} at epoch {epoch}" for epoch, n in zip(along.epochs, along.counts, strict=True)),
        along.counts[0] <= along.counts[-1] / 10,
    )
    several = [(epoch, value) for epoch, value in zip(along.epochs, correlations, strict=True) if not np.isnan(value)]
    record.claim(
        "they start from a highly correlated state and then diversify",
        "mean correlation of two solutions: " + ", ".join(f"{value:.2f} at epoch {epoch}" for epoch, value in several),
        several[-1][1] < several[0][1] if len(several) > 1 else None,
    )


def _figure(along: Along, places: list[np.ndarray]) -> Figure:
    """Colours run from the lowest to the highest free energy of each epoch, as published."""
    some = [k for k, part in enumerate(along.found) if len(part)]
    shown = [some[k] for k in np.unique(np.linspace(0, len(some) - 1, _PANELS).round().astype(int))]
    with style.look():
        columns = 4
        lines = -(-len(shown) // columns)
        figure = Figure(figsize=(2.6 * columns, 2.6 * lines + 0.3), layout="constrained")
        grid = np.atleast_1d(figure.subplots(lines, columns, sharex=True, sharey=True)).ravel()
        for ax, k in zip(grid, shown, strict=False):
            depth = style.as_array(along.found[k].free_energy)
            level = (depth - depth.min()) / (np.ptp(depth) or 1.0)
            ax.scatter(*places[-1].T, s=4, color=style.FAINT, alpha=0.35, linewidths=0)
            drawn = ax.scatter(*places[k].T, s=16, c=level, cmap="viridis", vmin=0, vmax=1, linewidths=0)
            ax.set_title(f"epoch {along.epochs[k]}: {len(depth)}")
            ax.set_xticks([])
            ax.set_yticks([])
        for ax in grid[len(shown) :]:
            ax.set_visible(False)
        bar = figure.colorbar(drawn, ax=list(grid), shrink=0.6, pad=0.01, ticks=[0, 1])
        bar.ax.set_yticklabels(["lowest", "highest"])
        bar.set_label("free energy")
        bar.outline.set_visible(False)
    return figure
