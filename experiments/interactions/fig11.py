"""Figure 11: the strength of interactions by their order, and the reliability of each order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from harmonium.interactions import Strength, largest_order, split_half
from harmonium.machines import RBM
from harmonium.plots import interaction_strength, style

from ..judging import THREE_SIGMA, Measured, Verdict, brief, claim, every, increasing
from ..record import Record
from .counting import NONLINEAR
from .replicates import columns, measured, strength
from .trained import Machines, on_machines

#: the published orders, to which the line is fitted
ORDERS = (1, 2, 3)
#: orders that the line has to predict
FURTHER = (4, 5)
PUBLISHED_WEIGHT = 0.035
#: factor between numbers that are "around" (∼) each other
AROUND = 1.5
#: factor between numbers that are "roughly of the same order"
ROUGHLY = 3.0
_STRAIGHT = 0.2  # largest relative difference of the rate from one order to the next from that of the line
_SPLITS = {"quick": 2, "full": 2}

Key = tuple[str, int]


# -- criteria --------------------------------------------------------------------------------------------------------


def rate(strengths: Sequence[Tensor]) -> Tensor:
    """-d ln(strength)/d(order) by least squares over consecutive orders, each (1 + blocks,): (1 + blocks,).

    >>> rate([torch.tensor([1.0]), torch.tensor([0.1]), torch.tensor([0.01])]).exp().round(decimals=4)
    tensor([10.])
    """
    order = torch.arange(len(strengths), dtype=strengths[0].dtype)
    order -= order.mean()
    return -(order[:, None] * torch.stack(list(strengths)).log()).sum(0) / order.square().sum()


def departures(strengths: Sequence[Tensor], fitted: int = len(ORDERS)) -> list[Measured]:
    """The rates from each order to the next over that of the line through the first ``fitted`` orders, minus 1."""
    line = rate(strengths[:fitted])
    return [measured((a / b).log() / line - 1) for a, b in pairwise(strengths)]


def judge_exponential(found: Iterable[Measured]) -> Verdict:
    """Strengths decay exponentially: the rate from each order to the next is within 20 % of that of the line.

    The line is fitted to orders 1 to 3. A power of the order departs by 26 % in these alone, a Gaussian by 25 %.
    """
    return every(x.within(_STRAIGHT, THREE_SIGMA) for x in found)


def judge_around(log_ratios: Iterable[Measured], factor: float = AROUND) -> Verdict:
    """Numbers are "around" (∼) each other: ratios within a factor of 1.5; for "roughly of the same order" 3.

    Args:
        log_ratios: ln(first/second).
    """
    return every(x.within(math.log(factor), THREE_SIGMA) for x in log_ratios)


def judge_smaller(log_ratios: Iterable[Measured]) -> Verdict:
    """Each of the first is smaller than the second: ln(second/first) is positive."""
    return increasing(log_ratios, THREE_SIGMA)


def judge_growing_error(gaps: Iterable[Measured]) -> Verdict:
    """Triplets are less reliable: their relative error exceeds that of each lower order, in every split of the data."""
    return increasing(gaps, THREE_SIGMA)


def crossing(errors: Sequence[float], first: int = 1) -> float:
    """The order at which errors of orders ``first``, first + 1, … reach 1, by linear interpolation; NaN if none does.

    >>> crossing([0.2, 0.6, 1.0, 1.8]), crossing([0.1, 0.5, 1.5])
    (3.0, 2.5)
    """
    for order, (low, high) in enumerate(pairwise(errors), first):
        if low < 1 <= high:
            return order + (1 - low) / (high - low)
    return math.nan


# -- the experiment --------------------------------------------------------------------------------------------------


@on_machines
def run(record: Record, trained: Machines, halves: str = "Exponential") -> None:
    """Two sizes of the non-linear machines, and machines of activation ``halves`` trained on two halves of the rows."""
    sizes = trained.some(400, 1200)
    if len(sizes) == 1 and len(trained.sizes) > 1:  # two sizes for what grows with M
        sizes = (trained.sizes[-2], *sizes)
    found = {(a, m): [trained.strength(a, m, order) for order in (*ORDERS, *FURTHER)] for a in NONLINEAR for m in sizes}
    weight = {key: trained.typical_weight(*key) for key in found}
    record.table(
        "strengths",
        [
            {
                "activation": a,
                "hidden": m,
                "order": order,
                **columns("rms", values),
                "factor": math.exp(-float(rate(part[: len(ORDERS)])[0])),
                "rms_weight": measured(weight[a, m]).value,
            }
            for (a, m), part in found.items()
            for order, values in zip((*ORDERS, *FURTHER), part, strict=True)
        ],
    )
    record.figure("fig11", _figure(trained, sizes, found))
    _claims(record, trained, sizes, found, weight)
    _reliability(record, trained, halves)


def _figure(trained: Machines, sizes: tuple[int, ...], found: Mapping[Key, Sequence[Tensor]]) -> Figure:
    """The published orders with the lines fitted to them; further orders have open symbols and dotted lines."""
    numbers = tuple(len(trained.tuples(order)) for order in ORDERS)
    with style.look():
        figure = Figure(figsize=(4.4 * len(sizes), 3.4), layout="constrained")
        for ax, size in zip(np.atleast_1d(figure.subplots(1, len(sizes), sharey=True)), sizes, strict=True):
            values = {a: [float(v[0]) for v in found[a, size]] for a in NONLINEAR}
            fitted = {a: Strength(ORDERS, tuple(part[: len(ORDERS)]), numbers) for a, part in values.items()}
            interaction_strength(fitted, title=f"M = {size}", ax=ax)
            marked = [line for line in ax.get_lines() if line.get_marker() not in ("None", "", None)]
            ends = np.array([ORDERS[-1], FURTHER[-1]], dtype=float)
            for line, (a, part) in zip(marked, values.items(), strict=True):
                ax.plot(FURTHER, part[len(ORDERS) :], line.get_marker(), color=line.get_color(), fillstyle="none")
                decay = fitted[a].decay()
                ax.plot(ends, [decay.at(end) for end in ends], ":", color=line.get_color(), linewidth=1, alpha=0.6)
    return figure


def _claims(
    record: Record,
    trained: Machines,
    sizes: tuple[int, ...],
    found: Mapping[Key, Sequence[Tensor]],
    weight: Mapping[Key, Tensor],
) -> None:
    def words(m: int) -> str:
        return f"M = {m}: " + "; ".join(
            f"{a} {', '.join(f'{float(v[0]):.2g}' for v in found[a, m][: len(ORDERS)])}" for a in NONLINEAR
        )

    departed = {key: departures(part) for key, part in found.items()}
    factor = {key: (-rate(part[: len(ORDERS)])).exp() for key, part in found.items()}
    large = [key for key in found if key[1] >= 400]  # the published sizes are 400 and 1200
    first = len(ORDERS) - 1
    for which, claimed in (
        (slice(first), "the strength decreases with the order, 1 to 3, as an exponential does"),
        (slice(first, None), f"beyond the published orders, from 3 to {FURTHER[-1]}, the strength stays on that line"),
    ):
        claim(
            record,
            claimed,
            "rates from one order to the next over that of the line through orders 1 to 3, minus 1: "
            + "; ".join(
                f"{a}, M = {m}: {', '.join(brief(x, 1) for x in part[which])}" for (a, m), part in departed.items()
            ),
            judge_exponential(x for key in large for x in departed[key][which]),
            trained.differs(400, trained_out=False),
        )
    claim(
        record,
        "interactions of ReLU and Exponential are smaller than those of Step",
        ". ".join(map(words, sizes)),
        judge_smaller(
            measured((found["Step", m][k] / found[a, m][k]).log())
            for a in ("ReLU", "Exponential")
            for m in sizes
            for k in range(len(ORDERS))
        ),
        trained.differs(400, 1200),
    )
    claim(
        record,
        "fields and couplings grow with M",
        ". ".join(map(words, sizes)),
        judge_smaller(
            measured((found[a, n][k] / found[a, m][k]).log())
            for m, n in pairwise(sizes)
            for a in NONLINEAR
            for k in (0, 1)
        ),
        trained.differs(400, 1200),
    )
    listed = "; ".join(
        f"{a}, M = {m}: {brief(measured(factor[a, m]))}, weights {brief(measured(weight[a, m]))}" for a, m in found
    )
    some = [key for key in large if key != ("Step", 400)]
    claim(
        record,
        f"the slopes imply weights around {PUBLISHED_WEIGHT} (except Step, M = 400)",
        listed,
        judge_around(measured((factor[key] / PUBLISHED_WEIGHT).log()) for key in some),
        trained.differs(400, 1200),
    )
    claim(
        record,
        "which are roughly of the same order as the typical weights of the machines",
        listed,
        judge_around((measured((factor[key] / weight[key]).log()) for key in some), ROUGHLY),
        trained.differs(400, 1200, trained_out=False),
    )


# -- two halves of the data ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Relative errors of two halves of the data, with replicates (1 + blocks,), by order.

    ``errors`` are those of :class:`harmonium.interactions.reliability.Halves`, fields with the visible bias;
    ``hidden`` has at order 1 the fields without the visible bias, as in figure 11.
    """

    errors: dict[int, Tensor]
    hidden: dict[int, Tensor]


