"""Figure 3: the first modes of the weights are the principal components of the data, until they interact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from harmonium.plots import mode_pictures, style
from harmonium.spectra import DataModes, SpectralHistory, Spectrum

from .. import judging
from ..judging import IF_TRUE, Measured, Verdict, jackknife
from ..record import Record
from .trained import Machines, on_machines

MODES = 10
PUBLISHED_UPDATES = 600, 6000  # of panels (e) and (f)
_CLEARLY = 1.2  # times the threshold of noise: a mode has emerged
_SAME = 0.9  # least |u·e| of a mode that is a component, relative to the largest possible in noise
_SEEN = 0.5  # least possible |u·e| in noise for a verdict
_DEFORMED = 0.05  # least decrease of the common share of the spaces


@on_machines
def run(record: Record, trained: Machines) -> None:
    """Visible fields that start at zero and at the mean; early and late modes next to the components."""
    plain, fitted = trained.history("zero"), trained.history("mean")
    about_zero, axes = trained.axes(centered=False), trained.axes()
    modes = min(MODES, len(fitted.spectra[0]))
    common = fitted.alignment(axes.axes, modes)
    early, late = when(fitted, trained.updates, printed=not trained.difference)
    record.table(
        "alignment",
        [
            {"epoch": epoch, "space": space, "first": mean, "first_of_zero_field": zero}
            for epoch, space, mean, zero in zip(
                fitted.epochs,
                common.tolist(),
                first(fitted, axes),
                first(plain, about_zero),
                strict=True,
            )
        ],
    )
    record.figure("fig3", _figure(trained, plain, fitted, about_zero, axes, early, late))
    _claims(record, trained, plain, fitted, early, late)


def when(history: SpectralHistory, updates: int, *, printed: bool) -> tuple[int, int]:
    """The indices of an early and of a late checkpoint of a history with ``updates`` per epoch.

    With the settings of the paper, those after as many updates as in 1 and 10 epochs of all 60 000 images; otherwise
    the first one at which MODES modes, or half of all, are above the noise, and the last.
    """
    if printed:
        nearest = [min(history.epochs, key=lambda epoch: abs(epoch * updates - n)) for n in PUBLISHED_UPDATES]
        return history.epochs.index(nearest[0]), history.epochs.index(nearest[1])
    enough = min(MODES, len(history.spectra[0]) // 2)
    return next((k for k, n in enumerate(history.outliers) if n >= enough), len(history.epochs) - 1), -1


def emerged(history: SpectralHistory) -> int | None:
    """The index of the first checkpoint with a mode CLEARLY above the threshold of noise; None if there is none."""
    threshold = _CLEARLY * history.spectra[0].noise.threshold
    return next((k for k, found in enumerate(history.spectra) if found.values[0].item() > threshold), None)


def first(history: SpectralHistory, axes: DataModes) -> list[float]:
    """|u¹·e¹| at every checkpoint."""
    return [same(found, axes) for found in history.spectra]


# -- verdicts -------------------------------------------------------------------------------------------------------


def _claims(
    record: Record, trained: Machines, plain: SpectralHistory, fitted: SpectralHistory, early: int, late: int
) -> None:
    difference = trained.difference

    def claim(claimed: str, measured: str, verdict: Verdict) -> None:
        judging.claim(record, claimed, measured, verdict, difference, IF_TRUE)

    axes = {
        centered: (trained.axes(centered=centered), trained.axes_without(centered=centered))
        for centered in (False, True)
    }
    for history, centered, words in (
        (
            plain,
            False,
            "visible fields from zero: the first mode learned is the first of the data, close to their mean",
        ),
        (fitted, True, "visible fields from the mean: the first mode learned is the first principal component"),
    ):
        k = emerged(history)
        if k is None:
            claim(words, "no mode emerges from the noise", None)
            continue
        whole, parts = axes[centered]
        best = jackknife(same(history.spectra[k], whole), [same(history.spectra[k], part) for part in parts])
        most = float(visible_through_noise(history.spectra[k], trained.reading.std)[0])
        claim(
            words,
            f"|u·e| = {best:.3f} at epoch {history.epochs[k]:g}, where it emerges; with the noise of the weights it "
            f"can be at most {most:.3f}",
            judge_same(best, most),
        )
    whole, parts = axes[True]
    modes = min(MODES, len(fitted.spectra[0]))
    spans = [[space(fitted.spectra[k], own, modes) for own in (whole, *parts)] for k in (early, late)]
    shared = [jackknife(value, without) for value, *without in spans]
    # the best of all checkpoints so far, as the batch size, and with it the number of updates, is not published
    seen = [(found, visible_through_noise(found, trained.reading.std)[:modes]) for found in fitted.spectra[: early + 1]]
    number, *numbers = (max(components(found, own, most) for found, most in seen) for own in (whole, *parts))
    claim(
        "early modes are the components of the data",
        f"at epoch {fitted.epochs[early]:g} the first {modes} modes span {shared[0]:.3f} of the space of the first "
        f"{modes} components; up to then at most {number:.0f} are one of these (|u·e| ≥ {_SAME} of the possible), "
        f"{min(numbers):.0f} to {max(numbers):.0f} without a tenth of the images",
        judge_components([number, *numbers], modes),
    )
    fall, *falls = (before - after for before, after in zip(*spans, strict=True))
    drop = jackknife(fall, falls)
    claim(
        "later the modes are deformed",
        f"at epoch {fitted.epochs[late]:g} they span {shared[1]:.3f}, a decrease of {drop:.3f}",
        judge_deformed(drop) if fitted.epochs[late] > fitted.epochs[early] else None,
    )


def same(found: Spectrum, axes: DataModes) -> float:
    """|u¹·e¹|."""
    return found.alignment(axes.axes[:1])[0, 0].item()


def space(found: Spectrum, axes: DataModes, modes: int) -> float:
    """The share of the space of the first components that the first modes span."""
    return found.alignment(axes.axes[:modes])[:modes].square().sum().item() / modes


def visible_through_noise(found: Spectrum, std: float) -> np.ndarray:
    """The largest possible |u·e| of each mode with a direction that was added to random weights: (modes,).

    A mode of strength θ in noise has the singular value √((1 + θ²)(c + θ²))/θ in units of std √columns, and its left
    vector the squared overlap 1 - c(1 + θ²)/(θ²(θ² + c)), with c = rows/columns (Benaych-Georges and Nadakuditi 2012).
    """
    rows, columns = found.size
    c = rows / columns
    half = ((style.as_array(found.values) / std) ** 2 / columns - 1 - c) / 2
    strength = half + np.sqrt(np.maximum(half**2 - c, 0))  # θ²; below √c the mode is noise
    with np.errstate(divide="ignore", invalid="ignore"):
        overlap = 1 - c * (1 + strength) / (strength * (strength + c))
    return np.sqrt(np.where(strength > np.sqrt(c), np.maximum(overlap, 0), 0))


def components(found: Spectrum, axes: DataModes, most: np.ndarray) -> float:
    """How many of the first modes are one of the first components, within the limits of noise."""
    best = style.as_array(found.alignment(axes.axes[: len(most)])[: len(most)].max(1).values)
    return float(((best >= _SAME * most) & (most >= _SEEN)).sum())


def judge_same(overlap: Measured, most: float) -> Verdict:
    """Criterion: |u·e| exceeds SAME of the largest value possible with the noise of the weights, at the checkpoint
    where the mode emerges. Open if that value is less than SEEN."""
    return overlap.above(_SAME * most) if most >= _SEEN else None


def judge_components(numbers: Sequence[float], modes: int) -> Verdict:
    """From the number of components among the modes at the best early checkpoint, with all images and without tenths.

    Criterion: at least half of the modes are.
    """
    if min(numbers) >= modes / 2:
        return True
    return False if max(numbers) < modes / 2 else None


def judge_deformed(drop: Measured) -> Verdict:
    """Criterion: the common share of the spaces decreases by more than DEFORMED."""
    return drop.above(_DEFORMED)


# -- the figure -----------------------------------------------------------------------------------------------------


def _figure(
    trained: Machines,
    plain: SpectralHistory,
    fitted: SpectralHistory,
    about_zero: DataModes,
    axes: DataModes,
    early: int,
    late: int,
) -> Figure:
    k = emerged(plain) or 0
    series: list[tuple[str, Spectrum | DataModes]] = [
        (f"Fields from zero: modes at epoch {plain.epochs[k]:g}", plain.spectra[k]),
        ("Data, about zero", about_zero),
        (f"Fields from the mean: modes at epoch {fitted.epochs[early]:g}", fitted.spectra[early]),
        ("Principal components of the data", axes),
        (f"Modes at epoch {fitted.epochs[late]:g}", fitted.spectra[late]),
    ]
    with style.look():
        figure = Figure(figsize=(8.2, 1.12 * len(series)), layout="constrained")
        for ax, (title, modes) in zip(figure.subplots(len(series), 1), series, strict=True):
            mode_pictures(modes, trained.image, n=MODES, title=title, ax=ax)
    return figure
