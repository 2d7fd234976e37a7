"""Figure 2: a machine of 3 visible and 4 exponential hidden units that has only a three-body interaction.

The paper does not give the values of its drawing. There are two machines of that shape here: *drawn*, where one hidden
unit is connected to all three variables and three are connected to a pair each, and *symmetric*, whose visible biases
vanish.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy import stats
from torch import Tensor

from harmonium.couplings import Dense
from harmonium.machines import RBM
from harmonium.plots import style
from harmonium.units import Bernoulli, Poisson

from ..judging import THREE_SIGMA, Measured, Verdict, brief
from ..record import Record
from . import counting

#: states in each of the 20 samples
SIZES = {"quick": 1000, "full": 1000}
_SMALL = 0.5  # of the three-body term: the samples have to exclude fields and couplings of this size


def run(record: Record, scale: str, size: int = 0, steps: int = 100, seed: int = 0) -> None:
    """Sample both machines and count states; ``size`` replaces the 1000 states per sample."""
    found = {}
    for k, (name, rbm) in enumerate({"drawn": drawn(), "symmetric": symmetric(0.8)}.items()):
        found[name] = counting.count(rbm, size or SIZES[scale], steps, seed + k)
        _claims(record, name, found[name])
    counting.write(record, found)
    record.figure("fig2", _figure(found))


def drawn() -> RBM:
    """A triple (ln 2, ln 2, ln 2), whose couplings of 1 are canceled by the pairs (ln 3, -ln 2): I₃ = 1."""
    two, three = math.log(2), math.log(3)
    weights = torch.tensor(
        [[two, three, three, 0.0], [two, -two, 0.0, three], [two, 0.0, -two, -two]], dtype=torch.float64
    )
    return _without_fields(weights)


def symmetric(a: float) -> RBM:
    """Weights ln(1 ± a) with the signs of a tetrahedron, so that fields and couplings cancel: I₃ = 4a³."""
    signs = torch.tensor([[1.0, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]], dtype=torch.float64)
    return _without_fields(torch.log1p(a * signs))


def _without_fields(weights: torch.Tensor) -> RBM:
    """The exponential machine with zero hidden biases, and visible biases that cancel the fields."""
    n, m = weights.shape
    bias = -torch.expm1(weights).sum(1)
    return RBM(Bernoulli(n, bias=bias), Poisson(m, bias=torch.zeros(m, dtype=torch.float64)), Dense(n, m, weights))


def sampled_interactions(counts: Tensor) -> tuple[Tensor, Tensor]:
    """All seven interactions from counts of the 8 states, as binary numbers, and their covariance: (7,), (7, 7).

    Alternating sums of ln(counts), whose entries have variances 1/count, without eq. (14). The order is that of the
    sets 1, 2, 12, 3, 13, 23, 123 of variables.
    """
    signs = counting.inclusion_exclusion(torch.eye(len(counts), dtype=torch.float64))[1:]
    return signs @ counts.double().log(), signs @ torch.diag(1 / counts.double()) @ signs.T


def judge_three_body(found: Tensor, covariance: Tensor, predicted: float) -> tuple[Verdict, float]:
    """A pure three-body interaction, and the p-value of fields and couplings all being zero.

    Holds if χ² of the three fields and three couplings, as sampled, has p ≥ 0.01, and the three-body term is not zero
    and within three standard errors of the predicted one. Open if the samples cannot exclude fields or couplings of
    half the three-body term, or cannot tell the latter from zero.
    """
    if not bool(torch.isfinite(covariance).all() and torch.isfinite(found).all()):
        return None, math.nan
    lower, spread = found[:-1], covariance[:-1, :-1]
    p_value = float(stats.chi2.sf(float(lower @ torch.linalg.solve(spread, lower)), len(lower)))
    three = Measured(float(found[-1]), float(covariance[-1, -1].sqrt()))
    off = abs(three.value - predicted) > THREE_SIGMA.errors() * three.error
    there = Measured(abs(three.value), three.error).above(0.0, THREE_SIGMA)
    if p_value < counting.LEAST_P_VALUE or off:
        return False, p_value
    resolved = THREE_SIGMA.errors() * float(spread.diagonal().sqrt().max()) <= _SMALL * abs(three.value)
    return (True if there and resolved else None), p_value


def _claims(record: Record, name: str, counted: counting.Counted) -> None:
    predicted = counted.model.terms[3][1].item()
    found, covariance = sampled_interactions(counted.mean * counted.size * len(counted.frequencies))
    holds, p_value = judge_three_body(found, covariance, predicted)
    errors = covariance.diagonal().sqrt()
    record.claim(
        f"{name}: a pure three-body model",
        f"from the samples: three-body term {brief(Measured(float(found[-1]), float(errors[-1])))} "
        f"(predicted {predicted:.3f}); largest field or coupling {found[:-1].abs().max():.3f}, "
        f"standard errors up to {errors[:-1].max():.3f}, p = {p_value:.2f} for all of them zero",
        holds,
    )
    counting.claim_agreement(record, name, counted, control=2)


def _figure(found: dict[str, counting.Counted]) -> Figure:
    with style.look():
        figure = Figure(figsize=(4.2 * len(found), 3.2), layout="constrained")
        for ax, (name, counted) in zip(np.atleast_1d(figure.subplots(1, len(found))), found.items(), strict=True):
            words = [row["state"] for row in counting.state_rows(name, counted)]
            at = np.arange(len(words))
            ax.bar(
                at,
                counted.mean,
                yerr=counted.spread,
                width=0.7,
                color="#9fd3e6",
                ecolor=style.INK,
                capsize=2,
                label="sampled",
            )
            ax.plot(at, counted.log_p.exp(), color=style.SECOND, marker="o", markersize=3, label="interaction model")
            ax.set_xticks(at, words, fontsize=8)
            ax.set(xlabel="state", ylabel="frequency")
            ax.set_title(f"{name}: three-body term {counted.model.terms[3][1].item():.3g}")
            ax.legend(fontsize=8, loc="upper left")
    return figure
