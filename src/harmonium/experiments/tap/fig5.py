"""Figure 5: free energies and number of the TAP solutions along training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.signal import find_peaks
from scipy.stats import gaussian_kde, spearmanr

from ...analysis import Landscape, landscape
from ...analysis.landscape import HEALTHY
from ...plots import style
from ..record import Record
from .trained import DATASETS, Machines, on_machines

#: hidden units of the machines in the figure
PUBLISHED = {"binary-mnist": 100, "real-mnist": 100, "cbcl": 256}
GREEN = "#4f8f4a"
_SLICES = 4  # epochs whose distribution is shown
_FEW = 20  # solutions, below which a distribution says nothing
_STEADY = 0.9  # rank correlation with the epoch
_PEAK = 0.05  # of the highest one, by which a further peak stands out


@dataclass(frozen=True)
class Along:
    """The landscapes of one machine at the epochs that were kept."""

    hidden: int
    epochs: list[int]
    found: list[Landscape]

    @property
    def counts(self) -> list[int]:
        """Distinct solutions."""
        return [len(part) for part in self.found]

    @property
    def means(self) -> list[float]:
        """The Helmholtz free energy by uniform averaging."""
        return [part.free_energy.double().mean().item() for part in self.found]


@on_machines
def run(record: Record, trained: Machines) -> None:
    """One machine for each set of pictures."""
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


def explore(record: Record, trained: Machines, dataset: str) -> Along:
    """The solutions that are reached from the training rows."""
    size = trained.size(dataset, PUBLISHED[dataset])
    rows = trained.rows(dataset)[trained.probes(dataset)]
    kept = trained.along(dataset, size)
    along = Along(size, [epoch for epoch, _ in kept], [landscape(machine, rows) for _, machine in kept])
    record.say(f"{dataset}, {size} hidden units: {along.found[-1].diagnosis}")
    return along


def _claims(record: Record, trained: Machines, dataset: str, along: Along) -> None:
    counts, epochs = along.counts, along.epochs
    listed = ", ".join(f"{n} at {epoch}" for epoch, n in zip(epochs, counts, strict=True))
    record.claim(
        f"{dataset}: the number of solutions starts at 1",
        f"{counts[0]} before training, {counts[1]} at epoch {epochs[1]}",
        counts[0] == 1,
    )
    rank = float(spearmanr(epochs, counts).statistic) if max(counts) > min(counts) else 0.0
    record.claim(
        f"{dataset}: it increases steadily with training",
        f"solutions at epochs: {listed}; rank correlation {rank:.2f}",
        rank >= _STEADY,
    )
    top = int(np.argmax(along.means))
    record.claim(
        f"{dataset}: the free energy increases early in training, then gradually declines",
        f"mean {along.means[0]:.1f} before training, highest {along.means[top]:.1f} at epoch {epochs[top]}, "
        f"{along.means[-1]:.1f} at the end",
        0 < top < len(epochs) - 1 and epochs[top] <= epochs[-1] / 2,
    )
    many = [(epoch, part) for epoch, part in zip(epochs, along.found, strict=True) if len(part) >= _FEW]
    number = {epoch: len(peaks(part)) for epoch, part in many}
    record.claim(
        f"{dataset}: the free energies have several modes",
        f"peaks of the density at epochs with {_FEW} solutions or more: "
        + (", ".join(f"{n} at {epoch}" for epoch, n in number.items()) or "no such epoch"),
        all(n > 1 for n in number.values()) if number else None,
    )
    if dataset == "binary-mnist":
        _share(record, trained, dataset, along)


def _share(record: Record, trained: Machines, dataset: str, along: Along) -> None:
    """At the end, where solutions are most, from as many starts as published: their share falls as starts are added."""
    rows = trained.published_probes(dataset)
    last = along.found[-1]
    if last.starts < len(rows):
        last = landscape(trained.machine(dataset, along.hidden), rows)
    record.claim(
        f"{dataset}: with 100 hidden units the solutions are fewer than a tenth of the starts",
        f"N_h = {along.hidden}: {len(last)} from {last.starts} starts, {last.share:.1%} of those that converged "
        f"({last.converged:.0%})",
        last.share < HEALTHY if along.hidden == PUBLISHED[dataset] else None,
    )


def peaks(found: Landscape) -> np.ndarray:
    """The free energies at which their density (Gaussian kernels, Scott's rule) has a maximum of its own."""
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
    colours = [style.FAINT, GREEN, style.SECOND, style.ACCENT][-len(shown) :]
    for k, colour in zip(shown, colours, strict=True):
        values = style.as_array(along.found[k].free_energy)
        ax.hist(values, bins=20, density=True, color=colour, alpha=0.3)
        if values.std() > 0:
            grid = _grid(values)
            ax.plot(grid, gaussian_kde(values)(grid), color=colour, linewidth=1.4, label=f"epoch {along.epochs[k]}")
    ax.set_xlabel("free energy, nats")
    ax.set_yticks([])
    ax.legend(fontsize=8)
