"""Pseudo-log-likelihood: the log-probability of each visible unit given all others (Besag 1975)."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from ..checks import whole
from ..errors import InvalidOption, NotEnumerable
from ..machines import RBM
from ..machines.kernel import log_weight
from ..units import Unit
from .data import checked

MOST_STATES = 4096  # states per site; each one costs the evaluation of a free energy


@torch.no_grad()
def pseudo_log_likelihood(
    rbm: RBM, v: Tensor, *, exact: bool = True, sites: int = 1, generator: Generator | None = None
) -> Tensor:
    """Compute Σ_i ln p(v_i | v_-i) for each row: (batch, *visible) -> (batch,).

    The result is a *sum* over the visible units (sites), in nats: divide by ``rbm.visible.sites`` to compare layers of
    different size. ``exact=True`` evaluates every site. ``exact=False`` evaluates some random sites of each row and
    scales their sum, which is an unbiased estimate. Over all rows, every site is evaluated equally often, as far as
    possible.

    Args:
        rbm: machine whose visible units have finitely many states.
        v: rows (batch, *visible).
        exact: whether to evaluate all sites.
        sites: number of sites of each row with ``exact=False``.
        generator: random generator of the choice of sites. The same generator state gives the same sites.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> pseudo_log_likelihood(rbm, torch.zeros(1, 4)) / torch.tensor(0.5).log()
    tensor([4.])
    """
    rbm, v = checked(rbm, v)
    conditional, total = _Conditional(rbm, v), rbm.visible.sites
    if exact:
        return torch.stack([conditional(torch.full((len(v),), i, device=v.device)) for i in range(total)]).sum(0)
    if whole("sites", sites) < 1:
        raise InvalidOption(f"sites: expected at least 1, found {sites}")
    n = min(sites, total)
    order = torch.randperm(total, generator=generator, device=v.device)
    first = n * torch.arange(len(v), device=v.device)
    return torch.stack([conditional(order[(first + k) % total]) for k in range(n)]).sum(0) * (total / n)


def _states(unit: Unit) -> Tensor:
    """Return the states of a site, (states,) or (states, size); raise if there are too many."""
    number = unit.cardinality  # of the whole layer; available without listing the states
    if number is None:
        raise NotEnumerable(
            "pseudo-likelihood expects visible units with finitely many states, "
            f"not {unit.name()} ({unit.support.description})"
        )
    digits = math.log10(number) / unit.sites
    if digits > math.log10(MOST_STATES) + 1e-9:
        raise NotEnumerable(
            f"pseudo-likelihood expects at most {MOST_STATES} states per unit, "
            f"found about 10^{digits:.1f} ({unit.name()})"
        )
    states = unit.support.states()
    if states is None:
        raise NotEnumerable(
            "pseudo-likelihood expects a visible layer with a single unit type, "
            f"not {unit.name()} ({unit.support.description})"
        )
    return states


class _Conditional:
    """ln p(v_i | v_-i) of one site of each row. A changed site changes the hidden fields by a few rows of W only."""

    def __init__(self, rbm: RBM, v: Tensor) -> None:
        self.rbm, self.states = rbm, _states(rbm.visible).to(v)
        self.shape, self.flat = v.shape, v.reshape(len(v), rbm.visible.sites, *self.states.shape[1:])
        self.rows = torch.arange(len(v), device=v.device)
        self.field = rbm.field(1, [v, None])
        shared = rbm.coupling.weight.numel() < rbm.visible.size * rbm.hidden.size  # whose dense matrix is large
        matrix = None if shared else rbm.coupling.matrix()
        self.weight = None if matrix is None else matrix.reshape(rbm.visible.sites, -1, matrix.shape[1])

    def __call__(self, site: Tensor) -> Tensor:
        """Return the log-probabilities for the sites (rows,)."""
        now = self.flat[self.rows, site]
        values = [self._log_weight(site, now, state) for state in self.states]
        log_p = torch.log_softmax(torch.stack(values), 0)
        distance = (self.states.unsqueeze(1) - now).abs().reshape(len(self.states), len(now), -1).sum(-1)
        return log_p[distance.argmin(0), self.rows]

    def _log_weight(self, site: Tensor, now: Tensor, state: Tensor) -> Tensor:
        """Return ln of the weight of the rows with ``state`` at the sites, whose present states are ``now``."""
        changed = self.flat.clone()
        changed[self.rows, site] = state
        known = {}
        if self.weight is not None:
            moved = torch.einsum("rq,rqm->rm", (state - now).reshape(len(now), -1), self.weight[site])
            known[1] = self.field + moved.reshape(self.field.shape)
        return log_weight(self.rbm, [changed.reshape(self.shape), None], fields=known)
