"""Figure 7: fields and couplings of machines with different activation functions, against those of Exponential."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.figure import Figure

from harmonium.plots import interaction_scatter, style

from ..judging import THREE_SIGMA, Measured, Verdict, brief, claim, every, increasing
from ..record import Record
from .counting import ACTIVATIONS
from .replicates import SCALED, Scatter, measured
from .trained import Machines, on_machines

REFERENCE = "Exponential"
OTHERS = tuple(name for name in ACTIVATIONS if name != REFERENCE)
_UNIT = 0.2  # from slope 1, of what lies along y = x
_NEGATIVE = -4.0  # fields of pixels that are hardly ever on
_EQUAL = 0.1  # root mean square difference of "equal" fields, of their size
_MUCH = 2.0  # times the variance about a line that is "much larger"


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
                **c.row(),
            }
            for (order, a, m), c in found.items()
        ],
    )
    record.figure("fig7", _figure(trained, sizes))
    _claims(record, trained, sizes, found)


# -- criteria --------------------------------------------------------------------------------------------------------


def judge_nearest(gaps: Iterable[Measured]) -> Verdict:
    """An order of distances: every gap from one relative error to the next larger one is positive."""
    return increasing(gaps, THREE_SIGMA)


def judge_equal(differences: Iterable[Measured]) -> Verdict:
    """Fields are "equal": root mean square differences below a tenth of their size; open if there are no fields."""
    return every(difference.below(_EQUAL, THREE_SIGMA) for difference in differences)


def judge_aligned(slopes_and_correlations: Iterable[tuple[Measured, Measured]]) -> Verdict:
    """Couplings "align quite well": slopes within 1 ± 0.2, correlations above 0.8."""
    return every(
        every((slope.between(1 - _UNIT, 1 + _UNIT, THREE_SIGMA), r.above(SCALED, THREE_SIGMA)))
        for slope, r in slopes_and_correlations
    )


def judge_much_larger(excesses: Iterable[Measured]) -> Verdict:
    """Variability is "much larger": the variance about the line, 1 - r², is more than twice the other.

    Args:
        excesses: 1 - r² of the one, minus twice that of the other.
    """
    return increasing(excesses, THREE_SIGMA)


def judge_better(gains: Iterable[Measured]) -> Verdict:
    """One order agrees better than another: every difference of correlations is positive."""
    return increasing(gains, THREE_SIGMA)


def _claims(
    record: Record, trained: Machines, sizes: tuple[int, ...], found: Mapping[tuple[int, str, int], Scatter]
) -> None:
    def words(order: int, size: int) -> str:
        return f"M = {size}: " + ", ".join(f"{a} {found[order, a, size].words()}" for a in OTHERS)

    error = {m: {a: found[1, a, m].relative_error for a in OTHERS} for m in sizes}
    claim(
        record,
        "fields: those of ReLU are nearest to those of Exponential, Linear follows, Step differs most",
        "; ".join(words(1, m) for m in sizes),
        judge_nearest(
            measured(part[far] - part[near])
            for part in error.values()
            for near, far in (("ReLU", "Linear"), ("Linear", "Step"))
        ),
        trained.differs(50, 400, 1200),
    )
    negative = {(a, m): large_negative(trained, a, m) for a in OTHERS for m in sizes}
    changes = {key: measured(part.relative_error) for key, part in negative.items()}
    claim(
        record,
        "large negative fields are equal across activation functions",
        f"below {_NEGATIVE:g} for Exponential, pixels that are on at least once; root mean square difference of their "
        "size: "
        + "; ".join(f"{a}, M = {m} {brief(changes[a, m])} ({part.number})" for (a, m), part in negative.items()),
        judge_equal(changes.values()),
        trained.differs(50, 400, 1200),
    )
    large = [m for m in sizes if m >= 400]
    claim(
        record,
        "couplings of ReLU and Exponential align well for M ≳ 400",
        "; ".join(words(2, m) for m in large or sizes[-1:]),
        judge_aligned((measured(found[2, "ReLU", m].slope), measured(found[2, "ReLU", m].pearson)) for m in large),
        trained.differs(400, 1200),
    )
    step = [found[2, "Step", m] for m in large]
    claim(
        record,
        "couplings of Step are those of Exponential up to a linear scaling for M ≳ 400",
        "; ".join(f"M = {m}: {c.words()}" for m, c in zip(large, step, strict=True)) or "no such sizes",
        every(measured(c.pearson).above(SCALED, THREE_SIGMA) for c in step),
        trained.differs(400, 1200),
    )
    about = {(a, m): 1 - found[2, a, m].pearson.square() for a in OTHERS for m in large}
    claim(
        record,
        "couplings of Linear vary much more about those of Exponential than those of the non-linear machines",
        "1 - r²: "
        + ("; ".join(f"{a}, M = {m} {brief(measured(part))}" for (a, m), part in about.items()) or "no such sizes"),
        judge_much_larger(
            measured(about["Linear", m] - _MUCH * about[a, m]) for m in large for a in OTHERS if a != "Linear"
        ),
        trained.differs(400, 1200),
    )
    for which, live in (("live units", True), ("all units", False)):
        gains = {
            (a, m): trained.compare(1, (a, m), (REFERENCE, m), live).pearson - found[2, a, m].pearson
            for a in OTHERS
            for m in sizes
        }
        claim(
            record,
            f"whatever M, fields (of {which}) agree better than couplings",
            "correlation of fields minus that of couplings: "
            + "; ".join(f"{a}, M = {m} {brief(measured(gain))}" for (a, m), gain in gains.items()),
            judge_better(map(measured, gains.values())),
            trained.differs(50, 400, 1200),
        )


def large_negative(trained: Machines, activation: str, size: int) -> Scatter:
    """Fields below -4 of the reference, of pixels that are on at least once, so that the data determine them."""
    reference, other = (trained.interactions(a, size, 1) for a in (REFERENCE, activation))
    chosen = (reference < _NEGATIVE) & (trained.rows.mean(0) > 0)
    return Scatter.of(other[chosen], reference[chosen], trained.masks(1)[:, chosen])


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
