"""Interactions in the zero-sum gauge: means over all states of the other sites, or over some of them."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from .. import noise
from ..errors import NotEnumerable
from . import differences as differences
from .sites import Sites

_MOST_STATES = 2**20  # of all sites together, for an average over all of them


def of_tuples(sites: Sites, tuples: Tensor, samples: int | None, seed: int | None) -> Tensor:
    """The interactions of tuples (n, s), exactly or as a mean over random states of the others: (n, q, …, q)."""
    if samples is not None:
        states = _draws(sites, samples, seed)
        fields = sites.field(states)
        return torch.cat([_sampled(sites, row, states, fields) for row in tuples])
    if sites.states**sites.number > _MOST_STATES:
        raise NotEnumerable(
            f"the zero-sum gauge averages over all {sites.states}^{sites.number} states: give n_samples=1000 for a "
            "mean over random ones, or ask for gauge='lattice-gas' or method='small'"
        )
    table = log_weights(sites)
    return torch.stack([_centered(_marginal(table, row)) for row in tuples.tolist()])


def _draws(sites: Sites, samples: int, seed: int | None) -> Tensor:
    """States of all sites, each equally likely: (samples, sites)."""
    states = torch.randint(sites.states, (samples, sites.number), generator=noise.generator(seed))
    return states.to(sites.fields.device)


def log_weights(sites: Sites) -> Tensor:
    """Σ_μ ln Z_μ at every state of the sites: (q, …, q), a dimension for each site."""
    total = sites.states**sites.number
    parts = []
    for rows in differences.chunks(total, sites.fields.shape[2]):
        number = torch.arange(rows.start, rows.stop, device=sites.fields.device)
        field = torch.zeros_like(sites.fields[0, 0])
        for site in reversed(range(sites.number)):
            field = field + sites.fields[site, number % sites.states]
            number = number // sites.states
        parts.append(sites.log_partition(field).sum(1))
    return torch.cat(parts).reshape((sites.states,) * sites.number)


def _marginal(table: Tensor, kept: list[int]) -> Tensor:
    """The mean over all dimensions but ``kept``, which come in their order."""
    others = [axis for axis in range(table.ndim) if axis not in kept]
    mean = table.mean(others) if others else table
    order = sorted(kept)
    return mean.permute([order.index(site) for site in kept])


def _centered(values: Tensor) -> Tensor:
    for axis in range(values.ndim):
        values = values - values.mean(axis, keepdim=True)
    return values


def _sampled(sites: Sites, row: Tensor, states: Tensor, fields: Tensor) -> Tensor:
    """The interaction of one tuple with the other sites in the given states (samples, sites): (1, q, …, q)."""
    order, q = len(row), sites.states
    chosen = sites.fields[row]
    each = torch.arange(order, device=states.device)
    inner = chosen[each, torch.tensor(list(product(range(q), repeat=order)), device=states.device)].sum(1)
    others = fields - chosen[each, states[:, row]].sum(1)  # (samples, hidden)
    total = inner.new_zeros(len(inner))
    for rows in differences.chunks(len(states), inner.numel()):
        total += sites.log_partition(others[rows].unsqueeze(1) + inner).sum((0, 2))
    return _centered((total / len(states)).reshape((q,) * order)).unsqueeze(0)


def sampled_pairs(sites: Sites, samples: int, seed: int | None) -> Tensor:
    """All couplings of two-state sites, (N, N): what it costs to turn two sites of a random state rather than one."""
    states = _draws(sites, samples, seed)
    total = sites.fields.new_zeros(sites.number, sites.number)
    turns = sites.fields[:, 1] - sites.fields[:, 0]
    for state, field in zip(states, sites.field(states), strict=True):
        up = 2.0 * state - 1
        costs = differences.pairs(sites.log_partition, field, -up.unsqueeze(1) * turns)
        total += up.unsqueeze(1) * costs * up
    return total / (4 * samples)
