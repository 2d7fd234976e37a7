"""Figure 8: couplings in the limit of small weights, eq. (19), against the exact ones, eq. (14)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from ...analysis import Comparison
from ...plots import interaction_scatter, style
from ..record import Record
from .counting import NONLINEAR
from .trained import Machines, on_machines

_GOOD = 0.95  # correlation of "pretty good estimates"


@on_machines
def run(record: Record, trained: Machines) -> None:
    """Three sizes of the non-linear machines."""
    sizes = trained.some(100, 400, 1200)
    found = {
        (activation, size): small_against_exact(trained, activation, size) for activation in NONLINEAR for size in sizes
    }
    record.table(
        "small_against_exact",
        [
            {
                "activation": a,
                "hidden": m,
                "slope": c.slope,
                "correlation": c.pearson,
                "relative_error": c.relative_error,
            }
            for (a, m), c in found.items()
        ],
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
    words = "; ".join(f"{a}, M = {m}: r {c.pearson:.3f}, error {c.relative_error:.2f}" for (a, m), c in found.items())
    large = [(a, m) for a, m in found if m >= 400]
    record.claim(
        "the limit of small weights gives pretty good estimates of the couplings unless M is small (M ≥ 400)",
        words,
        all(found[key].pearson >= _GOOD for key in large) if large else None,
    )
    record.claim("it is better the larger M", words, _improves(found, sizes))


def small_against_exact(trained: Machines, activation: str, size: int) -> Comparison:
    """How the small-weight limit of the couplings follows the exact ones."""
    small, exact = (trained.interactions(activation, size, 2, method=method) for method in ("small", "exact"))
    return Comparison.of(small, exact)


def _improves(found: dict[tuple[str, int], Comparison], sizes: tuple[int, ...]) -> bool | None:
    if len(sizes) < 2:
        return None
    return all(found[a, n].relative_error < found[a, m].relative_error for a in NONLINEAR for m, n in pairwise(sizes))
