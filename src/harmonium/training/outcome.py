"""Checks after training: is the machine better than independent units, and have the weights stopped growing?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import noise
from ..errors import InvalidData
from ..likelihood import ais
from ..machines import RBM, BoltzmannMachine, Machine
from ..units import Unit

_RUNS, _BETAS = 20, 50  # few suffice: the estimate is too optimistic on average, so most machines need no more
_MORE_RUNS = 400  # before a warning: the error of few runs may be as large as the gain of weak couplings
_LEAST_GAIN = 1e-3  # nats per visible unit
_FEWEST_ROWS = 8  # smallest number of history rows to judge the growth of the weights
_STRONG = 30.0  # nats; largest normal change of the log-odds of one unit by another


def problems(machine: Machine, rows: Any, history: Sequence[dict[str, float]], generative: bool = True) -> list[str]:
    """Return reasons not to use the trained machine; ``rows`` (n, *visible) are some of the training data.

    A machine that was not trained as a model of the data (``generative``) is not compared with independent units.
    """
    found: list[str | None] = []
    generator = noise.generator(0, machine.device)
    if machine.context is not None:  # a likelihood would need an annealing for each row
        return [problem for problem in [_growth(machine, rows[0], history)] if problem is not None]
    for k, (one, inputs) in enumerate(machine.stacked(rows, generator=generator, inputs="samples")):
        problem = _no_gain(one, inputs) if generative else None
        found.append(problem if one is machine or problem is None else f"machine {k + 1}: {problem}")
    found.append(_growth(machine, rows, history))
    return [problem for problem in found if problem is not None]


@torch.no_grad()
def gain_over_independent(machine: RBM, rows: Tensor, runs: int = _RUNS) -> tuple[float, float]:
    """Return the mean log-likelihoods of ``rows`` (n, *visible) for the machine and for independent units, in nats.

    The units are fitted to the rows. The likelihood of the machine is estimated by a short annealing of ``runs`` runs,
    which underestimates ln Z on average and so overestimates the likelihood.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(2), hm.units.Bernoulli(1))
    >>> ours, theirs = gain_over_independent(rbm, torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    >>> round(ours, 3), round(theirs, 3)
    (-1.386, -1.386)
    """
    found = ais(machine, runs=runs, betas=_BETAS, base=rows, check=False, seed=0).log_likelihood(rows)
    assert found.baseline is not None
    return found.value, found.baseline


def _no_gain(machine: BoltzmannMachine, rows: Tensor) -> str | None:
    if not isinstance(machine, RBM) or machine.visible.conserving(rows) is not machine.visible:
        return None
    try:
        machine.visible.check(rows)
    except InvalidData:  # means of hidden units below, which have no likelihood
        return None
    least = _LEAST_GAIN * machine.visible.sites
    for runs in _RUNS, _MORE_RUNS:
        ours, theirs = gain_over_independent(machine, rows, runs)
        if ours > theirs + least:
            return None
    return (
        f"the machine describes the training data no better than independent units: log-likelihood {ours:.3f} nats, "
        f"expected more than {theirs + least:.3f} ({theirs:.3f} of independent units + {least:.2g}); train for more "
        f"epochs or change the learning rate"
    )


def _growth(machine: Machine, rows: Tensor, history: Sequence[dict[str, float]]) -> str | None:
    """Return a warning if the weights are large and their growth does not slow down (slow divergence)."""
    norms = [row["weight_norm"] for row in history if "weight_norm" in row]
    if len(norms) < _FEWEST_ROWS:
        return None
    quarter = len(norms) // 4
    middle, late, last = norms[-1 - 2 * quarter], norms[-1 - quarter], norms[-1]
    if last < 1.5 * middle or last - late < late - middle:
        return None
    strongest = max(
        coupling.matrix().detach().abs().max().item() * _reach(machine.layers[k], rows) * _reach(machine.layers[k + 1])
        for k, coupling in enumerate(machine.couplings)
    )
    if strongest < _STRONG:
        return None
    return (
        f"the weights keep growing and do not slow down: their norm increased from {middle:.3g} to {last:.3g} "
        f"in the second half of the training, and the strongest coupling is {strongest:.0f} nats; use a smaller "
        f"learning rate or a penalty such as L2(1e-4)"
    )


def _reach(unit: Unit, rows: Tensor | None = None) -> float:
    """Return the largest difference of two states of a unit: the width of the support, or four standard deviations."""
    states = unit.support.states() if not unit.event_shape else None
    if states is not None:
        return (states.max() - states.min()).item()
    spread = unit.free_variance() if rows is None else rows.var(0, correction=0)
    return 1.0 if unit.event_shape else 4 * math.sqrt(spread.max().item())
