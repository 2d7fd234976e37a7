"""Figure 5: free energies and number of the TAP solutions along training."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.signal import find_peaks
from scipy.stats import gaussian_kde, spearmanr

from harmonium.landscape import Landscape, find_solutions
from harmonium.landscape.solutions import HEALTHY
from harmonium.plots import style

from ..judging import ALWAYS, IF_TRUE, PERCENT_99, Measured, Verdict, bootstrap, claim, every, mean
from ..record import Record
from .landscapes import PUBLISHED, Along, explore
from .trained import DATASETS, Machines, on_machines

GREEN = "#4f8f4a"
_SLICES = 4  # epochs whose distribution is shown
_FEW = 20  # least number of solutions for a distribution
_ENOUGH = 100  # number of solutions among which two modes would be seen
_FEW_EPOCHS = 5  # least number of epochs of a curve
_RARE = 0.01  # largest share of the starts of a solution that may be missed
_STEADY = 0.9  # least rank correlation with the epoch
_RISE, _DECLINE = 1.0, 0.1  # of the free energy: in nats, and as a share of the rise
_CHANCE = 0.05
_RESAMPLES = 200
_PEAK = 0.05  # least prominence of a peak, relative to the highest


@on_machines
def run(record: Record, trained: Machines) -> None:
    """One machine for each data set."""
    found = {dataset: explore(record, trained, dataset) for dataset in DATASETS}
    record.table(
        "solutions",
        [
            {
                "dataset": dataset,
                "hidden": along.hidden,
                "epoch": epoch,
                "starts": part.starts,
                "converged": part.converged,
                "solutions": len(part),
                "mean_free_energy": mean,
                "lowest": part.free_energy.min().item() if len(part) else "",
                "highest": part.free_energy.max().item() if len(part) else "",
                "peaks": len(peaks(part)) or "",
            }
            for dataset, along in found.items()
            for epoch, part, mean in zip(along.epochs, along.found, along.means, strict=True)
        ],
    )
    record.table(
        "free_energies",
        [
            {"dataset": dataset, "epoch": epoch, "free_energy": value, "starts": int(size)}
            for dataset, along in found.items()
            for epoch, part in zip(along.epochs, along.found, strict=True)
            for value, size in zip(part.free_energy.tolist(), part.sizes.tolist(), strict=True)
        ],
    )
    record.figure("fig5", _figure(found))
    for dataset, along in found.items():
        _claims(record, trained, dataset, along)


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(record: Record, trained: Machines, dataset: str, along: Along) -> None:
    counts, epochs = along.counts, along.epochs
    difference = trained.difference(dataset, PUBLISHED[dataset])
    listed = ", ".join(f"{n} at {epoch}" for epoch, n in zip(epochs, counts, strict=True))
    start = along.found[0]
    record.claim(
        f"{dataset}: the number of solutions starts at 1",
        f"{counts[0]} before training from {start.starts} starts, of which {start.converged:.0%} converge",
        judge_single(start.sizes.tolist(), start.starts),
    )
    basins = np.stack([part.basin.cpu().numpy() for part in along.found])
    claim(
        record,
        f"{dataset}: it increases steadily with training",
        f"solutions at epochs: {listed}; rank correlation {steadiness(epochs, basins):.2f}",
        judge_steady(epochs, basins),
        difference,
        ALWAYS,
    )
    means = [mean_free_energy(part) for part in along.found]
    top = int(np.argmax(along.means))
    # with a large learning rate the rise may end before the first epoch; a short training may end before the decline
    claim(
        record,
        f"{dataset}: the free energy increases early in training, then gradually declines",
        f"mean {means[0]:.1f} before training, highest {means[top]:.1f} at epoch {epochs[top]}, "
        f"{means[-1]:.1f} at the end",
        judge_hump(epochs, means),
        difference,
        IF_TRUE,
    )
    many = {epoch: part for epoch, part in zip(epochs, along.found, strict=True) if len(part) >= _FEW}
    chances = {epoch: one_mode(style.as_array(part.free_energy)) for epoch, part in many.items()}
    claim(
        record,
        f"{dataset}: the free energies have several modes",
        f"p-value of one mode, at epochs with {_FEW} solutions or more: "
        + (", ".join(f"{chance:.2f} at {epoch}" for epoch, chance in chances.items()) or "no such epoch"),
        every(judge_modes(chance, len(many[epoch])) for epoch, chance in chances.items()),
        difference,
        IF_TRUE,
    )
    if dataset != "cbcl":  # the claim is about digits only
        _share(record, trained, dataset, along, difference)


def _share(record: Record, trained: Machines, dataset: str, along: Along, difference: str) -> None:
    """At the end, with the largest number of solutions, from as many starts as published, which lower the share."""
    rows = trained.published_probes(dataset)
    last = along.found[-1]
    if last.starts < len(rows):
        last = find_solutions(trained.machine(dataset, along.hidden), rows)
    claim(
        record,
        f"{dataset}: with {PUBLISHED[dataset]} hidden units the solutions are fewer than a tenth of the starts",
        f"N_h = {along.hidden}: {len(last)} from {last.starts} starts, {len(last) / last.starts:.1%}; "
        f"{last.converged:.0%} of the starts converge",
        judge_share(last.sizes.tolist(), last.starts, shorter=bool(difference)),
        difference,
        ALWAYS,
    )


def judge_single(sizes: Sequence[int], starts: int) -> Verdict:
    """From the number of starts of each solution.

    Criterion: one solution has all starts, and there are enough of them to exclude others that more than RARE of the
    starts would lead to.
    """
    if len(sizes) > 1:
        return False
    enough = (1 - _RARE) ** starts < 1 - PERCENT_99.value
    return True if len(sizes) == 1 and sizes[0] == starts and enough else None


def steadiness(epochs: Sequence[float], basins: np.ndarray, seed: int = 0) -> Measured:
    """The rank correlation of the number of solutions with the epoch, with the error from resampling the starts.

    ``basins`` (epochs, starts) has the index of the solution of every start, -1 for none.
    """

    def rank(starts: np.ndarray) -> float:
        counts = [len(np.unique(row[row >= 0])) for row in starts.T]
        return float(spearmanr(epochs, counts).statistic) if max(counts) > min(counts) else 0.0

    return bootstrap(rank, basins.T, resamples=100, seed=seed)


def judge_steady(epochs: Sequence[float], basins: np.ndarray) -> Verdict:
    """Criterion: the rank correlation exceeds STEADY. Open with fewer than FEW_EPOCHS or FEW solutions."""
    counts = [len(np.unique(row[row >= 0])) for row in basins]
    if len(epochs) < _FEW_EPOCHS or max(counts) < _FEW:
        return None
    return steadiness(epochs, basins).above(_STEADY)


def mean_free_energy(found: Landscape) -> Measured:
    """The uniform average over the distinct solutions; without error if there is only one."""
    values = style.as_array(found.free_energy)
    return mean(values) if len(values) > 1 else Measured(float(values[0]) if len(values) else math.nan)


def judge_hump(epochs: Sequence[float], means: Sequence[Measured]) -> Verdict:
    """Criterion: the highest mean free energy is in the first half of the training, more than RISE nats above the start
    and above the end by more than DECLINE of that rise.
    """
    if len(means) < _FEW_EPOCHS or any(math.isnan(value.value) for value in means):
        return None
    top = max(range(len(means)), key=lambda k: means[k].value)
    risen = means[top].minus(means[0])
    if risen.above(_RISE) is not True:
        return risen.above(_RISE)
    early = epochs[top] <= epochs[-1] / 2
    fallen = means[top].minus(means[-1]).above(_DECLINE * risen.value)
    return every([early, fallen])


def one_mode(values: np.ndarray, seed: int = 0) -> float:
    """The p-value of one mode: Silverman's (1981) test with Gaussian kernels."""
    spread = values.std()
    if spread == 0:
        return 1.0
    points = (values - values.mean()) / spread
    width = _critical_width(points)
    draw = np.random.default_rng(seed)
    uneven = 0
    for _ in range(_RESAMPLES):
        drawn = draw.choice(points, len(points)) + width * draw.normal(size=len(points))
        drawn = drawn.mean() + (drawn - drawn.mean()) / math.sqrt(1 + width**2)
        uneven += _modes(drawn, width) > 1
    return (uneven + 1) / (_RESAMPLES + 1)


