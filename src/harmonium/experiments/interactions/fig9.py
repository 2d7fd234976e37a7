"""Figure 9: the typical weight, and the error of the small-weight limit, by the number of hidden units."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.figure import Figure

from ...plots import style
from ..record import Record
from .counting import ACTIVATIONS, NONLINEAR
from .fig5 import COLOURS
from .fig8 import small_against_exact
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
                "rms_weight": weight[a][k],
                **({"relative_error": error[a][k]} if a in error else {}),
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
                    trained.sizes, part, "o-", color=COLOURS[activation], markersize=4, linewidth=1.2, label=activation
                )
            ax.set(xlabel="hidden units M", yscale="log")
            ax.set_title(title)
            ax.legend(fontsize=8)
    record.figure("fig9", figure)
    several = len(trained.sizes) > 1
    for words, values in (
        ("the typical weight decreases with M for every activation function", weight),
        ("the error of the small-weight limit of the couplings decreases with M", error),
    ):
        for activation, part in values.items():
            record.claim(
                f"{activation}: {words}",
                ", ".join(f"{value:.3g} (M = {m})" for m, value in zip(trained.sizes, part, strict=True)),
                all(b < a for a, b in pairwise(part)) if several else None,
            )


def typical_weight(trained: Machines, activation: str, size: int) -> float:
    """√⟨w²⟩."""
    return trained.machine(activation, size).coupling.matrix().detach().square().mean().sqrt().item()