def compare_halves(trained: Machines, machines: tuple[RBM, RBM], orders: Sequence[int]) -> Split:
    """rms(x - y)/√2 over rms((x + y)/2) of each order."""

    def error(order: int, bias: bool) -> Tensor:
        x, y = (trained.of(machine, order, bias=bias) for machine in machines)
        masks = trained.masks(order)
        return strength(x - y, masks) / math.sqrt(2) / strength((x + y) / 2, masks)

    found = {order: error(order, True) for order in orders}
    return Split(found, {**found, 1: error(1, False)})


def predicted_errors(split: Split) -> dict[int, Tensor]:
    """(1 + δw/w)^s - 1 for every order s except 2, from which δw/w is computed."""
    log_growth = split.hidden[2].log1p() / 2
    return {s: torch.expm1(s * log_growth) for s in split.hidden if s != 2}


def _reliability(record: Record, trained: Machines, activation: str) -> None:
    size, orders = trained.size(100 if trained.scale == "quick" else 400), (*ORDERS, *FURTHER)
    splits = []
    for k in range(_SPLITS[trained.scale]):
        record.say(f"two halves, split {k + 1}: {activation}, {size} hidden units")
        seed = trained.seed + 2 * k  # split_half uses this and the next
        result = split_half(
            lambda: trained.build(activation, size), trained.rows, (1,), seed=seed, **trained.options(activation)
        )
        splits.append(compare_halves(trained, result.machines, orders))
    record.table(
        "halves",
        [
            {
                "activation": activation,
                "hidden": size,
                "split": k + 1,
                "order": order,
                **columns("error", split.errors[order]),
                **columns("without_bias", split.hidden[order]),
            }
            for k, split in enumerate(splits)
            for order in orders
        ],
    )
    differs = trained.differs(trained_out=False)
    place = f"{activation}, M = {size}"
    claim(
        record,
        "two halves of the data agree less on triplets than on fields and couplings",
        f"{place}, relative error of orders 1, 2, 3: "
        + "; ".join(", ".join(brief(measured(split.errors[s])) for s in ORDERS) for split in splits),
        judge_growing_error(measured(split.errors[3] - split.errors[s]) for split in splits for s in (1, 2)),
        differs,
    )
    ratios = [
        {s: measured((split.hidden[s] / expected).log()) for s, expected in predicted_errors(split).items()}
        for split in splits
    ]
    claim(
        record,
        "the relative error of order s is about (1 + δw/w)^s - 1",
        f"{place}, δw/w from the couplings, fields without the visible bias; measured over predicted error: "
        + "; ".join(", ".join(f"order {s} {math.exp(x.value):.2f}" for s, x in part.items()) for part in ratios),
        judge_around(x for part in ratios for x in part.values()),
        differs,
    )
    limits = []
    for split in splits:
        errors = torch.stack([split.hidden[s] for s in orders], 1)
        reached = torch.tensor([crossing(row) for row in errors.tolist()], dtype=errors.dtype)
        implied = torch.tensor([largest_order(math.sqrt(1 + e) - 1) for e in split.hidden[2].tolist()]).to(errors)
        limits.append((reached, implied))
    claim(
        record,
        "the error reaches the interaction itself at about the order ln 2/ln(1 + δw/w), about 7 for δw/w = 10 %",
        f"{place}: "
        + "; ".join(
            f"{_reached(reached)}, implied by the couplings {brief(measured(implied))}" for reached, implied in limits
        ),
        judge_around(measured((reached / implied).log()) for reached, implied in limits),
        differs,
    )


def _reached(order: Tensor) -> str:
    if math.isnan(float(order[0])):
        return f"not reached up to order {FURTHER[-1]}"
    return f"reached at order {brief(measured(order))}"