def _critical_width(points: np.ndarray) -> float:
    """The smallest width of kernels with which the density of ``points`` of variance 1 has one mode."""
    low, high = 0.0, 1.0
    while _modes(points, high) > 1:
        high *= 2
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if _modes(points, middle) > 1 else (low, middle)
    return high


def _modes(points: np.ndarray, width: float) -> int:
    grid = np.linspace(points.min() - 3 * width, points.max() + 3 * width, 512)
    density = np.exp(-0.5 * ((grid[:, None] - points[None]) / width) ** 2).sum(1)
    slope = np.sign(np.diff(density))
    slope = slope[slope != 0]
    return int(((slope[:-1] > 0) & (slope[1:] < 0)).sum())


def judge_modes(chance: float, solutions: int) -> Verdict:
    """Criterion: one mode has a p-value of at most CHANCE. If it has more, ENOUGH solutions refute the claim."""
    if chance <= _CHANCE:
        return True
    return False if solutions >= _ENOUGH else None


def judge_share(sizes: Sequence[int], starts: int, *, shorter: bool) -> Verdict:
    """From the number of starts of each solution.

    Criterion: fewer than HEALTHY distinct solutions per start, even if every start that did not converge led to its own
    solution. The error of their number is the root of the number of solutions with one start. The number grows with
    training, so that a training that is ``shorter`` than the published one cannot show that it stays small.
    """
    if starts == 0:
        return None
    lost = starts - sum(sizes)
    error = math.sqrt(sum(size == 1 for size in sizes)) / starts
    verdict = Measured((len(sizes) + lost) / starts, error).below(HEALTHY)
    if verdict is not True:
        return False if Measured(len(sizes) / starts, error).above(HEALTHY) else None
    return None if shorter else True


