"""Figure 6: how the couplings change with the number of hidden units, and the slopes α_M of J_M = α_M J_largest."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.figure import Figure

from ...analysis import Comparison
from ...plots import interaction_scatter, style
from ..record import Record
from .counting import ACTIVATIONS, NONLINEAR
from .fig5 import COLOURS
from .trained import Machines, on_machines

_NEAR = 0.9  # the published slope at M = 100 for Linear
_STRAIGHT = 0.8  # correlation of a scatter that is a line


@on_machines
def run(record: Record, trained: Machines) -> None:
    """Couplings of every size against those of the largest."""
    last = trained.sizes[-1]
    found: dict[tuple[str, int, int], Comparison] = {
        (activation, size, order): trained.compare(order, (activation, size), (activation, last))
        for activation in ACTIVATIONS
        for size in trained.sizes
        for order in (1, 2)
    }
    strength = {(activation, size, order): _rms(trained, activation, size, order) for activation, size, order in found}
    record.table(
        "slopes",
        [
            {
                "activation": a,
                "hidden": m,
                "order": order,
                "reference": last,
                "slope": c.slope,
                "correlation": c.pearson,
                "relative_error": c.relative_error,
                "rms": strength[a, m, order],
            }
            for (a, m, order), c in found.items()
        ],
    )
    record.figure("fig6", _figure(trained, found))
    _claims(record, trained, found, strength)


def _rms(trained: Machines, activation: str, size: int, order: int) -> float:
    values = trained.interactions(activation, size, order, bias=False)
    return values.square().mean().sqrt().item()


def _claims(
    record: Record,
    trained: Machines,
    found: dict[tuple[str, int, int], Comparison],
    strength: dict[tuple[str, int, int], float],
) -> None:
    knee, last, several = trained.size(100), trained.sizes[-1], len(trained.sizes) > 1
    slope = {key: c.slope for key, c in found.items()}
    linear = found["Linear", knee, 2]
    record.claim(
        "Linear: couplings do not change substantially after M = 100, where α has reached 0.9",
        f"M = {knee} against {last}: slope {linear.slope:.2f}, correlation {linear.pearson:.3f}",
        linear.slope >= _NEAR if trained.has(100) and last > knee else None,
    )
    fields = found["Linear", knee, 1]
    record.claim(
        "Linear: the same is true of the fields",
        f"M = {knee} against {last}: slope {fields.slope:.2f}, correlation {fields.pearson:.3f}",
        fields.slope >= _NEAR if trained.has(100) and last > knee else None,
    )
    for order, words in ((2, "couplings"), (1, "fields (without the visible bias)")):
        values = {a: [strength[a, m, order] for m in trained.sizes] for a in NONLINEAR}
        record.claim(
            f"non-linear machines: the magnitude of {words} increases with M",
            _lists(values, "{:.3g}"),
            all(b > a for part in values.values() for a, b in pairwise(part)) if several else None,
        )
    straight = {a: [found[a, m, 2].pearson for m in trained.sizes[:-1]] for a in NONLINEAR}
    record.claim(
        "non-linear machines: couplings of different M are related by a linear scaling",
        "correlations with the largest: " + _lists(straight, "{:.2f}"),
        all(value >= _STRAIGHT for part in straight.values() for value in part) if several else None,
    )
    values = {a: [slope[a, m, 2] for m in trained.sizes] for a in ACTIVATIONS}
    record.claim(
        "α grows with M for every activation function",
        _lists(values, "{:.2f}"),
        all(b > a for part in values.values() for a, b in pairwise(part)) if several else None,
    )
    at = {a: slope[a, knee, 2] for a in ACTIVATIONS}
    record.claim(
        "α rises fastest for Linear and slowest for ReLU",
        f"at M = {knee}: " + ", ".join(f"{a} {value:.2f}" for a, value in at.items()),
        (max(at, key=lambda a: at[a]) == "Linear" and min(at, key=lambda a: at[a]) == "ReLU") if several else None,
    )


def _lists(values: dict[str, list[float]], form: str) -> str:
    return "; ".join(f"{a}: {', '.join(form.format(v) for v in part)}" for a, part in values.items())


def _figure(trained: Machines, found: dict[tuple[str, int, int], Comparison]) -> Figure:
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
        for activation, colour in COLOURS.items():
            ax.plot(
                trained.sizes,
                [found[activation, m, 2].slope for m in trained.sizes],
                "o-",
                color=colour,
                markersize=4,
                linewidth=1.2,
                label=activation,
            )
        ax.set(xlabel="hidden units M", ylabel=f"slope α against M = {last}")
        ax.legend(fontsize=8)
        grid[1, 2].set_visible(False)
    return figure
