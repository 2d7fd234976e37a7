"""Pseudo-log-likelihood: the log-probability of each visible unit given all others (Besag 1975)."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from ..errors import NotEnumerable
from ..machines import RBM
from ..units import Unit
from .data import checked

MOST_STATES = 4096  # states per site; each one costs the evaluation of a free energy


@torch.no_grad()
def pseudo_log_likelihood(rbm: RBM, v: Tensor, *, exact: bool = True, generator: Generator | None = None) -> Tensor:
    """Compute Σ_i ln p(v_i | v_-i) for each row: (batch, *visible) -> (batch,).

    The result is a *sum* over the visible units (sites), in nats: divide by ``rbm.visible.sites`` to compare layers of
    different size. ``exact=True`` evaluates every site. ``exact=False`` evaluates one random site per row and
    multiplies by the number of sites, which is an unbiased estimate.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> pseudo_log_likelihood(rbm, torch.zeros(1, 4)) / torch.tensor(0.5).log()
    tensor([4.])
    """
    rbm, v = checked(rbm, v)
    states = _states(rbm.visible).to(v)
    sites = rbm.visible.sites
    if exact:
        columns = [_conditional(rbm, v, states, torch.full((len(v),), i, device=v.device)) for i in range(sites)]
        return torch.stack(columns).sum(0)
    site = torch.randint(sites, (len(v),), generator=generator, device=v.device)
    return sites * _conditional(rbm, v, states, site)


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


def _conditional(rbm: RBM, v: Tensor, states: Tensor, site: Tensor) -> Tensor:
    """Return ln p(v_i | v_-i) for one site i of each row."""
    event = states.shape[1:]
    rows = torch.arange(len(v), device=v.device)
    flat = v.reshape(len(v), rbm.visible.sites, *event)
    values = []
    for state in states:
        changed = flat.clone()
        changed[rows, site] = state
        values.append(-rbm.free_energy(changed.reshape(v.shape), check=False))
    log_p = torch.log_softmax(torch.stack(values), 0)
    distance = (states.unsqueeze(1) - flat[rows, site]).abs().reshape(len(states), len(v), -1).sum(-1)
    return log_p[distance.argmin(0), rows]
