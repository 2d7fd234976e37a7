"""The posterior of signals given observations, and rounding to possible values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import NotEnumerable
from ..shown import brief
from ..units import Unit
from ..units.support import OneHot
from .observed import by_part

_MOST_STATES = 4096  # limit of states of a unit, because each is compared with the mean


@brief
@dataclass(frozen=True)
class Posterior:
    """Posterior of the visible units given observations, one row per observation.

    ``means`` and ``variances`` are (n, *visible), NaN in rows for which the method failed. ``converged`` (n,) says
    whether the method converged. ``iterations`` (n,) is the number of iterations; mean field checks for convergence
    every 25 iterations.
    """

    method: str
    means: Tensor
    variances: Tensor
    converged: Tensor
    iterations: Tensor
    visible: Unit = field(repr=False)
    #: mean field: estimate of -ln Σ_x P(x) e^{Bx - Ax²/2} with P not normalized, to compare solutions
    free_energy: Tensor | None = None
    #: Gibbs sampling: standard error of the means, from the 2·chains halves of the chains: an error divided by it has
    #: Student's t distribution with 2·chains - 1 degrees of freedom (beyond 5 in 0.16 % of the entries for 4 chains)
    standard_error: Tensor | None = None
    #: Gibbs sampling: last state of each chain, (n, chains, *visible)
    draws: Tensor | None = None

    def __len__(self) -> int:
        return len(self.means)

    @property
    def rounded(self) -> Tensor:
        """The possible value nearest to each mean, (n, *visible), which minimizes the expected squared error.

        For binary and one-hot units it is the most probable value.
        """
        return by_part(self.visible, nearest, self.means)

    @staticmethod
    def join(parts: list[Posterior]) -> Posterior:
        """Concatenate the results of several calls."""
        names = ("means", "variances", "converged", "iterations", "free_energy", "standard_error", "draws")
        given = [name for name in names if getattr(parts[0], name) is not None]
        joined: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in given}
        return replace(parts[0], **joined)


def nearest(unit: Unit, x: Tensor) -> Tensor:
    """Possible value of each unit nearest to ``x``: (n, *shape). Ties go to the smaller value; NaN stays NaN.

    >>> from harmonium.units import Gaussian, Poisson, Spin
    >>> nearest(Spin(2), torch.tensor([[0.2, -0.7]])), nearest(Poisson(1), torch.tensor([[1.7]]))
    (tensor([[ 1., -1.]]), tensor([[2.]]))
    >>> nearest(Gaussian(1), torch.tensor([[0.3]]))
    tensor([[0.3000]])
    """
    if isinstance(unit.support, OneHot):
        top = torch.zeros_like(x).scatter_(-1, x.argmax(-1, keepdim=True), 1.0)
        return torch.where(torch.isnan(x), x, top)
    number = unit.cardinality
    if number is None:  # real numbers, or unbounded counts
        return torch.where(unit.support.contains(x), x, x.round()) if not unit.event_shape else x.round()
    if number > _MOST_STATES**unit.sites:
        raise NotEnumerable(f"rounding: expected at most {_MOST_STATES} states per unit, found more ({unit.name()})")
    states = unit.support.states()
    assert states is not None
    states = states.to(x)
    best, value = torch.full_like(x[..., :1] if unit.event_shape else x, torch.inf), x.clone()
    for state in states:  # one at a time: no array of all states of all units
        distance = (x - state).square()
        distance = distance.sum(-1, keepdim=True) if unit.event_shape else distance
        closer = distance < best
        best, value = torch.where(closer, distance, best), torch.where(closer, state, value)
    return value
