"""Figure 7: fields and couplings of machines with different activation functions, against those of Exponential."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ...analysis import Comparison
from ...plots import interaction_scatter, style
from ..record import Record
from .counting import ACTIVATIONS
from .trained import Machines, on_machines

REFERENCE = "Exponential"
OTHERS = tuple(name for name in ACTIVATIONS if name != REFERENCE)
_ALIGNED = 0.8  # correlation of what lies along a line
_UNIT = 0.2  # from slope 1, of what lies along y = x
_NEGATIVE = -4.0  # fields of pixels that are hardly ever on
_EQUAL = 0.1


@on_machines
def run(record: Record, trained: Machines) -> None:
    """Orders 1 and 2 at three sizes."""
    sizes = trained.some(50, 400, 1200)
    found = {
        (order, activation, size): trained.compare(order, (activation, size), (REFERENCE, size))
        for order in (1, 2)
        for activation in OTHERS
        for size in sizes
    }
    record.table(
        "agreement",
        [
            {
                "order": order,
                "activation": a,
                "reference": REFERENCE,
                "hidden": m,
                "number": c.number,
                "slope": c.slope,
                "correlation": c.pearson,
                "relative_error": c.relative_error,
            }
            for (order, a, m), c in found.items()
        ],
    )
    record.figure("fig7", _figure(trained, sizes))
    _claims(record, trained, sizes, found)


def _claims(
    record: Record, trained: Machines, sizes: tuple[int, ...], found: dict[tuple[int, str, int], Comparison]
) -> None:
    def words(order: int, size: int) -> str:
        parts = [(a, found[order, a, size]) for a in OTHERS]
        return f"M = {size}: " + ", ".join(
            f"{a} r {c.pearson:.2f}, slope {c.slope:.2f}, error {c.relative_error:.2f}" for a, c in parts
        )

    error = {m: {a: found[1, a, m].relative_error for a in OTHERS} for m in sizes}
    record.claim(
        "fields: those of ReLU are nearest to those of Exponential, Linear follows, Step differs most",
        "; ".join(words(1, m) for m in sizes),
        all(part["ReLU"] < part["Linear"] < part["Step"] for part in error.values()),
    )
    change = max(_negative_change(trained, a, m) for a in OTHERS for m in sizes)
    record.claim(
        "large negative fields are equal across activation functions",
        f"below {_NEGATIVE:g} for Exponential: root mean square difference at most {change:.1%} of their size",
        change <= _EQUAL,
    )
    large = [m for m in sizes if m >= 400]
    relu = [found[2, "ReLU", m] for m in large]
    record.claim(
        "couplings of ReLU and Exponential align well for M ≳ 400",
        "; ".join(words(2, m) for m in large or sizes[-1:]),
        all(c.pearson >= _ALIGNED and abs(c.slope - 1) <= _UNIT for c in relu) if relu else None,
    )
    step = [found[2, "Step", m] for m in large]
    record.claim(
        "couplings of Step are those of Exponential up to a linear scaling for M ≳ 400",
        ", ".join(f"r {c.pearson:.2f} about a slope of {c.slope:.2f}" for c in step) or "no such sizes at this scale",
        all(c.pearson >= _ALIGNED for c in step) if step else None,
    )
    record.claim(
        "couplings of Linear vary much more about those of Exponential than those of the non-linear machines",
        "; ".join(words(2, m) for m in large or sizes[-1:]),
        all(found[2, "Linear", m].pearson < min(found[2, a, m].pearson for a in ("ReLU", "Step")) for m in large)
        if large
        else None,
    )
    for which, live in (("live units", True), ("all units", False)):
        fields = {(a, m): trained.compare(1, (a, m), (REFERENCE, m), live) for a in OTHERS for m in sizes}
        record.claim(
            f"whatever M, fields (of {which}) agree better than couplings",
            "; ".join(
                f"M = {m}: "
                + ", ".join(f"{a} {fields[a, m].pearson:.2f} > {found[2, a, m].pearson:.2f}?" for a in OTHERS)
                for m in sizes
            ),
            all(fields[a, m].pearson > found[2, a, m].pearson for a in OTHERS for m in sizes),
        )


def _negative_change(trained: Machines, activation: str, size: int) -> float:
    reference, other = (trained.interactions(a, size, 1) for a in (REFERENCE, activation))
    chosen = reference < _NEGATIVE
    return Comparison.of(other[chosen], reference[chosen]).relative_error if bool(chosen.any()) else 0.0


def _figure(trained: Machines, sizes: tuple[int, ...]) -> Figure:
    """Rows: order and activation function; columns: sizes. Fields are those of pixels that are live."""
    with style.look():
        figure = Figure(figsize=(4.1 * len(sizes), 3.4 * 2 * len(OTHERS)), layout="constrained")
        grid = np.array(figure.subplots(2 * len(OTHERS), len(sizes), squeeze=False))
        lines = [(order, activation) for order in (1, 2) for activation in OTHERS]
        for line, (order, activation) in zip(grid, lines, strict=True):
            for ax, size in zip(line, sizes, strict=True):
                x, y = (trained.interactions(a, size, order) for a in (REFERENCE, activation))
                if order == 1:
                    x, y = x[trained.live], y[trained.live]
                what = "fields" if order == 1 else "couplings"
                interaction_scatter(x, y, labels=(f"{what}, {REFERENCE}", activation), title=f"M = {size}", ax=ax)
    return figure
