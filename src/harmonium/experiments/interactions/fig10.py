"""Figure 10: three-body interactions of machines with different activation functions, against each other."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from matplotlib.figure import Figure

from ...plots import interaction_scatter, style
from ..record import Record
from .counting import NONLINEAR
from .trained import Machines, on_machines

_NO_RELATION = 0.8  # correlation that couplings of machines "related by a linear scaling" reach


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
                "number": c.number,
                "slope": c.slope,
                "correlation": c.pearson,
                "relative_error": c.relative_error,
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
    every = {(a, b, m): trained.compare(1, (b, m), (a, m), live=False) for a, b in pairs for m in sizes}
    names = ("fields of live units", "couplings", "triplets")
    order = {name: {key: found[k, *key] for key in every} for k, name in enumerate(names, 1)}
    order["fields of all units"] = every
    for high, low in (
        ("fields of live units", "couplings"),
        ("fields of all units", "couplings"),
        ("couplings", "triplets"),
    ):
        record.claim(
            f"{high} agree across activation functions better than {low}",
            "; ".join(
                f"{a}–{b}, M = {m}: {order[high][a, b, m].pearson:.2f} > {order[low][a, b, m].pearson:.2f}?"
                for a, b, m in every
            ),
            all(order[high][key].pearson > order[low][key].pearson for key in every),
        )
    record.claim(
        "triplets of different activation functions are not related by a linear scaling",
        ", ".join(f"{a}–{b} r {found[3, a, b, m].pearson:.2f} (M = {m})" for m in sizes for a, b in pairs),
        all(found[3, a, b, m].pearson < _NO_RELATION for a, b in pairs for m in sizes),
    )
