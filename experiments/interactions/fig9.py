"""Figure 9: the typical weight, and the error of the small-weight limit, by the number of hidden units."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.figure import Figure

from harmonium.plots import style

from ..judging import THREE_SIGMA, brief, claim, increasing
from ..record import Record
from .counting import ACTIVATIONS, NONLINEAR
from .drawing import curves_by_size
from .replicates import columns, measured
from .trained import Machines, on_machines


@on_machines
def run(record: Record, trained: Machines) -> None:
    """All machines."""
    weight = {a: [trained.typical_weight(a, m) for m in trained.sizes] for a in ACTIVATIONS}
    error = {a: [trained.small_against_exact(a, m).relative_error for m in trained.sizes] for a in NONLINEAR}
    record.table(
        "by_size",
        [
            {
                "activation": a,
                "hidden": m,
                **columns("rms_weight", weight[a][k]),
                **(columns("relative_error", error[a][k]) if a in error else {}),
            }
            for a in ACTIVATIONS
            for k, m in enumerate(trained.sizes)
        ],
    )
    with style.look():
        figure = Figure(figsize=(7.6, 3.2), layout="constrained")
        for ax, values, title in zip(
            figure.subplots(1, 2),
            (weight, error),
            ("root mean square weight", "relative error of eq. (19)"),
            strict=True,
        ):
            curves_by_size(ax, trained.sizes, {a: [float(value[0]) for value in part] for a, part in values.items()})
            ax.set_yscale("log")
            ax.set_title(title)
            ax.legend(fontsize=8)
    record.figure("fig9", figure)
    for words, values in (
        ("the typical weight decreases with M for every activation function", weight),
        ("the error of the small-weight limit of the couplings decreases with M", error),
    ):
        for activation, part in values.items():
            claim(
                record,
                f"{activation}: {words}",
                ", ".join(f"{brief(measured(v))} (M = {m})" for m, v in zip(trained.sizes, part, strict=True)),
                increasing((measured(a - b) for a, b in pairwise(part)), THREE_SIGMA),
                trained.differs(50, 1200),
            )
