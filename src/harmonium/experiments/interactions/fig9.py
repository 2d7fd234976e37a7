"""Figure 9: the typical weight, and the error of the small-weight limit, by the number of hidden units."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.figure import Figure
from torch import Tensor

from ...plots import style
from ..record import Record
from .counting import ACTIVATIONS, NONLINEAR
from .fig5 import COLORS
from .fig8 import small_against_exact
from .judging import brief, claim, increasing, kept, measured, strength, unit_blocks
from .trained import Machines, on_machines


@on_machines
def run(record: Record, trained: Machines) -> None:
    """All machines."""
    weight = {a: [typical_weight(trained, a, m) for m in trained.sizes] for a in ACTIVATIONS}
    error = {a: [small_against_exact(trained, a, m).relative_error for m in trained.sizes] for a in NONLINEAR}
    record.table(
        "by_size",
        [
            {
                "activation": a,
                "hidden": m,
                **_columns("rms_weight", weight[a][k]),
                **(_columns("relative_error", error[a][k]) if a in error else {}),
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
            for activation, part in values.items():
                ax.plot(
                    trained.sizes,
                    [float(value[0]) for value in part],
                    "o-",
                    color=COLORS[activation],
                    markersize=4,
                    linewidth=1.2,
                    label=activation,
                )
            ax.set(xlabel="hidden units M", yscale="log")
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
                increasing(measured(a - b) for a, b in pairwise(part)),  # each step down by three standard errors
                trained.differs(50, 1200),
            )


def _columns(name: str, values: Tensor) -> dict[str, float]:
    value, error = measured(values)
    return {name: value, f"{name}_se": error}


def typical_weight(trained: Machines, activation: str, size: int) -> Tensor:
    """√⟨w²⟩ with its replicates over blocks of visible units: (1 + blocks,)."""
    rows = trained.machine(activation, size).coupling.matrix().detach().double().square().mean(1).sqrt()
    return strength(rows, kept(trained.tuples(1), unit_blocks(len(rows))))
