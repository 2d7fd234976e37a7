"""Figure 5: pseudo-likelihood and likelihood on MNIST, by activation function and number of hidden units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from matplotlib.figure import Figure
from torch import Tensor

from harmonium.likelihood import LogPartition, ais
from harmonium.machines import RBM
from harmonium.plots import style

from ..judging import THREE_SIGMA, Measured, Verdict, brief, claim, every, increasing
from ..record import Record
from .counting import ACTIVATIONS, NONLINEAR
from .drawing import COLORS, curves_by_size
from .trained import Machines, on_machines

TEMPERATURES = {"quick": 1000, "full": 14_000}
_REPEATS = {"quick": 16, "full": 40}  # random units of each test row, for the final pseudo-likelihood
_TRAIN_REPEATS = {"quick": 2, "full": 8}
_SATURATED = 0.25  # largest gain beyond the size from which a likelihood "saturates", relative to the gain up to it
_RESEMBLES = 0.05  # relative difference of numbers that "resemble very closely"

Row = dict[str, float | str]
Key = tuple[str, int]


@dataclass(frozen=True)
class Scores:
    """A number for each row of the data, in nats (n,), and the standard error of a common constant, ln Z."""

    rows: Tensor
    common: float = 0.0

    @property
    def mean(self) -> Measured:
        """The mean over the rows."""
        return combined([(1.0, self)])


def combined(parts: Sequence[tuple[float, Scores]]) -> Measured:
    """Σ c · mean score of machines on the same rows, with the error over paired rows combined with those of ln Z.

    >>> a, b = Scores(torch.tensor([1.0, 2.0, 3.0])), Scores(torch.tensor([0.0, 1.0, 2.0]))
    >>> print(combined([(1, a), (-1, b)]))
    1.000 ± 0.000
    """
    rows = torch.stack([c * part.rows.double() for c, part in parts]).sum(0)
    error = float(rows.std()) / math.sqrt(len(rows)) if len(rows) > 1 else math.inf
    return Measured(float(rows.mean()), math.hypot(error, *(c * part.common for c, part in parts)))


# -- criteria --------------------------------------------------------------------------------------------------------


def judge_all_above(differences: Iterable[Measured]) -> Verdict:
    """One is "always larger" than others: each difference is positive by more than three standard errors."""
    return increasing(differences, THREE_SIGMA)


def judge_resemblance(gaps: Iterable[Measured]) -> Verdict:
    """Two numbers "resemble very closely": each relative difference is within ± 5 %."""
    return every(gap.within(_RESEMBLES, THREE_SIGMA) for gap in gaps)


def judge_saturation(before: Measured, excess: Measured) -> Verdict:
    """A likelihood saturates: the gain beyond a size is less than a quarter of the gain up to it.

    Args:
        before: the gain from the smallest size up to the one where it is said to saturate.
        excess: the gain beyond that size, minus a quarter of ``before``.

    Open if there was no gain before. Other machines do not enter.
    """
    return excess.below(0.0, THREE_SIGMA) if before.above(0.0, THREE_SIGMA) else None


# -- the experiment --------------------------------------------------------------------------------------------------


@on_machines
def run(record: Record, trained: Machines, betas: int = 0) -> None:
    """Train every machine and measure it on the test rows; ``betas`` replaces that of the scale."""
    steps, scale = betas or TEMPERATURES[trained.scale], trained.scale
    curves: dict[Key, list[dict[str, float]]] = {}
    scores: dict[str, dict[Key, Scores]] = {"pseudo_likelihood": {}, "likelihood": {}, "train_pseudo_likelihood": {}}
    found: dict[Key, Row] = {}
    for activation in ACTIVATIONS:
        for size in trained.sizes:
            key = activation, size
            rbm, curves[key] = trained(*key)
            estimate = ais(rbm, betas=steps, base=trained.rows, remove_outliers=True, seed=trained.seed)
            scores["pseudo_likelihood"][key] = Scores(trained.pseudo_likelihoods(rbm, trained.test, _REPEATS[scale]))
            scores["train_pseudo_likelihood"][key] = Scores(
                trained.pseudo_likelihoods(rbm, trained.rows, _TRAIN_REPEATS[scale])
            )
            scores["likelihood"][key] = likelihoods(rbm, estimate, trained.test)
            low, high = (estimate.value - end for end in reversed(estimate.details["conditional_interval"]))
            value = scores["likelihood"][key].mean.value
            found[key] = {"activation": activation, "hidden": size}
            for what, part in scores.items():
                found[key] |= {what: part[key].mean.value, f"{what}_se": part[key].mean.error}
            found[key] |= {
                "likelihood_low": value + low,
                "likelihood_high": value + high,
                "outlying_runs": int(estimate.details["outliers"].sum()),
                "problems": "; ".join(estimate.problems),
            }
            record.say(
                f"{activation}, {size}: pseudo-likelihood {found[key]['pseudo_likelihood']:.1f}, likelihood {value:.1f}"
            )
    record.table("likelihoods", list(found.values()))
    record.table(
        "curves",
        [
            {
                "activation": activation,
                "hidden": size,
                "epoch": row["epoch"],
                "test_pseudo_likelihood": row["test_pseudo_likelihood"],
            }
            for (activation, size), history in curves.items()
            for row in history
        ],
    )
    record.figure("fig5", _figure(trained, curves, found))
    _claims(record, trained, curves, scores)


@torch.no_grad()
def likelihoods(rbm: RBM, estimate: LogPartition, rows: Tensor) -> Scores:
    """ln p of each row, with a third of the interval of ln Z (three standard errors) as the common error."""
    free = torch.cat([rbm.free_energy(part).double() for part in rows.split(1000)])
    ends = [abs(end - estimate.value) for end in estimate.details["conditional_interval"]]
    return Scores(-free - estimate.value, max(ends) / 3)


def _claims(
    record: Record,
    trained: Machines,
    curves: Mapping[Key, list[dict[str, float]]],
    scores: Mapping[str, Mapping[Key, Scores]],
) -> None:
    def difference(what: str, first: Key, second: Key) -> Measured:
        return combined([(1.0, scores[what][first]), (-1.0, scores[what][second])])

    def of_all(size: int, what: str) -> str:
        return f"M = {size}: " + ", ".join(f"{a} {brief(scores[what][a, size].mean, 1)}" for a in ACTIVATIONS)

    small, large, sizes = trained.size(50), trained.size(1200), trained.sizes
    one_unit = {a: _one_unit_error(trained, ("Linear", small), (a, small)) for a in NONLINEAR}
    above_others = {
        a: [
            Measured(x["test_pseudo_likelihood"] - y["test_pseudo_likelihood"], one_unit[a])
            for x, y in zip(curves["Linear", small], curves[a, small], strict=True)
        ]
        for a in NONLINEAR
    }
    share = {a: sum(x.above(0.0, THREE_SIGMA) is True for x in part) / len(part) for a, part in above_others.items()}
    claim(
        record,
        "with 50 hidden units the pseudo-likelihood of Linear is always above that of the others",
        f"M = {small}: above by three standard errors in "
        + ", ".join(f"{v:.0%} of the epochs ({a})" for a, v in share.items()),
        judge_all_above(x for part in above_others.values() for x in part),
        trained.differs(50),
    )
    order = [("ReLU", "Linear"), ("Exponential", "Linear"), ("Linear", "Step")]
    claim(
        record,
        "with 1200 hidden units ReLU and Exponential have larger pseudo-likelihoods than Linear, Step has not",
        of_all(large, "pseudo_likelihood"),
        judge_all_above(difference("pseudo_likelihood", (a, large), (b, large)) for a, b in order),
        trained.differs(1200),
    )
    gaps = {
        key: _relative_gap(scores["train_pseudo_likelihood"][key], scores["pseudo_likelihood"][key]) for key in curves
    }
    widest = max(gaps, key=lambda key: abs(gaps[key].value))
    claim(
        record,
        "pseudo-likelihoods of training rows resemble those of test rows very closely",
        f"furthest apart: {widest[0]}, M = {widest[1]}, by {brief(gaps[widest])} of the latter",
        judge_resemblance(gaps.values()),
        trained.differs(trained_out=False),
    )
    for what in ("pseudo_likelihood", "likelihood"):
        words = what.replace("_", "-")
        _saturation(record, trained, scores[what], "Linear", 100, f"the {words} of Linear saturates beyond M = 100")
        some = [m for m in sizes if m < 400]
        claim(
            record,
            f"Linear has the largest {words} of all for small layers (M ≲ 400)",
            "; ".join(of_all(m, what) for m in some) or "no such sizes",
            judge_all_above(difference(what, ("Linear", m), (a, m)) for a in NONLINEAR for m in some),
            trained.differs(50, 100, 200),
        )
    steps = {a: [difference("likelihood", (a, n), (a, m)) for m, n in pairwise(sizes)] for a in NONLINEAR}
    claim(
        record,
        "the likelihood of non-linear machines increases steadily with M",
        "from each size to the next: "
        + "; ".join(f"{a}: {', '.join(brief(step, 1) for step in part)}" for a, part in steps.items()),
        increasing((step for part in steps.values() for step in part), THREE_SIGMA),
        trained.differs(50, 1200),
    )
    some = [m for m in sizes if m <= 400]
    claim(
        record,
        "the likelihood of Step is always the smallest for M ≤ 400",
        "; ".join(of_all(m, "likelihood") for m in some) or "no such sizes",
        judge_all_above(
            difference("likelihood", (a, m), ("Step", m)) for a in ACTIVATIONS if a != "Step" for m in some
        ),
        trained.differs(50, 400),
    )
    _saturation(record, trained, scores["likelihood"], "ReLU", 400, "the likelihood of ReLU saturates after M = 400")
    beyond = [m for m in sizes if m > 400]
    claim(
        record,
        "Exponential has the largest likelihood of all for M > 400",
        "; ".join(of_all(m, "likelihood") for m in beyond) or "no such sizes",
        judge_all_above(
            difference("likelihood", ("Exponential", m), (a, m))
            for a in ACTIVATIONS
            if a != "Exponential"
            for m in beyond
        ),
        trained.differs(1200),
    )


def _saturation(
    record: Record, trained: Machines, scores: Mapping[Key, Scores], activation: str, published: int, claimed: str
) -> None:
    first, knee, last = trained.sizes[0], trained.size(published), trained.sizes[-1]
    start, middle, end = (scores[activation, m] for m in (first, knee, last))
    before, after = combined([(1, middle), (-1, start)]), combined([(1, end), (-1, middle)])
    excess = combined([(1, end), (-1 - _SATURATED, middle), (_SATURATED, start)])
    claim(
        record,
        claimed,
        f"{brief(before)} nats from M = {first} to {knee}, {brief(after)} from {knee} to {last}",
        judge_saturation(before, excess) if first < knee < last else None,
        trained.differs(50, published, 1200),
    )


def _relative_gap(first: Scores, second: Scores) -> Measured:
    """(first - second)/|second| of means over different rows."""
    a, b = first.mean, second.mean
    return Measured((a.value - b.value) / abs(b.value), math.hypot(a.error, a.value / b.value * b.error) / abs(b.value))


def _one_unit_error(trained: Machines, first: Key, second: Key) -> float:
    """The error of a difference of pseudo-likelihoods as measured in training: one random unit per test row."""
    values = [trained.pseudo_likelihoods(trained.machine(*key), trained.test) for key in (first, second)]
    return combined([(1, Scores(values[0])), (-1, Scores(values[1]))]).error


def _figure(
    trained: Machines, curves: dict[tuple[str, int], list[dict[str, float]]], found: dict[tuple[str, int], Row]
) -> Figure:
    with style.look():
        figure = Figure(figsize=(9.6, 3.3), layout="constrained")
        curve, pseudo, likelihood = figure.subplots(1, 3)
        for activation, color in COLORS.items():
            for size, line in zip(trained.some(50, 1200), ("--", "-"), strict=False):
                history = curves[activation, size]
                curve.plot(
                    [row["epoch"] for row in history],
                    [row["test_pseudo_likelihood"] for row in history],
                    line,
                    color=color,
                    label=f"{activation}, M = {size}",
                    linewidth=1.2,
                )
            ends = [[found[activation, size][f"likelihood_{end}"] for size in trained.sizes] for end in ("low", "high")]
            likelihood.vlines(trained.sizes, *ends, color=color)
        curve.set(xlabel="epoch", ylabel="nats per row")
        curve.set_title("test pseudo-likelihood")
        low, high = curve.get_ylim()
        curve.set_ylim(low - 0.4 * (high - low), high)  # room for the legend
        curve.legend(fontsize=6.5, ncols=2, loc="lower right")
        for ax, what in ((pseudo, "pseudo_likelihood"), (likelihood, "likelihood")):
            curves_by_size(
                ax, trained.sizes, {a: [float(found[a, size][what]) for size in trained.sizes] for a in COLORS}
            )
            ax.set_ylabel("nats per row")
            ax.set_title(f"test {what.replace('_', '-')}")
        pseudo.legend(fontsize=8)
    return figure
