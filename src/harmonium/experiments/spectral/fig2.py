"""Figure 2: the singular values of noise, and how modes leave the bulk along training."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ...analysis import MarchenkoPastur, SpectralHistory, Spectrum
from ...plots import spectrum_histogram, style
from ..record import Record
from .trained import STD, Machines, on_machines, table

_FOLLOWS = 0.03  # largest distance of the distributions
_MANY = 20  # outliers
_SPIKE = 2.0  # times the share of noise among the smallest


@on_machines
def run(record: Record, trained: Machines) -> None:
    """The spectrum before training, when the first modes stand out, and at the end."""
    history = trained.history()
    noise = MarchenkoPastur(*history.spectra[0].size, STD)
    early = first_outliers(history)
    shown = {"at the start": 0, f"epoch {history.epochs[early]:g}": early, f"epoch {history.epochs[-1]:g}": -1}
    record.table("spectra", table(history))
    record.figure("fig2", _figure({name: history.spectra[k] for name, k in shown.items()}, noise))
    _claims(record, history, noise, early)


def first_outliers(history: SpectralHistory, least: int = 3) -> int:
    """The number of the first checkpoint with some modes above the noise; the last one where there is none."""
    for k, above in enumerate(history.outliers):
        if above >= least:
            return k
    return len(history.epochs) - 1


def distance(found: Spectrum, noise: MarchenkoPastur) -> float:
    """The largest difference between the shares of modes below a value, as found and as the law has it."""
    values = np.sort(style.as_array(found.values))
    share = noise.share_below(values)
    steps = np.arange(len(values) + 1) / len(values)
    return float(max(np.abs(share - steps[1:]).max(), np.abs(share - steps[:-1]).max()))


def _claims(record: Record, history: SpectralHistory, noise: MarchenkoPastur, early: int) -> None:
    start, last = history.spectra[0], history.spectra[-1]
    apart = distance(start, noise)
    record.claim(
        "before training the singular values follow the law of Marchenko and Pastur",
        f"largest distance of the distributions {apart:.3f} ({len(start)} modes, std {STD})",
        apart <= _FOLLOWS,
    )
    record.claim(
        "with training some singular values overcome the edge of the bulk",
        f"{history.outliers[0]} above it at the start, {history.outliers[early]} at epoch {history.epochs[early]:g}",
        history.outliers[0] == 0 < history.outliers[early] < len(start) / 2,
    )
    record.claim(
        "after a long training many outliers are spread above the threshold",
        f"{history.outliers[-1]} of {len(last)} modes, from {noise.threshold:.2f} to {last.values[0].item():.2f}",
        history.outliers[-1] >= _MANY and last.values[0].item() > 2 * noise.threshold,
    )
    low = start.values.quantile(0.1).item()
    share = (last.values < low).double().mean().item()
    record.claim(
        "and singular values below the threshold pile up near zero",
        f"{share:.0%} lie below {low:.3f}, where a tenth lay at the start",
        share >= 0.1 * _SPIKE,
    )


def _figure(shown: dict[str, Spectrum], noise: MarchenkoPastur) -> Figure:
    with style.look():
        figure = Figure(figsize=(10.2, 2.9), layout="constrained")
        for ax, (name, found) in zip(figure.subplots(1, len(shown)), shown.items(), strict=True):
            spectrum_histogram(found, noise=noise, ax=ax)
            above = int((found.values > noise.threshold).sum())
            ax.set_title(f"{name}: {above} above the noise")
    return figure
