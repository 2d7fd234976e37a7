"""Interactions in the zero-sum gauge: averages over all states, or over random states, of the other sites."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from .. import noise
from ..errors import NotEnumerable
from ..noise import Seed
from . import differences as differences
from .sites import Sites

_MOST_STATES = 2**20  # limit for exact averages over the states of the visible layer


def of_tuples(sites: Sites, tuples: Tensor, samples: int | None, seed: Seed) -> Tensor:
    """Interactions of tuples (n, s), exact or averaged over ``samples`` random states: (n, q, …, q)."""
    if samples is not None:
        states = _draws(sites, samples, seed)
        fields = sites.field(states)
        return torch.cat([_sampled(sites, row, states, fields) for row in tuples])
    if sites.states**sites.number > _MOST_STATES:
        raise NotEnumerable(
            f"gauge: the zero-sum gauge averages over {sites.states}^{sites.number} states, more than 2^20. Pass "
            "n_samples=1000 to average over random states, or use gauge='lattice-gas' or method='small'"
        )
    table = log_weights(sites)
    return torch.stack([_centered(_marginal(table, row)) for row in tuples.tolist()])


def _draws(sites: Sites, samples: int, seed: Seed) -> Tensor:
    """Draw uniformly random states of all sites: (samples, sites)."""
    states = torch.randint(sites.states, (samples, sites.number), generator=noise.generator(seed))
    return states.to(sites.fields.device)


def log_weights(sites: Sites) -> Tensor:
    """Compute Σ_μ ln Z_μ for every state of the visible layer: (q, …, q), one dimension per site."""
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
    """Average over all dimensions except ``kept``; the result has dimensions in the order of ``kept``."""
    others = [axis for axis in range(table.ndim) if axis not in kept]
    mean = table.mean(others) if others else table
    order = sorted(kept)
    return mean.permute([order.index(site) for site in kept])


def _centered(values: Tensor) -> Tensor:
    for axis in range(values.ndim):
        values = values - values.mean(axis, keepdim=True)
    return values


def _sampled(sites: Sites, row: Tensor, states: Tensor, fields: Tensor) -> Tensor:
    """Interaction of one tuple, averaged over the given states (samples, sites) of the other sites: (1, q, …, q)."""
    order, q = len(row), sites.states
    chosen = sites.fields[row]
    each = torch.arange(order, device=states.device)
    inner = chosen[each, torch.tensor(list(product(range(q), repeat=order)), device=states.device)].sum(1)
    others = fields - chosen[each, states[:, row]].sum(1)  # (samples, hidden)
    total = inner.new_zeros(len(inner))
    for rows in differences.chunks(len(states), inner.numel()):
        total += sites.log_partition(others[rows].unsqueeze(1) + inner).sum((0, 2))
    return _centered((total / len(states)).reshape((q,) * order)).unsqueeze(0)


def sampled_pairs(sites: Sites, samples: int, seed: Seed) -> Tensor:
    """All couplings of two-state sites (N, N): second differences of ln Z for flips of two sites of random states."""
    states = _draws(sites, samples, seed)
    total = sites.fields.new_zeros(sites.number, sites.number)
    turns = sites.fields[:, 1] - sites.fields[:, 0]
    for state, field in zip(states, sites.field(states), strict=True):
        up = 2.0 * state - 1
        costs = differences.pairs(sites.log_partition, field, -up.unsqueeze(1) * turns)
        total += up.unsqueeze(1) * costs * up
    return total / (4 * samples)
