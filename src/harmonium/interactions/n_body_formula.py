"""N-body interactions between the visible units of an RBM: Bulso & Roudi (2021), eq. (14).

Summing over the hidden units turns an RBM into a model of interacting visible units,

    ln p(v) = const + Σ_i I_i v_i + Σ_{i<j} I_ij v_i v_j + Σ_{i<j<k} I_ijk v_i v_j v_k + …

For v_i ∈ {0, 1}, the interaction of order s between the units S = {i₁, …, i_s} is

    I_S = Σ_μ Σ_{T ⊆ S} (-1)^{s-|T|} ln Z_μ(Σ_{i∈T} w_iμ),          (14)

where ln Z_μ(B) is the log-partition function of hidden unit μ, including its bias, in the field B. For s = 1, the
visible bias b_i is added. For small weights, eqs. (19) and (21), I_S ≈ Σ_μ κ_μ^(s) Π_{i∈S} w_iμ with the cumulant
κ_μ^(s) of order s of hidden unit μ.

The decomposition into orders depends on the *gauge*:

``lattice-gas``
    I_S(a) = 0 if any site of S is in state 0. For {0, 1} variables this is eq. (14). An interaction of order s depends
    only on the weights of its s units.
``zero-sum``
    I_S(a) sums to zero over the states of each site of S. For states a = ±1 this is the expansion in spins,
    I_S(a) = J_S Π a_i. It averages over the states of all other sites: exactly for up to 2^20 states of the visible
    layer, otherwise over ``n_samples`` random states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor

from ..checks import whole
from ..errors import InvalidOption, NotEnumerable, unknown
from ..machines import RBM
from ..noise import Seed
from . import differences as differences
from . import zero_sum as zero_sum
from .sites import Sites
from .tuples import all_tuples, check_order, check_tuples

METHODS = ("exact", "small")
_MOST_ELEMENTS = 2**27  # limit for a dense result
_MOST_TERMS = 2**20  # limit for the sum over T ⊆ S of one interaction


@torch.no_grad()
def n_body(
    rbm: RBM,
    order: int,
    indices: Any = None,
    *,
    method: str = "exact",
    gauge: str | None = None,
    bias: bool = True,
    n_samples: int | None = None,
    seed: Seed = None,
    chunk: int | None = None,
) -> Tensor:
    """Compute the interactions of a given order between visible units: Bulso & Roudi (2021), eq. (14), in float64.

    Args:
        rbm: an RBM whose visible units have finitely many states.
        order: number s of interacting visible units.
        indices: tuples of visible units (n, order), for example from :func:`random_tuples`. By default all tuples.
        method: ``"exact"`` for eq. (14), or ``"small"`` for the leading order in the weights, eqs. (19) and (21). The
            relative error of ``"small"`` is of first order in the weights (second order in the zero-sum gauge).
        gauge: ``"lattice-gas"`` (default for {0, 1} units) or ``"zero-sum"`` (default for all others); see the module.
        bias: whether interactions of order 1 include the visible bias.
        n_samples: number of random states of the other sites in the zero-sum gauge; needed above 2^20 visible states.
        seed: seed of these random states.
        chunk: number of tuples per step; by default as many as fit in the CPU cache.

    Returns:
        The interactions (n,) of the given ``indices``, or of all N units as one symmetric tensor with ``order``
        dimensions of size N, zero where indices coincide. For units with q > 2 states, ``order`` dimensions of size q
        follow.

    >>> import harmonium as hm
    >>> W = torch.tensor([[1.0], [2.0], [3.0]])
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Gaussian(1), hm.couplings.Dense(3, 1, W))
    >>> n_body(rbm, 2).round(decimals=9)  # linear units: J = W Wᵀ, off the diagonal
    tensor([[0., 2., 3.],
            [2., 0., 6.],
            [3., 6., 0.]], dtype=torch.float64)
    >>> n_body(rbm, 3, indices=[[0, 1, 2]]).item()
    0.0
    """
    sites = Sites.of(rbm)
    order = check_order(order, sites.number)
    gauge = sites.gauge(gauge)
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if method == "exact" and sites.states**order > _MOST_TERMS:
        raise NotEnumerable(f"order {order}: an interaction is a sum of {sites.states}^{order} terms, more than 2^20")
    if n_samples is not None and whole("n_samples", n_samples) < 1:
        raise InvalidOption(f"n_samples: expected at least 1, found {n_samples}")
    if chunk is not None and whole("chunk", chunk) < 1:
        raise InvalidOption(f"chunk: expected at least one tuple, found {chunk}")
    question = _Question(method, gauge, bias, n_samples, seed, chunk)
    if indices is None:
        return _dense(sites, order, question)
    return _of_tuples(sites, check_tuples(indices, sites.number, order).to(sites.fields.device), question)


@dataclass(frozen=True)
class _Question:
    """The options of :func:`n_body`."""

    method: str
    gauge: str
    bias: bool
    n_samples: int | None
    seed: Seed
    chunk: int | None


def _of_tuples(sites: Sites, tuples: Tensor, question: _Question) -> Tensor:
    """Interactions of the given tuples (n, s): (n,), or (n, q, …, q) for q > 2 states."""
    order = tuples.shape[1]
    base, steps = sites.reference(question.gauge)
    if not len(tuples):
        return steps.new_zeros(0, *_event(sites, order))
    if question.method == "exact" and question.gauge == "zero-sum":
        values = zero_sum.of_tuples(sites, tuples, question.n_samples, question.seed)
        return _finish(sites, values, tuples, question)
    cumulant = sites.cumulant(order, base) if question.method == "small" else None
    parts = []
    for rows in differences.chunks(len(tuples), order * steps.shape[1] ** order * steps.shape[2], question.chunk):
        chosen = steps[tuples[rows]]
        parts.append(_lattice_gas(sites, base, chosen) if cumulant is None else _combined(chosen, cumulant))
    return _finish(sites, torch.cat(parts), tuples, question)


def _combined(steps: Tensor, cumulant: Tensor) -> Tensor:
    """Compute Σ_μ κ_μ d₁ … d_s for all combinations of states: (n, s, states, hidden) -> (n, states, …, states)."""
    n, order, states, _ = steps.shape
    total = cumulant.expand(n, *(1 for _ in range(order)), -1)
    for k in range(order):
        shape = [n, *(states if axis == k else 1 for axis in range(order)), steps.shape[-1]]
        total = total * steps[:, k].reshape(shape)
    return total.sum(-1)


def _lattice_gas(sites: Sites, base: Tensor, steps: Tensor) -> Tensor:
    """Eq. (14) for all combinations of nonzero states: (n, s, q - 1, hidden) -> (n, q - 1, …, q - 1)."""
    n, order, states, _ = steps.shape
    every = list(product(range(states), repeat=order))
    rows = steps[:, torch.arange(order), torch.tensor(every)]  # (n, combinations, s, hidden)
    values = differences.summed(sites.log_partition, base, rows.flatten(0, 1))
    return values.reshape(n, *(states for _ in range(order)))


def _finish(sites: Sites, values: Tensor, tuples: Tensor, question: _Question) -> Tensor:
    """Add the visible bias to order 1, and reshape the result."""
    order, gauge = tuples.shape[1], question.gauge
    if order == 1 and question.bias:
        own = sites.own[tuples[:, 0]]
        values = values + (own[:, 1:] - own[:, :1] if gauge == "lattice-gas" else own - own.mean(1, keepdim=True))
    if sites.states == 2:  # one number: all sites in state 1, or all spins up
        return values.flatten(1)[:, -1]
    if gauge == "lattice-gas":
        values = torch.nn.functional.pad(values, (1, 0) * order)
    return values


def _event(sites: Sites, order: int) -> tuple[int, ...]:
    return () if sites.states == 2 else (sites.states,) * order


# -- all of an order ----------------------------------------------------------------------------------------------


def _dense(sites: Sites, order: int, question: _Question) -> Tensor:
    method, gauge = question.method, question.gauge
    n = sites.number
    if n**order * math.prod(_event(sites, order)) > _MOST_ELEMENTS:
        raise NotEnumerable(
            f"order: all interactions of order {order} between {n} units are too many for one tensor. Pass indices, "
            "for example from random_tuples(…)"
        )
    if order in (2, 3) and sites.scalar and (method == "small" or gauge == "lattice-gas"):
        values = _all_pairs(sites, method, gauge) if order == 2 else _all_triples(sites, method, gauge)
        return _without_repeats(values, order)
    if order == 2 and sites.scalar and sites.states == 2 and question.n_samples is not None:
        return _without_repeats(zero_sum.sampled_pairs(sites, question.n_samples, question.seed), order)
    tuples = all_tuples(n, order).to(sites.fields.device)
    values = _of_tuples(sites, tuples, question)
    full = values.new_zeros(*(n,) * order, *_event(sites, order))
    for axes in permutations(range(order)):
        moved = values if sites.states == 2 else values.permute(0, *(axis + 1 for axis in axes))
        full[tuple(tuples[:, axis] for axis in axes)] = moved
    return full


def _all_pairs(sites: Sites, method: str, gauge: str, base: Tensor | None = None) -> Tensor:
    """All interactions of order 2: (N, N), or (N, N, q, q)."""
    reference, steps = sites.reference(gauge)
    base = reference if base is None else base
    rows = steps[:, -1] if sites.states == 2 else steps.flatten(0, 1)
    if method == "small":
        values = (rows * sites.cumulant(2, base)) @ rows.T
    else:
        values = differences.pairs(sites.log_partition, base, rows)
    return _by_states(sites, values, gauge)


def _all_triples(sites: Sites, method: str, gauge: str) -> Tensor:
    """All interactions of order 3, as differences between couplings at two fields: (N, N, N), or (N, N, N, q, q, q)."""
    base, steps = sites.reference(gauge)
    rows = steps[:, -1] if sites.states == 2 else steps.flatten(0, 1)
    plain = _all_pairs(sites, method, gauge)
    values = plain.new_empty(len(rows), *plain.shape)
    if method == "small":
        weighted = rows * sites.cumulant(3, base)
        for k, row in enumerate(rows):
            values[k] = _by_states(sites, (weighted * row) @ rows.T, gauge)
    else:
        for k, row in enumerate(rows):
            values[k] = _all_pairs(sites, method, gauge, base + row) - plain
    if sites.states == 2:
        return values
    values = values.unflatten(0, (sites.number, -1)).permute(0, 2, 3, 1, 4, 5)
    return torch.nn.functional.pad(values, (0, 0, 0, 0, 1, 0)) if gauge == "lattice-gas" else values


def _by_states(sites: Sites, values: Tensor, gauge: str) -> Tensor:
    """Reshape (N · states, N · states) to (N, N, q, q); matrices for two states are returned unchanged."""
    if sites.states == 2:
        return values
    values = values.unflatten(1, (sites.number, -1)).unflatten(0, (sites.number, -1)).permute(0, 2, 1, 3)
    return torch.nn.functional.pad(values, (1, 0, 1, 0)) if gauge == "lattice-gas" else values


def _without_repeats(values: Tensor, order: int) -> Tensor:
    """Set entries to zero where two of the first ``order`` indices coincide."""
    number = torch.arange(len(values), device=values.device)
    for a in range(order):
        for b in range(a):
            shape = [[len(values) if axis == k else 1 for axis in range(order)] for k in (a, b)]
            equal = number.reshape(shape[0]) == number.reshape(shape[1])
            values.masked_fill_(equal.reshape(*equal.shape, *(1 for _ in range(values.ndim - order))), 0.0)
    return values
