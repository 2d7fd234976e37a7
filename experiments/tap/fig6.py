"""Figure 6: the TAP solutions of binary-MNIST along training, in the plane that Isomap finds for the last of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.neighbors import NearestNeighbors

from harmonium.landscape import Landscape
from harmonium.plots import style

from ..judging import ALWAYS, IF_TRUE, Measured, Verdict, claim, jackknife
from ..record import Record
from .landscapes import NEIGHBORS, PUBLISHED, Along, embed, explore, judge_many
from .trained import Machines, on_machines

DATASET = "binary-mnist"
_PANELS = 8
_SHUFFLES = 999
_CHANCE = 0.01
_SMOOTH = 0.3  # least correlation of a free energy with those of the nearest solutions
_ENOUGH = 50  # number of solutions for a negative verdict
_SEVERAL = 5  # least number of solutions for a mean correlation
_CORRELATED = 0.7  # "highly correlated"
_DIVERSE = 0.1  # least decrease of the correlation


@on_machines
def run(record: Record, trained: Machines) -> None:
    """One machine, N_h = 100 if there is one."""
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
    record.table(
        "spread",
        [
            {
                "epoch": epoch,
                "solutions": len(part),
                "correlation": "" if math.isnan(found.value) else found.value,
                "standard_error": "" if math.isnan(found.error) else found.error,
            }
            for epoch, part, found in zip(along.epochs, points, map(correlation, points), strict=True)
        ],
    )
    record.figure("fig6", _figure(along, places))
    _claims(record, along, points, trained.difference(DATASET, PUBLISHED[DATASET]))


def states(found: Landscape) -> np.ndarray:
    """Visible and hidden magnetizations of every solution, concatenated: (solutions, units)."""
    return torch.cat([x.flatten(1) for x in found.solutions.magnetizations], 1).double().cpu().numpy()


def correlation(points: np.ndarray) -> Measured:
    """The mean correlation of two solutions, with the error from a jackknife over solutions; NaN for one."""
    if len(points) < 2:
        return Measured(math.nan, math.nan)
    matrix = np.corrcoef(points)
    n, total = len(matrix), matrix.sum() - np.trace(matrix)
    value = total / (n * (n - 1))
    if n == 2:
        return Measured(float(value), math.nan)
    without = (total - 2 * (matrix.sum(0) - np.diag(matrix))) / ((n - 1) * (n - 2))
    return jackknife(float(value), without)


def smoothness(points: np.ndarray, values: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """The correlation of ``values`` with their mean over the nearest solutions, and its p-value under permutations."""
    nearest = NearestNeighbors(n_neighbors=NEIGHBORS + 1).fit(points).kneighbors(points, return_distance=False)[:, 1:]

    def found(values: np.ndarray) -> float:
        return float(np.corrcoef(values, values[nearest].mean(1))[0, 1])

    draw, own = np.random.default_rng(seed), found(values)
    beyond = sum(found(draw.permutation(values)) >= own for _ in range(_SHUFFLES))
    return own, (beyond + 1) / (_SHUFFLES + 1)


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(record: Record, along: Along, points: list[np.ndarray], difference: str) -> None:
    last = along.found[-1]
    if len(last) > 2 * NEIGHBORS:
        own, chance = smoothness(points[-1], style.as_array(last.free_energy))
        measured = (
            f"the free energy of a solution correlates by {own:.2f} with the mean of its {NEIGHBORS} nearest, "
            f"p = {chance:.3f} under permutations ({len(last)} solutions)"
        )
        holds = judge_smooth(own, chance, len(last))
    else:
        measured, holds = f"{len(last)} solutions", None
    claim(
        record,
        "free energies are not random over the solutions but depend on their location",
        measured,
        holds,
        difference,
        ALWAYS,
    )
    claim(
        record,
        "the solutions progress from few to many",
        ", ".join(f"{n} at epoch {epoch}" for epoch, n in zip(along.epochs, along.counts, strict=True)),
        judge_many([part.sizes.tolist() for part in along.found]),
        difference,
        IF_TRUE,
    )
    several = [(e, correlation(part)) for e, part in zip(along.epochs, points, strict=True) if len(part) >= _SEVERAL]
    values = [value for _, value in several]
    record.claim(
        "the solutions start from a highly correlated state",
        "mean correlation of two solutions: "
        + (f"{values[0]:.2f} at epoch {several[0][0]}, the first with {_SEVERAL}" if several else "too few solutions"),
        judge_correlated(values),
    )
    claim(
        record,
        "and then diversify",
        "mean correlation of two solutions: "
        + (", ".join(f"{value:.2f} at epoch {epoch}" for epoch, value in several) or "too few solutions"),
        judge_diversify(values),
        difference,
        IF_TRUE,
    )


def judge_smooth(own: float, chance: float, solutions: int) -> Verdict:
    """Criterion: the correlation with the neighbors exceeds SMOOTH, with a p-value of at most CHANCE.

    With fewer than ENOUGH solutions a failure is open.
    """
    if own > _SMOOTH and chance <= _CHANCE:
        return True
    return False if solutions >= _ENOUGH else None


def judge_correlated(values: Sequence[Measured]) -> Verdict:
    """Criterion: at the first epoch with SEVERAL solutions, their mean correlation exceeds CORRELATED."""
    return values[0].above(_CORRELATED) if values else None


def judge_diversify(values: Sequence[Measured]) -> Verdict:
    """Criterion: the mean correlation of two solutions falls from the first to the last epoch by more than DIVERSE."""
    return values[0].minus(values[-1]).above(_DIVERSE) if len(values) > 1 else None


def _figure(along: Along, places: list[np.ndarray]) -> Figure:
    """Colors range from the lowest to the highest free energy of each epoch, as published."""
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
