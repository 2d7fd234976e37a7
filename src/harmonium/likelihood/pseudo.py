"""Pseudo-likelihood: the probability of each unit given all the others."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from ..errors import NotEnumerable
from ..machines import RBM


@torch.no_grad()
def pseudo_log_likelihood(rbm: RBM, v: Tensor, *, exact: bool = True, generator: Generator | None = None) -> Tensor:
    """Σ_i ln p(v_i | v_-i) for each row: (batch, *visible) -> (batch,).

    It is a *sum* over the visible units (sites), in nats: divide by ``rbm.visible.sites`` to compare layers of
    different size. ``exact=True`` visits every site; ``exact=False`` visits one random site for each row and
    multiplies by the number of sites, an unbiased estimate at the price of one site.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> pseudo_log_likelihood(rbm, torch.zeros(1, 4)) / torch.tensor(0.5).log()
    tensor([4.])
    """
    v = rbm.as_states(v)
    states = rbm.visible.support.states()
    if states is None:
        raise NotEnumerable(
            f"pseudo-likelihood expects visible units with finitely many states, not {rbm.visible.name()}"
        )
    rbm.visible.check(v)
    states = states.to(v)
    sites = rbm.visible.sites
    if exact:
        columns = [_conditional(rbm, v, states, torch.full((len(v),), i, device=v.device)) for i in range(sites)]
        return torch.stack(columns).sum(0)
    site = torch.randint(sites, (len(v),), generator=generator, device=v.device)
    return sites * _conditional(rbm, v, states, site)


def _conditional(rbm: RBM, v: Tensor, states: Tensor, site: Tensor) -> Tensor:
    """ln p(v_i | v_-i) for one site i of each row."""
    event = states.shape[1:]
    rows = torch.arange(len(v), device=v.device)
    flat = v.reshape(len(v), rbm.visible.sites, *event)
    values = []
    for state in states:
        changed = flat.clone()
        changed[rows, site] = state
        values.append(-rbm.free_energy(changed.reshape(v.shape)))
    log_p = torch.log_softmax(torch.stack(values), 0)
    distance = (states.unsqueeze(1) - flat[rows, site]).abs().reshape(len(states), len(v), -1).sum(-1)
    return log_p[distance.argmin(0), rows]
