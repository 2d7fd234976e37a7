"""Figure 7: the rows that TAP starts from and the solutions it converges to, in one plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from harmonium.landscape import Landscape, find_solutions
from harmonium.plots import mosaic, style

from .. import judging
from ..judging import IF_TRUE, Measured, Verdict, bootstrap, every
from ..record import Record
from .landscapes import embed, judge_many
from .trained import DATASETS, Machines, on_machines

#: hidden units of the machines in the figure
PUBLISHED = {"binary-mnist": 100, "real-mnist": 500, "cbcl": 256}
CLASSES = (3, 6, 7)
COLORS = (style.ACCENT, style.SECOND, "#4f8f4a")
_PANELS = 4  # epochs; 1, 3, 25 and 100 in the paper
_TILES = 8  # solutions shown below each panel
_SPREAD = 0.5  # least spread, relative to that of the rows
_SEVERAL = 20  # least number of solutions for statements about their location
_DENSE = 0.9  # times the distance of the mean of the rows
_ALIKE = 0.1  # least excess of the probability that rows of one basin have the same class
_SHUFFLES = 999
_CHANCE = 0.01


@dataclass(frozen=True)
class Explored:
    """Solutions reached from ``rows`` at some epochs, and the positions of both in the plane of the rows."""

    hidden: int
    rows: Tensor
    labels: Tensor | None
    epochs: list[int]
    found: list[Landscape]
    plane: np.ndarray
    places: list[np.ndarray]


@on_machines
def run(record: Record, trained: Machines) -> None:
    """Every data set; three classes of the digits."""
    found = {dataset: explore(record, trained, dataset) for dataset in DATASETS}
    record.table(
        "places",
        [
            {"dataset": dataset, "epoch": epoch, "x": x, "y": y, "starts": int(size)}
            for dataset, own in found.items()
            for epoch, part, places in zip(own.epochs, own.found, own.places, strict=True)
            for (x, y), size in zip(places, part.sizes.tolist(), strict=True)
        ],
    )
    record.figure("fig7", _figure(trained, found))
    for dataset, own in found.items():
        _claims(record, trained, dataset, own)


def explore(record: Record, trained: Machines, dataset: str) -> Explored:
    """TAP at four of the kept epochs."""
    size = trained.size(dataset, PUBLISHED[dataset])
    rows, labels = _starts(trained, dataset)
    kept = trained.along(dataset, size)
    wanted = [min(kept, key=lambda part: abs(part[0] - epoch))[0] for epoch in np.geomspace(1, kept[-1][0], _PANELS)]
    chosen = [(epoch, machine) for epoch, machine in kept if epoch in wanted]
    found = [find_solutions(machine, rows) for _, machine in chosen]
    record.say(f"{dataset}, {size} hidden units: {found[-1].diagnosis}")
    points = [part.solutions.magnetizations[0].flatten(1).double().cpu().numpy() for part in found]
    data = rows.double().cpu().numpy()
    plane, *places = embed(data, [data, *points])
    return Explored(size, rows, labels, [epoch for epoch, _ in chosen], found, plane, places)


def _starts(trained: Machines, dataset: str) -> tuple[Tensor, Tensor | None]:
    """As many rows as the scale explores; of digits, rows of three classes."""
    rows, labels = trained.rows(dataset), trained.labels(dataset)
    if dataset == "cbcl":
        return rows[trained.probes(dataset)], None
    assert labels is not None
    own = torch.nonzero(torch.isin(labels, torch.tensor(CLASSES))).flatten()
    own = own[torch.linspace(0, len(own) - 1, min(len(own), len(trained.probes(dataset)))).round().long()]
    return rows[own], labels[own]


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(record: Record, trained: Machines, dataset: str, own: Explored) -> None:
    difference = trained.difference(dataset, PUBLISHED[dataset])

    def claim(claimed: str, measured: str, verdict: Verdict) -> None:
        judging.claim(record, f"{dataset}: {claimed}", measured, verdict, difference, IF_TRUE)

    claim(
        "the solutions grow from few to many",
        ", ".join(f"{len(part)} at epoch {epoch}" for epoch, part in zip(own.epochs, own.found, strict=True)),
        judge_many([part.sizes.tolist() for part in own.found]),
    )
    spreads = {
        epoch: spread(part, own.plane)
        for epoch, part in zip(own.epochs, own.places, strict=True)
        if len(part) >= _SEVERAL
    }
    claim(
        "they keep a spread distribution over the data",
        f"standard deviation in the plane, that of the rows as one, with {_SEVERAL} solutions or more: "
        + (", ".join(f"{value:.2f} at epoch {epoch}" for epoch, value in spreads.items()) or "no such epoch"),
        judge_spread(list(spreads.values())),
    )
    near = Nearness.of(own.found[-1].solutions.magnetizations[0], own.rows)
    claim(
        "they lie within dense regions of the data",
        f"{len(near.solutions)} solutions; the median one is {median(near.solutions):.2f} from the nearest row; "
        f"rows are {median(near.rows):.2f} from each other, their mean is {near.center:.2f} from the nearest",
        judge_dense(near),
    )
    if own.labels is None:
        return
    share, base, chance = likeness(own.found[-1].basin, own.labels, trained.seed)
    claim(
        "solutions are attractors of similar rows",
        f"two rows of one basin have the same class in {share:.0%} of the cases, any two rows in {base:.0%}; "
        f"p = {chance:.3f} under permutations",
        judge_alike(share, base, chance),
    )


def median(values: np.ndarray) -> Measured:
    """The median, with the error from resampling."""
    return bootstrap(np.median, values) if len(values) else Measured(math.nan, math.nan)


def spread(places: np.ndarray, plane: np.ndarray) -> Measured:
    """The standard deviation of solutions (n, 2) in units of that of the rows (m, 2)."""
    return bootstrap(lambda x: float(np.sqrt(x.var(0).sum() / plane.var(0).sum())), places)


def judge_spread(values: Sequence[Measured]) -> Verdict:
    """Criterion: at every epoch with SEVERAL solutions their spread exceeds SPREAD of that of the rows."""
    return every(value.above(_SPREAD) for value in values)


@dataclass(frozen=True)
class Nearness:
    """Distances to the nearest row: of every solution, of every row from another, and of the mean of the rows."""

    solutions: np.ndarray
    rows: np.ndarray
    center: float

    @staticmethod
    def of(points: Tensor, rows: Tensor) -> Nearness:
        """From solutions and rows, each (n, *shape)."""
        data, own = (x.flatten(1).double().cpu().numpy() for x in (rows, points))
        tree = NearestNeighbors(n_neighbors=2).fit(data)
        away = tree.kneighbors(own)[0][:, 0] if len(own) else np.empty(0)
        return Nearness(away, tree.kneighbors(data)[0][:, 1], float(tree.kneighbors(data.mean(0)[None])[0][0, 0]))


def judge_dense(near: Nearness) -> Verdict:
    """Criterion: the median solution is nearer to a row than rows are to each other, and nearer than DENSE times the
    distance of the mean of all rows, a smooth image that is near many rows but not in a dense region. Open with fewer
    than SEVERAL solutions."""
    if len(near.solutions) < _SEVERAL:
        return None
    away = median(near.solutions)
    return every([away.minus(median(near.rows)).below(0), away.below(_DENSE * near.center)])


def judge_alike(share: float, base: float, chance: float) -> Verdict:
    """Criterion: two rows of a basin have the same class more often than any two rows, by more than ALIKE, with a
    p-value of at most CHANCE. Open if no two rows share a basin."""
    return None if math.isnan(share) else share - base > _ALIKE and chance <= _CHANCE


def likeness(basin: Tensor, labels: Tensor, seed: int = 0) -> tuple[float, float, float]:
    """The probability that two starts of one basin have the same class, that of any two starts, and the p-value under
    permutations of the labels; among the starts that converged."""
    reached = basin >= 0
    basin, labels = basin[reached], labels[reached]
    own, base = _same_class(basin, labels), _same_class(torch.zeros_like(basin), labels)
    generator = torch.Generator().manual_seed(seed)
    shuffled = (labels[torch.randperm(len(labels), generator=generator)] for _ in range(_SHUFFLES))
    beyond = sum(not _same_class(basin, other) < own for other in shuffled)
    return own, base, (beyond + 1) / (_SHUFFLES + 1)


def _same_class(basin: Tensor, labels: Tensor) -> float:
    """Of all pairs that share a basin, the share that also shares a class; NaN if there is no pair."""
    if len(basin) == 0:
        return float("nan")
    classes = torch.unique(labels, return_inverse=True)[1]
    both = torch.zeros(int(basin.max()) + 1, int(classes.max()) + 1, dtype=torch.float64)
    both.index_put_((basin, classes), torch.ones(len(basin), dtype=torch.float64), accumulate=True)
    alike, pairs = (float((n * (n - 1)).sum()) for n in (both, both.sum(1)))
    return alike / pairs if pairs else float("nan")


def _figure(trained: Machines, found: dict[str, Explored]) -> Figure:
    with style.look():
        columns = max(len(own.epochs) for own in found.values())
        figure = Figure(figsize=(2.9 * columns, 3.3 * len(found)), layout="constrained")
        grid = figure.subplots(2 * len(found), columns, height_ratios=[7, 1] * len(found), squeeze=False)
        for k, (dataset, own) in enumerate(found.items()):
            above, below = grid[2 * k], grid[2 * k + 1]
            for ax, strip, epoch, part, places in zip(above, below, own.epochs, own.found, own.places, strict=False):
                _plane(ax, own, places)
                ax.set_title(f"epoch {epoch}: {len(part)}")
                _strip(strip, part, trained.image(dataset), DATASETS[dataset].ink, trained.seed)
            above[0].set_ylabel(f"{dataset}, $N_h$ = {own.hidden}")
            for ax in (*above[len(own.epochs) :], *below[len(own.epochs) :]):
                ax.set_visible(False)
        grid[0, 0].legend(fontsize=7, markerscale=2, handletextpad=0.1, loc="best")
    return figure


def _plane(ax: Axes, own: Explored, places: np.ndarray) -> None:
    def dots(points: np.ndarray, size: float, color: str, label: str, alpha: float = 0.5) -> None:
        ax.scatter(points[:, 0], points[:, 1], s=size, color=color, alpha=alpha, linewidths=0, label=label)

    if own.labels is None:
        dots(own.plane, 4, style.SECOND, "rows")
    else:
        for digit, color in zip(CLASSES, COLORS, strict=True):
            dots(own.plane[own.labels.numpy() == digit], 4, color, f"digits ‘{digit}’")
    dots(places, 7, "black", "solutions", alpha=1.0)
    ax.set_xticks([])
    ax.set_yticks([])


def _strip(ax: Axes, part: Landscape, image: tuple[int, int, int], ink: bool, seed: int) -> None:
    """A random selection of the solutions as images, all of the same size."""
    ax.set_axis_off()
    if not len(part):
        return
    chosen = torch.randperm(len(part), generator=torch.Generator().manual_seed(seed))[:_TILES]
    pictures = part.solutions.magnetizations[0][chosen].view(-1, *image)
    drawn = mosaic(pictures, columns=len(chosen), limits=(0.0, 1.0), ink=ink)
    ax.imshow(drawn, interpolation="nearest")
    ax.set_xlim(0, drawn.shape[1] * _TILES / len(chosen))
