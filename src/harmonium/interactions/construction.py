"""Construct RBMs with given interactions between their visible units."""

from __future__ import annotations

import math
from itertools import combinations

import torch
from torch import Tensor

from ..checks import whole
from ..couplings import Dense
from ..errors import InvalidOption, unknown
from ..machines import RBM
from ..units import Bernoulli, Gaussian, Poisson, Unit
from . import differences as differences
from .terms import Term, Terms, merged

_NEGLIGIBLE = 1e-15  # interactions below this fraction of the largest are rounding errors


# -- linear units ---------------------------------------------------------------------------------------------------


def linear(couplings: Tensor, fields: Tensor, units: int | None = None) -> RBM:
    """RBM with Gaussian hidden units for couplings J (n, n) and fields h (n,): Bulso & Roudi (2021), eq. (22).

    The weights satisfy J + λ₀ 1 = W Wᵀ with λ₀ = -λ_min(J), a matrix of rank at most n - 1. (The paper prints λ₀ with
    the opposite sign.) Because x² = x, the diagonal of W Wᵀ acts as fields, and the biases compensate for it:
    b = h - diag(W Wᵀ)/2. With fewer than n - 1 ``units``, W Wᵀ is the best approximation that a local search finds.
    """
    n = len(couplings)
    units = max(1, n - 1) if units is None else whole("units", units)
    if units < 1:
        raise InvalidOption(f"units: expected at least one hidden unit, found {units}")
    couplings = couplings.double() - couplings.double().diag().diag()
    weights = _root(couplings, torch.linalg.eigvalsh(couplings)[0].neg().expand(n), units)
    if units < n - 1:
        weights = _nearest(couplings, weights)
    bias = fields.double() - weights.square().sum(1) / 2
    return RBM(Bernoulli(n, bias=bias), Gaussian(units, bias=bias.new_zeros(units)), Dense(n, units, weights))


def _root(couplings: Tensor, diagonal: Tensor, units: int) -> Tensor:
    """Weights W (n, units) that minimize ‖J + diag(diagonal) - W Wᵀ‖, from its largest eigenvalues."""
    values, vectors = torch.linalg.eigh(couplings + diagonal.diag())
    values, vectors = values.flip(0)[:units].clamp_min(0.0), vectors.flip(1)[:, :units]
    weights = couplings.new_zeros(len(couplings), units)
    weights[:, : len(values)] = vectors * values.sqrt()
    return weights


def _nearest(couplings: Tensor, weights: Tensor, sweeps: int = 50) -> Tensor:
    """Minimize the distance between W Wᵀ and J off the diagonal; the diagonal is free, as the biases absorb it.

    Start with ``sweeps`` eigendecompositions of J with the diagonal of the current W Wᵀ (none of them increases the
    distance), then minimize over W with L-BFGS.
    """
    for _ in range(sweeps):
        weights = _root(couplings, weights.square().sum(1), weights.shape[1])
    weights = weights.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights], max_iter=500, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        error = off_diagonal(couplings - weights @ weights.T).square().sum()
        error.backward()
        return error

    with torch.enable_grad():
        optimizer.step(loss)
    return weights.detach()


def off_diagonal(matrix: Tensor) -> Tensor:
    """Return the matrix with its diagonal set to zero."""
    return matrix - matrix.diag().diag()


# -- interactions of any order --------------------------------------------------------------------------------------


def many_body(n: int, terms: Terms, hidden: str) -> RBM:
    """RBM with one hidden unit per interaction of order 2 or more, of type ``hidden``.

    A hidden unit with equal weights to the s sites of a term creates a positive interaction of order s; flipping one
    site, x → 1 - x, makes it negative. The unit also creates interactions of lower orders. Therefore the highest orders
    are constructed first, and their contributions are subtracted from the targets of the lower orders. The visible
    biases set order 1.
    """
    if hidden not in _POSITIVE:
        raise unknown("hidden unit for a many-body model", hidden, ("gaussian", *_POSITIVE))
    kind = _POSITIVE[hidden]
    wanted: dict[int, list[Term]] = {order: [term] for order, term in terms.items()}
    scale = max((values.abs().max().item() for _, values in terms.values() if len(values)), default=0.0)
    columns, biases = [], []
    for order in range(max(wanted, default=1), 1, -1):
        if order not in wanted:
            continue
        tuples, values = merged(wanted[order])
        kept = values.abs() > _NEGLIGIBLE * scale
        tuples, values = tuples[kept], values[kept]
        if not len(values):
            continue
        weight, bias = kind.solve(order, values.abs())
        steps = weight.expand(order, -1).clone()
        steps[0] = torch.where(values < 0, -weight, weight)
        bias = torch.where(values < 0, bias + weight, bias)
        columns.append(bias.new_zeros(n, len(values)).scatter_(0, tuples.T, steps))
        biases.append(bias)
        unit = kind.unit(len(values), bias=bias)
        for size in range(1, order):
            for part in combinations(range(order), size):
                side = differences.difference(unit.log_partition, torch.zeros_like(bias), steps[list(part)][None])[0]
                wanted.setdefault(size, []).append((tuples[:, list(part)], -side))
    if not columns:
        columns, biases = [torch.zeros(n, 1, dtype=torch.float64)], [torch.zeros(1, dtype=torch.float64)]
    visible = torch.zeros(n, dtype=torch.float64)
    for tuples, values in wanted.get(1, []):
        visible.index_add_(0, tuples[:, 0], values)
    weights = torch.cat(columns, 1)
    units = kind.unit(weights.shape[1], bias=torch.cat(biases))
    return RBM(Bernoulli(n, bias=visible), units, Dense(n, weights.shape[1], weights))


class _Exponential:
    """Poisson hidden units, for which I = λ (e^w - 1)^s: w = ln 2 and λ = I."""

    unit: type[Unit] = Poisson

    @staticmethod
    def solve(order: int, values: Tensor) -> tuple[Tensor, Tensor]:
        """The weight and the bias for each positive value."""
        return torch.full_like(values, math.log(2.0)), values.log()


class _Step:
    """Bernoulli hidden units with bias -(s - ½) w, active only if all s sites are 1; bisection determines w."""

    unit: type[Unit] = Bernoulli

    @staticmethod
    def solve(order: int, values: Tensor) -> tuple[Tensor, Tensor]:
        """The weight and the bias for each positive value."""
        low, high = torch.zeros_like(values), 2 * values + 4 * order + 10
        for _ in range(100):
            middle = (low + high) / 2
            unit = Bernoulli(len(values), bias=-(order - 0.5) * middle)
            steps = middle.expand(1, order, -1)
            reached = differences.difference(unit.log_partition, torch.zeros_like(middle), steps)[0]
            low, high = torch.where(reached < values, middle, low), torch.where(reached < values, high, middle)
        weight = (low + high) / 2
        return weight, -(order - 0.5) * weight


_POSITIVE: dict[str, type[_Exponential] | type[_Step]] = {"poisson": _Exponential, "bernoulli": _Step}
