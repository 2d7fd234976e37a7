"""What a finished training has achieved: more than independent units, and weights that have come to rest?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..likelihood.annealing import ais
from ..likelihood.data import mean_free_energy
from ..machines import RBM, BoltzmannMachine
from ..sampling.path import independent, uncoupled_log_partition
from ..units import Unit

_RUNS, _BETAS = 20, 50  # few: the estimate errs toward a good likelihood, so a bad one can be relied on
_LEAST_GAIN = 1e-3  # nats per visible unit
_FEWEST_ROWS = 8  # of the history, to judge growth by
_STRONG = 30.0  # nats: what one unit may change the odds of another by


def problems(machine: BoltzmannMachine, rows: Tensor, history: Sequence[dict[str, float]]) -> list[str]:
    """Reasons why the machine should not be used as it is; ``rows`` (n, *visible) are some of the training data."""
    found = [_no_gain(machine, rows), _growth(machine, rows, history)]
    return [problem for problem in found if problem is not None]


@torch.no_grad()
def gain_over_independent(machine: RBM, rows: Tensor) -> tuple[float, float]:
    """The mean log-likelihood of ``rows`` (n, *visible), and that of independent units fitted to them, in nats.

    The first is estimated by a short annealing, which underestimates ln Z: it is too large rather than too small.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(2), hm.units.Bernoulli(1))
    >>> ours, theirs = gain_over_independent(rbm, torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    >>> round(ours, 3), round(theirs, 3)
    (-1.386, -1.386)
    """
    apart = independent(machine, rows)
    theirs = -mean_free_energy(apart, rows) - uncoupled_log_partition(apart)
    estimate = ais(machine, runs=_RUNS, betas=_BETAS, base=rows, seed=0)
    return estimate.log_likelihood(rows), theirs


def _no_gain(machine: BoltzmannMachine, rows: Tensor) -> str | None:
    if not isinstance(machine, RBM) or machine.visible.conserving(rows) is not machine.visible:
        return None
    ours, theirs = gain_over_independent(machine, rows)
    if ours > theirs + _LEAST_GAIN * machine.visible.sites:
        return None
    return (
        f"the machine describes the training data no better than independent units do: log-likelihood {ours:.2f}, "
        f"expected more than {theirs:.2f} nats; train for more epochs, or change the learning rate"
    )


def _growth(machine: BoltzmannMachine, rows: Tensor, history: Sequence[dict[str, float]]) -> str | None:
    """Weights that are large and do not grow more slowly than before: training that diverges slowly."""
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
        f"the weights are still growing at a constant rate or faster: their norm went from {middle:.3g} to {last:.3g} "
        f"in the second half of the training, and the strongest coupling is {strongest:.0f} nats; use a smaller "
        f"learning rate or a penalty such as L2(1e-4)"
    )


def _reach(unit: Unit, rows: Tensor | None = None) -> float:
    """How far apart two states of one unit are: the width of a bounded support, or four standard deviations."""
    states = unit.support.states() if not unit.event_shape else None
    if states is not None:
        return (states.max() - states.min()).item()
    spread = unit.free_variance() if rows is None else rows.var(0, correction=0)
    return 1.0 if unit.event_shape else 4 * math.sqrt(spread.max().item())
