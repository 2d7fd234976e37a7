"""Figure 2: the singular values of noise, and how modes leave the bulk along training."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from harmonium.plots import spectrum_histogram, style
from harmonium.spectra import MarchenkoPastur, SpectralHistory, Spectrum

from ..judging import IF_TRUE, Verdict, bootstrap, claim
from ..record import Record
from .trained import Machines, on_machines, table

_FOLLOWS = 0.03  # largest distance of distributions that follow the law
_DRAWS, _CHANCE = 99, 0.01  # number of random matrices, and significance level
_SOME, _MANY = 3, 20  # outliers
_CLEARLY = 1.1  # times the threshold
_SPREAD = 2.0  # times the threshold, for the strongest
_LOW, _SPIKE = 0.1, 2.0  # share of the smallest at the start, and its least growth


@on_machines
def run(record: Record, trained: Machines) -> None:
    """The spectrum before training, when the first modes stand out, and at the end."""
    history = trained.history()
    noise = MarchenkoPastur(*history.spectra[0].size, trained.reading.std)
    early = first_outliers(history)
    shown = {"at the start": 0, f"epoch {history.epochs[early]:g}": early, f"epoch {history.epochs[-1]:g}": -1}
    record.table("spectra", table(history))
    record.figure("fig2", _figure({name: history.spectra[k] for name, k in shown.items()}, noise))
    _claims(record, history, noise, early, trained.difference)


def first_outliers(history: SpectralHistory, least: int = 3) -> int:
    """The index of the first checkpoint with ``least`` modes above the noise; of the last one if there is none."""
    for k, above in enumerate(history.outliers):
        if above >= least:
            return k
    return len(history.epochs) - 1


def distance(found: Spectrum, noise: MarchenkoPastur) -> float:
    """The largest difference between the cumulative distributions of the singular values and of the law."""
    return _distance(np.sort(style.as_array(found.values)), noise)


def _distance(values: np.ndarray, noise: MarchenkoPastur) -> float:
    share = noise.share_below(values)
    steps = np.arange(len(values) + 1) / len(values)
    return float(max(np.abs(share - steps[1:]).max(), np.abs(share - steps[:-1]).max()))


def drawn_distances(noise: MarchenkoPastur, seed: int = 0) -> np.ndarray:
    """The same for random matrices."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(_DRAWS):
        matrix = draw.normal(scale=noise.std, size=(noise.rows, noise.columns))
        values = np.sqrt(np.linalg.eigvalsh(matrix.T @ matrix if noise.columns < noise.rows else matrix @ matrix.T))
        found.append(_distance(np.sort(values), noise))
    return np.array(found)


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(record: Record, history: SpectralHistory, noise: MarchenkoPastur, early: int, difference: str) -> None:
    start, last = history.spectra[0], history.spectra[-1]
    apart, drawn = distance(start, noise), drawn_distances(noise)
    record.claim(
        "before training the singular values follow the law of Marchenko and Pastur",
        f"largest distance of the distributions {apart:.4f} ({len(start)} modes, std {noise.std}); "
        f"{np.quantile(drawn, 0.5):.4f} in the median of {len(drawn)} random matrices, at most {drawn.max():.4f}",
        judge_noise(apart, drawn),
    )
    claim(
        record,
        "with training some singular values overcome the edge of the bulk",
        f"{history.outliers[0]} above it at the start, {history.outliers[early]} at epoch {history.epochs[early]:g}",
        judge_overcome(history.outliers[0], history.outliers[early], len(start)),
        difference,
        IF_TRUE,
    )
    values = style.as_array(last.values)
    claim(
        record,
        "after a long training many outliers are spread above the threshold",
        f"{int((values > _CLEARLY * noise.threshold).sum())} of {len(last)} modes are more than {_CLEARLY} times "
        f"above it, the first {values[0] / noise.threshold:.2f} times",
        judge_spread(values, noise.threshold),
        difference,
        IF_TRUE,
    )
    low = start.values.quantile(_LOW).item()
    share = (values < low).mean()
    claim(
        record,
        "and singular values below the threshold pile up near zero",
        f"{share:.0%} lie below {low:.3f}, where a tenth lay at the start",
        judge_spike(values, low),
        difference,
        IF_TRUE,
    )


def judge_noise(apart: float, drawn: np.ndarray) -> Verdict:
    """From the distance of the distributions, and those of random matrices.

    Criterion: the distance is at most FOLLOWS, and more than CHANCE of the random matrices are as far away. Open if
    random matrices of that size are too far from the law as well.
    """
    if ((drawn >= apart).sum() + 1) / (len(drawn) + 1) <= _CHANCE:
        return False
    return True if apart <= _FOLLOWS else None


def judge_overcome(before: int, after: int, modes: int) -> Verdict:
    """Criterion: at least SOME modes, but fewer than half, exceed the 99.9 % quantile of noise, and none did before."""
    return None if before else _SOME <= after < modes / 2


def judge_spread(values: np.ndarray, threshold: float) -> Verdict:
    """Criterion: MANY modes are CLEARLY above the threshold, and the first by a factor of SPREAD."""
    return bool((values > _CLEARLY * threshold).sum() >= _MANY and values.max() > _SPREAD * threshold)


def judge_spike(values: np.ndarray, low: float) -> Verdict:
    """Criterion: the share of modes below ``low`` is more than SPIKE times that at the start, LOW. It fails if the
    share has decreased, and is open in between, as the length of the training is not published."""
    share = bootstrap(np.mean, values < low)
    return True if share.above(_SPIKE * _LOW) else False if share.below(_LOW) else None


def _figure(shown: dict[str, Spectrum], noise: MarchenkoPastur) -> Figure:
    with style.look():
        figure = Figure(figsize=(10.2, 2.9), layout="constrained")
        for ax, (name, found) in zip(figure.subplots(1, len(shown)), shown.items(), strict=True):
            spectrum_histogram(found, noise=noise, ax=ax)
            above = int((found.values > noise.threshold).sum())
            ax.set_title(f"{name}: {above} above the noise")
    return figure