# -- the figure -----------------------------------------------------------------------------------------------------


def peaks(found: Landscape) -> np.ndarray:
    """The free energies at which their density (Gaussian kernels, Scott's rule) has a maximum."""
    values = style.as_array(found.free_energy)
    if len(values) < 3 or values.std() == 0:
        return np.empty(0)
    grid = _grid(values)
    density = gaussian_kde(values)(grid)
    return np.asarray(grid[find_peaks(density, prominence=_PEAK * density.max())[0]])


def _grid(values: np.ndarray) -> np.ndarray:
    reach = 0.3 * (values.max() - values.min())
    return np.linspace(values.min() - reach, values.max() + reach, 300)


def _figure(found: dict[str, Along]) -> Figure:
    with style.look():
        figure = Figure(figsize=(4.2 * len(found), 5.6), layout="constrained")
        above, below = figure.subplots(2, len(found))
        for ax, detail, (dataset, along) in zip(above, below, found.items(), strict=True):
            _depths(ax, along)
            ax.set_title(f"{dataset}, $N_h$ = {along.hidden}")
            _slices(detail, along)
        above[0].set_ylabel("free energy, nats")
        below[0].set_ylabel("density")
    return figure


def _depths(ax: Axes, along: Along) -> None:
    for epoch, part in zip(along.epochs, along.found, strict=True):
        ax.plot(np.full(len(part), epoch), style.as_array(part.free_energy), ".", color=style.ACCENT, alpha=0.25,
                markersize=5, markeredgewidth=0)  # fmt: skip
    ax.plot(along.epochs, along.means, color="#c23b3b", label="mean")
    ax.set_xlabel("epoch")
    counts = ax.twinx()
    counts.plot(along.epochs, along.counts, color=GREEN, linewidth=1.2)
    counts.set_yscale("log")
    counts.yaxis.set_major_formatter("{x:g}")
    counts.yaxis.set_minor_formatter("")
    counts.tick_params(axis="y", colors=GREEN)
    counts.set_ylabel("solutions", color=GREEN)
    counts.spines["right"].set(visible=True, color=GREEN)


def _slices(ax: Axes, along: Along) -> None:
    """Histograms of the free energies at some epochs, about the mean of each."""
    many = [k for k, part in enumerate(along.found) if len(part) >= _FEW]
    if not many:
        ax.text(0.5, 0.5, f"never {_FEW} solutions", ha="center", transform=ax.transAxes, color=style.FAINT)
        ax.set_axis_off()
        return
    shown = [many[k] for k in np.unique(np.linspace(0, len(many) - 1, _SLICES).round().astype(int))]
    colors = [style.FAINT, GREEN, style.SECOND, style.ACCENT][-len(shown) :]
    for k, color in zip(shown, colors, strict=True):
        values = style.as_array(along.found[k].free_energy)
        ax.hist(values, bins=20, density=True, color=color, alpha=0.3)
        if values.std() > 0:
            grid = _grid(values)
            ax.plot(grid, gaussian_kde(values)(grid), color=color, linewidth=1.4, label=f"epoch {along.epochs[k]}")
    ax.set_xlabel("free energy, nats")
    ax.set_yticks([])
    ax.legend(fontsize=8)
