"""Figure 10: three-body interactions of machines with different activation functions, against each other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np
from matplotlib.figure import Figure

from harmonium.plots import interaction_scatter, style

from ..judging import THREE_SIGMA, Measured, Verdict, brief, claim, every, increasing
from ..record import Record
from .counting import NONLINEAR
from .replicates import SCALED, measured
from .trained import Machines, on_machines


@on_machines
def run(record: Record, trained: Machines) -> None:
    """Two sizes, the same random triplets of visible units for every machine."""
    sizes, pairs = trained.some(400, 1200), list(combinations(NONLINEAR, 2))
    found = {
        (order, *pair, size): trained.compare(order, (pair[1], size), (pair[0], size))
        for order in (1, 2, 3)
        for pair in pairs
        for size in sizes
    }
    record.table(
        "agreement",
        [
            {
                "order": order,
                "first": a,
                "second": b,
                "hidden": m,
                **c.row(),
            }
            for (order, a, b, m), c in found.items()
        ],
    )
    with style.look():
        figure = Figure(figsize=(4.1 * len(pairs), 3.6 * len(sizes)), layout="constrained")
        for line, size in zip(np.array(figure.subplots(len(sizes), len(pairs), squeeze=False)), sizes, strict=True):
            for ax, pair in zip(line, pairs, strict=True):
                x, y = (trained.interactions(activation, size, 3) for activation in pair)
                interaction_scatter(x, y, labels=pair, title=f"three-body, M = {size}", ax=ax)
    record.figure("fig10", figure)
    keys = [(a, b, m) for a, b in pairs for m in sizes]
    gains = {key: found[2, *key].pearson - found[3, *key].pearson for key in keys}
    claim(
        record,
        "couplings agree across activation functions better than triplets",
        "correlation of couplings minus that of triplets: "
        + "; ".join(f"{a}–{b}, M = {m} {brief(measured(gain))}" for (a, b, m), gain in gains.items()),
        judge_better(map(measured, gains.values())),
        trained.differs(400, 1200),
    )
    claim(
        record,
        "triplets of different activation functions are not related by a linear scaling",
        "; ".join(f"{a}–{b}, M = {m}: {found[3, a, b, m].words()}" for a, b, m in keys),
        judge_unrelated(measured(found[3, *key].pearson) for key in keys),
        trained.differs(400, 1200),
    )


def judge_better(gains: Iterable[Measured]) -> Verdict:
    """One order agrees better than the next: every difference of correlations is positive."""
    return increasing(gains, THREE_SIGMA)


def judge_unrelated(correlations: Iterable[Measured]) -> Verdict:
    """Not related by a linear scaling: every correlation is below 0.8, the least of points that are so related."""
    return every(r.below(SCALED, THREE_SIGMA) for r in correlations)
