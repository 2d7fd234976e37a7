"""Figure 11: the strength of interactions by their order, and how far each order can be believed."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ...analysis import Strength, largest_order, split_half
from ...analysis.comparison import rms
from ...plots import interaction_strength, style
from ..record import Record
from .counting import NONLINEAR
from .fig9 import typical_weight
from .trained import Machines, on_machines

ORDERS = (1, 2, 3)
PUBLISHED_WEIGHT = 0.035
_SAME_ORDER = 3.0  # factor within which two numbers are "roughly of the same order"
_STRAIGHT = 0.98  # correlation of ln(strength) with the order


@on_machines
def run(record: Record, trained: Machines, halves: str = "Exponential") -> None:
    """Two sizes of the non-linear machines, and one kind of them trained on two ``halves`` of the rows."""
    sizes = trained.some(400, 1200)
    if len(sizes) == 1 and len(trained.sizes) > 1:  # two sizes for what grows with M
        sizes = (trained.sizes[-2], *sizes)
    found = {(a, m): _strength(trained, a, m) for a in NONLINEAR for m in sizes}
    weight = {key: typical_weight(trained, *key) for key in found}
    record.table(
        "strengths",
        [
            {
                "activation": a,
                "hidden": m,
                "order": order,
                "rms": value,
                "factor": s.decay().factor,
                "rms_weight": weight[a, m],
            }
            for (a, m), s in found.items()
            for order, value in zip(s.orders, s.values, strict=True)
        ],
    )
    with style.look():
        figure = Figure(figsize=(4.4 * len(sizes), 3.4), layout="constrained")
        for ax, size in zip(np.atleast_1d(figure.subplots(1, len(sizes), sharey=True)), sizes, strict=True):
            interaction_strength({a: found[a, size] for a in NONLINEAR}, title=f"M = {size}", ax=ax)
    record.figure("fig11", figure)
    _claims(record, sizes, found, weight)
    _reliability(record, trained, halves)


def _strength(trained: Machines, activation: str, size: int) -> Strength:
    """Order 1 without the visible bias: what the hidden units bring about."""
    values = [trained.interactions(activation, size, order, bias=False) for order in ORDERS]
    return Strength(ORDERS, tuple(rms(part) for part in values), tuple(map(len, values)))


def _claims(
    record: Record, sizes: tuple[int, ...], found: dict[tuple[str, int], Strength], weight: dict[tuple[str, int], float]
) -> None:
    def words(m: int) -> str:
        return f"M = {m}: " + "; ".join(f"{a} {', '.join(f'{v:.2g}' for v in found[a, m].values)}" for a in NONLINEAR)

    straight = {key: -float(np.corrcoef(s.orders, np.log(s.values))[0, 1]) for key, s in found.items()}
    record.claim(
        "the strength decreases with the order as an exponential does",
        "; ".join(
            f"{a}, M = {m}: r {r:.3f}, ×{found[a, m].decay().factor:.3f} an order" for (a, m), r in straight.items()
        ),
        all(r >= _STRAIGHT for r in straight.values()),
    )
    record.claim(
        "interactions of ReLU and Exponential are smaller than those of Step",
        ". ".join(map(words, sizes)),
        all(
            found[a, m].values[k] < found["Step", m].values[k]
            for a in ("ReLU", "Exponential")
            for m in sizes
            for k in range(len(ORDERS))
        ),
    )
    grows = len(sizes) > 1
    record.claim(
        "fields and couplings grow with M",
        ". ".join(map(words, sizes)),
        all(found[a, sizes[-1]].values[k] > found[a, sizes[0]].values[k] for a in NONLINEAR for k in (0, 1))
        if grows
        else None,
    )
    factors = {key: s.decay().factor for key, s in found.items()}
    listed = "; ".join(f"{a}, M = {m}: {factors[a, m]:.3f}, weights {weight[a, m]:.3f}" for a, m in found)
    record.claim(
        f"the slopes imply weights around {PUBLISHED_WEIGHT} (except Step, M = 400)",
        listed,
        all(
            1 / _SAME_ORDER <= value / PUBLISHED_WEIGHT <= _SAME_ORDER
            for key, value in factors.items()
            if key != ("Step", 400)
        ),
    )
    record.claim(
        "which are roughly of the same order as the typical weights of the machines",
        listed,
        all(1 / _SAME_ORDER <= factors[key] / weight[key] <= _SAME_ORDER for key in found if key != ("Step", 400)),
    )


def _reliability(record: Record, trained: Machines, activation: str) -> None:
    size = trained.size(100 if trained.scale == "quick" else 400)
    record.say(f"two halves: {activation}, {size} hidden units")
    result = split_half(
        lambda: trained.build(activation, size), trained.rows, ORDERS, seed=trained.seed, **trained.options(activation)
    )
    halves = result.orders
    record.table(
        "halves",
        [
            {
                "activation": activation,
                "hidden": size,
                "order": order,
                "correlation": part.reliability,
                "error": part.error,
                "weight_error": part.weight_error,
            }
            for order, part in halves.items()
        ],
    )
    listed = ", ".join(f"order {order} {part.error:.2f}" for order, part in halves.items())
    record.claim(
        "the relative error grows with the order: two halves of the data agree less on triplets than on lower orders",
        f"{activation}, M = {size}, relative error: {listed}",
        halves[3].error > max(halves[1].error, halves[2].error),
    )
    record.claim(
        "with weights known to 10 % orders up to about 7 make sense, s ≪ ln 2/ln(1 + δw/w)",
        f"{largest_order(0.1):.1f} for 10 %; here couplings imply δw/w = {halves[2].weight_error:.0%}, "
        f"orders below {result.largest_order:.1f}",
        round(largest_order(0.1)) == 7,
    )
