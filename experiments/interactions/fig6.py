"""Figure 6: how the couplings change with the number of hidden units, and the slopes α_M of J_M = α_M J_largest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from matplotlib.figure import Figure
from torch import Tensor

from harmonium.plots import interaction_scatter, style

from ..judging import THREE_SIGMA, Measured, Verdict, brief, claim, every, increasing
from ..record import Record
from .counting import ACTIVATIONS, NONLINEAR
from .drawing import COLORS, curves_by_size
from .replicates import SCALED, Scatter, columns, measured
from .trained import Machines, on_machines

_NEAR = 0.85  # the published slope at M = 100 for Linear is 0.9, read from a figure: values that round to it


@on_machines
def run(record: Record, trained: Machines) -> None:
    """Couplings of every size against those of the largest."""
    last = trained.sizes[-1]
    found: dict[tuple[str, int, int], Scatter] = {
        (activation, size, order): trained.compare(order, (activation, size), (activation, last))
        for activation in ACTIVATIONS
        for size in trained.sizes
        for order in (1, 2)
    }
    strength = {key: trained.strength(*key) for key in found}
    record.table(
        "slopes",
        [
            {
                "activation": a,
                "hidden": m,
                "order": order,
                "reference": last,
                **c.row(),
                **columns("rms", strength[a, m, order]),
            }
            for (a, m, order), c in found.items()
        ],
    )
    record.figure("fig6", _figure(trained, found))
    _claims(record, trained, found, strength)


# -- criteria --------------------------------------------------------------------------------------------------------


def judge_unchanged(slope: Measured, correlation: Measured) -> Verdict:
    """Interactions "do not change substantially": their slope is above 0.85, their correlation above 0.8."""
    return every((slope.above(_NEAR, THREE_SIGMA), correlation.above(SCALED, THREE_SIGMA)))


def judge_scaling(correlations: Iterable[Measured]) -> Verdict:
    """Related by a linear scaling: every correlation is above 0.8."""
    return every(r.above(SCALED, THREE_SIGMA) for r in correlations)


def judge_rates(slopes: Mapping[str, Tensor]) -> Verdict:
    """α rises fastest for Linear and slowest for ReLU: the largest and the smallest at an M, each (1 + blocks,)."""
    others = [a for a in slopes if a not in ("Linear", "ReLU")]
    ahead = [slopes["Linear"] - slopes[a] for a in (*others, "ReLU")]
    behind = [slopes[a] - slopes["ReLU"] for a in others]
    return increasing(map(measured, (*ahead, *behind)), THREE_SIGMA)


def _claims(
    record: Record,
    trained: Machines,
    found: Mapping[tuple[str, int, int], Scatter],
    strength: Mapping[tuple[str, int, int], Tensor],
) -> None:
    sizes = trained.sizes
    knee, last = trained.size(100), sizes[-1]
    for order, words in ((2, "couplings do not change substantially after M = 100, where α has reached 0.9"),
                         (1, "the same is true of the fields")):  # fmt: skip
        linear = found["Linear", knee, order]
        claim(
            record,
            f"Linear: {words}",
            f"M = {knee} against {last}: {linear.words()}",
            judge_unchanged(measured(linear.slope), measured(linear.pearson)) if knee < last else None,
            trained.differs(100, 1200),
        )
    for order, words in ((2, "couplings"), (1, "fields (without the visible bias)")):
        claim(
            record,
            f"non-linear machines: the magnitude of {words} increases with M",
            _lists({a: [strength[a, m, order] for m in sizes] for a in NONLINEAR}),
            increasing(
                (
                    measured(strength[a, n, order] - strength[a, m, order])
                    for a in NONLINEAR
                    for m, n in pairwise(sizes)
                ),
                THREE_SIGMA,
            ),
            trained.differs(50, 1200),
        )
    straight = {a: [found[a, m, 2].pearson for m in sizes[:-1]] for a in NONLINEAR}
    claim(
        record,
        "non-linear machines: couplings of different M are related by a linear scaling",
        "correlations with the largest: " + _lists(straight),
        judge_scaling(measured(value) for part in straight.values() for value in part),
        trained.differs(50, 1200),
    )
    alpha = {a: [found[a, m, 2].slope for m in sizes[:-1]] for a in ACTIVATIONS}  # that of the last is 1 by definition
    claim(
        record,
        "α grows with M for every activation function",
        _lists(alpha),
        increasing((measured(n - m) for part in alpha.values() for m, n in pairwise(part)), THREE_SIGMA),
        trained.differs(50, 1200),
    )
    at = {a: found[a, knee, 2].slope for a in ACTIVATIONS}
    claim(
        record,
        "α rises fastest for Linear and slowest for ReLU",
        f"at M = {knee}: " + ", ".join(f"{a} {brief(measured(value))}" for a, value in at.items()),
        judge_rates(at) if knee < last else None,
        trained.differs(100, 1200),
    )


def _lists(values: Mapping[str, Iterable[Tensor]]) -> str:
    return "; ".join(f"{a}: {', '.join(brief(measured(v)) for v in part)}" for a, part in values.items())


def _figure(trained: Machines, found: Mapping[tuple[str, int, int], Scatter]) -> Figure:
    small, knee, last = trained.sizes[0], trained.size(100), trained.sizes[-1]
    with style.look():
        figure = Figure(figsize=(10.8, 6.8), layout="constrained")
        grid = figure.subplots(2, 3)
        for line, activation in zip(grid, ("Linear", "ReLU"), strict=True):
            for ax, size in zip(line, (small, knee), strict=False):
                interaction_scatter(
                    trained.interactions(activation, last, 2),
                    trained.interactions(activation, size, 2),
                    labels=(f"couplings, M = {last}", f"M = {size}"),
                    title=activation,
                    ax=ax,
                )
        ax = grid[0, 2]
        slopes = {a: [float(found[a, m, 2].slope[0]) for m in trained.sizes] for a in COLORS}
        curves_by_size(ax, trained.sizes, slopes)
        ax.set_ylabel(f"slope α against M = {last}")
        ax.legend(fontsize=8)
        grid[1, 2].set_visible(False)
    return figure
