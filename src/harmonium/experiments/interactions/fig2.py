"""Figure 2: a machine of exponential units, 3 visible and 4 hidden, that is nothing but a three-body interaction.

The values of the published drawing cannot be read from its text. Two machines of that shape are built here: *drawn*,
where one hidden unit sees all three variables and three see a pair each, and *symmetric*, whose visible biases vanish.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from matplotlib.figure import Figure

from ...couplings import Dense
from ...machines import RBM
from ...plots import style
from ...units import Bernoulli, Poisson
from ..record import Record
from . import counting

#: states in each of the 20 samples
SIZES = {"quick": 1000, "full": 1000}
_ZERO = 1e-12


def run(record: Record, scale: str, size: int = 0, steps: int = 100, seed: int = 0) -> None:
    """Both machines, sampled and counted; ``size`` takes the place of the scale's 1000 states a sample."""
    found = {}
    for k, (name, rbm) in enumerate({"drawn": drawn(), "symmetric": symmetric(0.8)}.items()):
        found[name] = counting.count(rbm, size or SIZES[scale], steps, seed + k)
        _claims(record, name, found[name])
    counting.write(record, found)
    record.figure("fig2", _figure(found))


def drawn() -> RBM:
    """A triple (ln 2, ln 2, ln 2), whose couplings of 1 the pairs (ln 3, -ln 2) take away: I₃ = 1."""
    two, three = math.log(2), math.log(3)
    weights = torch.tensor(
        [[two, three, three, 0.0], [two, -two, 0.0, three], [two, 0.0, -two, -two]], dtype=torch.float64
    )
    return _without_fields(weights)


def symmetric(a: float) -> RBM:
    """Weights ln(1 ± a) with the signs of a tetrahedron, under which fields and couplings cancel: I₃ = 4a³."""
    signs = torch.tensor([[1.0, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]], dtype=torch.float64)
    return _without_fields(torch.log1p(a * signs))


def _without_fields(weights: torch.Tensor) -> RBM:
    """The exponential machine with hidden biases zero and visible ones that leave no fields."""
    n, m = weights.shape
    bias = -torch.expm1(weights).sum(1)
    return RBM(Bernoulli(n, bias=bias), Poisson(m, bias=torch.zeros(m, dtype=torch.float64)), Dense(n, m, weights))


def _claims(record: Record, name: str, counted: counting.Counted) -> None:
    strength = {order: values.abs().max().item() for order, (_, values) in counted.model.terms.items()}
    record.claim(
        f"{name}: a pure three-body model",
        f"largest field {strength[1]:.1e}, largest coupling {strength[2]:.1e}, three-body term {strength[3]:.4f}",
        max(strength[1], strength[2]) < _ZERO < strength[3],
    )
    gap = (counted.mean - counted.log_p.exp()).abs()
    record.claim(
        f"{name}: the probabilities lie within the error bars (standard deviation over 20 samples) of all 8 states",
        f"at most {(gap / counted.spread).max():.2f} error bars apart",
        bool((gap <= counted.spread).all()),
    )
    counting.claim_agreement(record, name, counted)


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
