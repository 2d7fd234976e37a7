"""Figure 8: couplings in the limit of small weights, eq. (19), against the exact ones, eq. (14)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.figure import Figure

from harmonium.plots import interaction_scatter, style

from ..judging import THREE_SIGMA, Measured, Verdict, claim, every, negate
from ..record import Record
from .counting import NONLINEAR
from .replicates import measured
from .trained import Machines, on_machines

_GOOD = 0.95  # correlation of "pretty good estimates"
_UNIT = 0.1  # from slope 1


@on_machines
def run(record: Record, trained: Machines) -> None:
    """Three sizes of the non-linear machines."""
    sizes = trained.some(100, 400, 1200)
    found = {
        (activation, size): trained.small_against_exact(activation, size) for activation in NONLINEAR for size in sizes
    }
    record.table(
        "small_against_exact",
        [{"activation": a, "hidden": m, **c.row()} for (a, m), c in found.items()],
    )
    with style.look():
        figure = Figure(figsize=(4.0 * len(sizes), 3.5 * len(NONLINEAR)), layout="constrained")
        grid = np.array(figure.subplots(len(NONLINEAR), len(sizes), squeeze=False))
        for line, activation in zip(grid, NONLINEAR, strict=True):
            for ax, size in zip(line, sizes, strict=True):
                exact, small = (
                    trained.interactions(activation, size, 2, method=method) for method in ("exact", "small")
                )
                interaction_scatter(
                    exact, small, labels=("exact", "small weights"), title=f"{activation}, M = {size}", ax=ax
                )
    record.figure("fig8", figure)
    many, few = ([key for key in found if (key[1] >= 400) == least] for least in (True, False))
    for keys, claimed, judge, needed in (
        (many, "pretty good estimates of the couplings unless M is small (M ≥ 400)", judge_good, (400, 1200)),
        (
            few,
            "no such good estimates, for at least one activation function, if M is small (M = 100)",
            judge_bad,
            (100,),
        ),
    ):
        claim(
            record,
            f"the limit of small weights gives {claimed}",
            "; ".join(f"{a}, M = {m}: {found[a, m].words()}" for a, m in keys) or "no such sizes",
            judge((measured(found[key].slope), measured(found[key].pearson)) for key in keys),
            trained.differs(*needed),  # weights grow in training, so that the limit is better after fewer epochs
        )


def judge_good(slopes_and_correlations: Iterable[tuple[Measured, Measured]]) -> Verdict:
    """Estimates are "pretty good": slopes within 1 ± 0.1, correlations above 0.95, all of them."""
    return every(
        every((slope.between(1 - _UNIT, 1 + _UNIT, THREE_SIGMA), r.above(_GOOD, THREE_SIGMA)))
        for slope, r in slopes_and_correlations
    )


def judge_bad(slopes_and_correlations: Iterable[tuple[Measured, Measured]]) -> Verdict:
    """At least one of the estimates is not "pretty good"."""
    return negate(judge_good(slopes_and_correlations))
