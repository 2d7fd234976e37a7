"""Figure 3: the first modes of the weights are the principal components of the data, until they interact."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...analysis import DataModes, SpectralHistory, Spectrum
from ...plots import mode_pictures, style
from ..record import Record
from .trained import Machines, on_machines

MODES = 10
_SAME = 0.9  # |u·e| of a mode that is a component
_DEFORMED = 0.05  # by which the common share of the spaces has fallen at the end


@on_machines
def run(record: Record, trained: Machines) -> None:
    """Visible fields that start at zero and at the mean; modes early and at the end beside the components."""
    plain, fitted = trained.history("zero"), trained.history("mean")
    about_zero, axes = trained.axes(centred=False), trained.axes()
    modes = min(MODES, len(fitted.spectra[0]))
    common = fitted.alignment(axes.axes, modes)
    early = int(common.argmax())
    record.table(
        "alignment",
        [
            {"epoch": epoch, "space": space, "first": mean, "first_of_zero_field": zero}
            for epoch, space, mean, zero in zip(
                fitted.epochs,
                common.tolist(),
                first(fitted, axes).tolist(),
                first(plain, about_zero).tolist(),
                strict=True,
            )
        ],
    )
    record.figure("fig3", _figure(trained, plain, fitted, about_zero, axes, early))
    _claims(record, plain, fitted, about_zero, axes, common)


def first(history: SpectralHistory, axes: DataModes) -> Tensor:
    """|u¹·e¹| at every checkpoint: (checkpoints,)."""
    return torch.stack([found.alignment(axes.axes[:1])[0, 0] for found in history.spectra])


def _claims(
    record: Record,
    plain: SpectralHistory,
    fitted: SpectralHistory,
    about_zero: DataModes,
    axes: DataModes,
    common: Tensor,
) -> None:
    for history, of, words in (
        (plain, about_zero, "visible fields from zero: the first mode learnt is the data's first, close to their mean"),
        (fitted, axes, "visible fields from the mean: the first mode learnt is the first principal component"),
    ):
        best = first(history, of)
        k = int(best.argmax())
        record.claim(words, f"|u·e| = {best[k].item():.3f} at epoch {history.epochs[k]:g}", best[k].item() >= _SAME)
    early = int(common.argmax())
    share = common[early].item()
    diagonal = fitted.spectra[early].alignment(axes.axes)
    strong = int((diagonal[:MODES, :MODES].max(1).values >= _SAME).sum())
    record.claim(
        "early modes are the components of the data",
        f"at epoch {fitted.epochs[early]:g} the first {MODES} modes span {share:.0%} of the space of the "
        f"first {MODES} components; {strong} of them are one of these (|u·e| ≥ {_SAME})",
        strong >= MODES / 2,
    )
    record.claim(
        "later the modes are deformed",
        f"at epoch {fitted.epochs[-1]:g} they span {common[-1].item():.0%}",
        early < len(common) - 1 and share - common[-1].item() >= _DEFORMED,
    )


def _figure(
    trained: Machines,
    plain: SpectralHistory,
    fitted: SpectralHistory,
    about_zero: DataModes,
    axes: DataModes,
    early: int,
) -> Figure:
    k = int(first(plain, about_zero).argmax())
    series: list[tuple[str, Spectrum | DataModes]] = [
        (f"Fields from zero: modes at epoch {plain.epochs[k]:g}", plain.spectra[k]),
        ("Data, about zero", about_zero),
        (f"Fields from the mean: modes at epoch {fitted.epochs[early]:g}", fitted.spectra[early]),
        ("Principal components of the data", axes),
        (f"Modes at epoch {fitted.epochs[-1]:g}", fitted.spectra[-1]),
    ]
    with style.look():
        figure = Figure(figsize=(8.2, 1.12 * len(series)), layout="constrained")
        for ax, (title, modes) in zip(figure.subplots(len(series), 1), series, strict=True):
            mode_pictures(modes, trained.image, count=MODES, title=title, ax=ax)
    return figure
