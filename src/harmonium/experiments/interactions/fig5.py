"""Figure 5: pseudo-likelihood and likelihood on MNIST, by activation function and number of hidden units."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...likelihood import ais
from ...plots import style
from ..record import Record
from .counting import ACTIVATIONS, NONLINEAR
from .trained import Machines, on_machines

TEMPERATURES = {"quick": 1000, "full": 14_000}
COLOURS = dict(zip(ACTIVATIONS, (style.ACCENT, style.SECOND, "#4f8f4a", "#8a5aa8"), strict=True))
_REPEATS = {"quick": 4, "full": 40}  # random units of each row, for the final pseudo-likelihood
_SATURATED = 0.25  # of the least gain of the other machines over the same sizes, where all of them gain
_RESEMBLES = 0.05

Row = dict[str, float | str]


@on_machines
def run(record: Record, trained: Machines, temperatures: int = 0) -> None:
    """Train every machine and measure it on the test rows; ``temperatures`` of the annealing as the scale says."""
    steps, scale = temperatures or TEMPERATURES[trained.scale], trained.scale
    curves: dict[tuple[str, int], list[dict[str, float]]] = {}
    found: dict[tuple[str, int], Row] = {}
    for activation in ACTIVATIONS:
        for size in trained.sizes:
            rbm, curves[activation, size] = trained(activation, size)
            estimate = ais(rbm, temperatures=steps, base=trained.rows, remove_outliers=True, seed=trained.seed)
            low, high = (estimate.value - end for end in reversed(estimate.conditional_interval))
            value = estimate.log_likelihood(trained.test)
            found[activation, size] = {
                "activation": activation,
                "hidden": size,
                "pseudo_likelihood": trained.pseudo_likelihood(rbm, trained.test, _REPEATS[scale]),
                "train_pseudo_likelihood": trained.pseudo_likelihood(rbm, trained.rows, _REPEATS[scale]),
                "likelihood": value,
                "likelihood_low": value + low,
                "likelihood_high": value + high,
                "outlying_runs": int(estimate.outliers.sum()),
                "problems": "; ".join(estimate.problems),
            }
            words = found[activation, size]
            record.say(
                f"{activation}, {size}: pseudo-likelihood {words['pseudo_likelihood']:.1f}, likelihood {value:.1f}"
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
    _claims(record, trained, curves, found)


def _claims(
    record: Record,
    trained: Machines,
    curves: dict[tuple[str, int], list[dict[str, float]]],
    found: dict[tuple[str, int], Row],
) -> None:
    def value(activation: str, size: int, what: str) -> float:
        return float(found[activation, size][what])

    def of_all(size: int, what: str) -> str:
        return f"M = {size}: " + ", ".join(f"{a} {value(a, size, what):.1f}" for a in ACTIVATIONS)

    small, large = trained.size(50), trained.size(1200)
    curve = {a: np.array([row["test_pseudo_likelihood"] for row in curves[a, small]]) for a in ACTIVATIONS}
    above = {a: float((curve["Linear"] > curve[a]).mean()) for a in NONLINEAR}
    record.claim(
        "with 50 hidden units the pseudo-likelihood of Linear is always above that of the others",
        f"M = {small}: above in " + ", ".join(f"{v:.0%} of the epochs ({a})" for a, v in above.items()),
        min(above.values()) == 1 if trained.has(50) else None,
    )
    beats = {a: value(a, large, "pseudo_likelihood") > value("Linear", large, "pseudo_likelihood") for a in NONLINEAR}
    record.claim(
        "with 1200 hidden units ReLU and Exponential have larger pseudo-likelihoods than Linear, Step has not",
        of_all(large, "pseudo_likelihood"),
        (beats["ReLU"] and beats["Exponential"] and not beats["Step"]) if trained.has(1200) else None,
    )
    apart = max(abs(value(*key, "train_pseudo_likelihood") / value(*key, "pseudo_likelihood") - 1) for key in found)
    record.claim(
        "pseudo-likelihoods of training rows resemble those of test rows very closely",
        f"at most {apart:.1%} apart",
        apart <= _RESEMBLES,
    )
    knee = trained.size(100)
    for what in ("pseudo_likelihood", "likelihood"):
        words = what.replace("_", "-")
        gain = {a: value(a, large, what) - value(a, knee, what) for a in ACTIVATIONS}
        yardstick = min(gain[a] for a in NONLINEAR)
        record.claim(
            f"the {words} of Linear saturates beyond M = 100: its couplings are well captured by rank 100",
            f"gain from M = {knee} to {large}: " + ", ".join(f"{a} {v:+.1f}" for a, v in gain.items()) + " nats",
            None
            if not trained.has(100) or large == knee or yardstick <= 0
            else gain["Linear"] <= _SATURATED * yardstick,
        )
        some = [m for m in trained.sizes if m < 400]
        best = {m: max(ACTIVATIONS, key=lambda a, m=m: value(a, m, what)) for m in some}  # type: ignore[misc]
        record.claim(
            f"Linear has the largest {words} of all for small layers (M ≲ 400)",
            "; ".join(of_all(m, what) for m in some),
            set(best.values()) == {"Linear"} if best else None,
        )
    steady = {a: [value(a, m, "likelihood") for m in trained.sizes] for a in NONLINEAR}
    record.claim(
        "the likelihood of non-linear machines increases steadily with M",
        "; ".join(f"{a}: {', '.join(f'{v:.1f}' for v in values)}" for a, values in steady.items()),
        all(b > a for values in steady.values() for a, b in pairwise(values)) if len(trained.sizes) > 1 else None,
    )
    some = [m for m in trained.sizes if m <= 400]
    record.claim(
        "the likelihood of Step is always the smallest for M ≤ 400",
        "; ".join(of_all(m, "likelihood") for m in some),
        all(min(ACTIVATIONS, key=lambda a, m=m: value(a, m, "likelihood")) == "Step" for m in some)  # type: ignore[misc]
        if some
        else None,
    )
    beyond = [m for m in trained.sizes if m > 400]
    relu = [value("ReLU", m, "likelihood") for m in trained.sizes if m >= 400]
    record.claim(
        "the likelihood of ReLU saturates after M = 400",
        ", ".join(f"{v:.1f}" for v in relu) or "no such sizes at this scale",
        relu[-1] - relu[0] <= _SATURATED * (relu[0] - value("ReLU", trained.sizes[0], "likelihood"))
        if trained.has(400) and beyond
        else None,
    )
    record.claim(
        "Exponential has the largest likelihood of all for M > 400",
        "; ".join(of_all(m, "likelihood") for m in beyond) or "no such sizes at this scale",
        all(max(ACTIVATIONS, key=lambda a, m=m: value(a, m, "likelihood")) == "Exponential" for m in beyond)  # type: ignore[misc]
        if beyond
        else None,
    )


def _figure(
    trained: Machines, curves: dict[tuple[str, int], list[dict[str, float]]], found: dict[tuple[str, int], Row]
) -> Figure:
    with style.look():
        figure = Figure(figsize=(9.6, 3.3), layout="constrained")
        curve, pseudo, likelihood = figure.subplots(1, 3)
        for activation, colour in COLOURS.items():
            for size, line in zip(trained.some(50, 1200), ("--", "-"), strict=False):
                history = curves[activation, size]
                curve.plot(
                    [row["epoch"] for row in history],
                    [row["test_pseudo_likelihood"] for row in history],
                    line,
                    color=colour,
                    label=f"{activation}, M = {size}",
                    linewidth=1.2,
                )
            for ax, what in ((pseudo, "pseudo_likelihood"), (likelihood, "likelihood")):
                values = [float(found[activation, size][what]) for size in trained.sizes]
                ax.plot(trained.sizes, values, "o-", color=colour, markersize=4, linewidth=1.2, label=activation)
            ends = [[found[activation, size][f"likelihood_{end}"] for size in trained.sizes] for end in ("low", "high")]
            likelihood.vlines(trained.sizes, *ends, color=colour)
        curve.set(xlabel="epoch", ylabel="nats a row")
        curve.set_title("test pseudo-likelihood")
        curve.legend(fontsize=6.5)
        _by_size(pseudo, "test pseudo-likelihood")
        _by_size(likelihood, "test likelihood")
        pseudo.legend(fontsize=8)
    return figure


def _by_size(ax: Axes, title: str) -> None:
    ax.set(xlabel="hidden units M", ylabel="nats a row")
    ax.set_title(title)
