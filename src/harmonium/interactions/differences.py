"""Finite differences Δ_{d₁}…Δ_{d_s} ln Z(B) of order s, the interactions of Bulso & Roudi (2021), eq. (14)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

#: ln Z of independent units as a function of their fields: (..., units) -> (..., units)
LogPartition = Callable[[Tensor], Tensor]

_CHUNK_ELEMENTS = 2**19  # float64 numbers per chunk: fits in the CPU cache
_COEFFICIENTS = 2**23  # maximum number of coefficients held in memory
_DEGREES = (8, 12, 16, 24, 32, 48, 64)
_NOISE = 32 * torch.finfo(torch.float64).eps  # relative rounding error of interpolated values of ln Z


def chunks(rows: int, width: int, chunk: int | None = None) -> Iterator[slice]:
    """Split ``rows`` rows of ``width`` numbers into slices of ``chunk`` rows (None: as many as fit the CPU cache)."""
    size = max(1, _CHUNK_ELEMENTS // max(1, width)) if chunk is None else chunk
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def difference(log_partition: LogPartition, base: Tensor, steps: Tensor) -> Tensor:
    """Compute Σ_{T ⊆ S} (-1)^{s-|T|} ln Z(base + Σ_{k ∈ T} d_k) for each unit, with S = {1, …, s}.

    Shapes: base (units,), steps (n, s, units) -> (n, units).

    >>> second = difference(lambda B: B.square() / 2, torch.zeros(1), torch.tensor([[[2.0], [3.0]]]))
    >>> second.item()
    6.0
    """
    return _difference(log_partition, base, steps)[0]


def summed(log_partition: LogPartition, base: Tensor, steps: Tensor) -> Tensor:
    """Sum the differences over the units, in chunks: steps (n, s, units) -> (n,). This is eq. (14).

    Sums below their rounding error are set to zero, so that Gaussian units have exactly no interactions of order 3.
    """
    parts = [steps.new_zeros(0)]
    for rows in chunks(len(steps), steps.shape[1] * steps.shape[2]):
        values, sizes = _difference(log_partition, base, steps[rows])
        total = values.sum(1)
        rounding = 4 * 2 ** (steps.shape[1] / 2) * torch.finfo(total.dtype).eps * sizes.norm(dim=1)
        parts.append(torch.where(total.abs() > rounding, total, torch.zeros_like(total)))
    return torch.cat(parts)


@torch.no_grad()
def _difference(log_partition: LogPartition, base: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Return the alternating sum and the largest magnitude of its terms, both (n, units)."""
    order = steps.shape[1]
    value = log_partition(base.expand(len(steps), -1))
    total, size = value * (-1) ** order, value.abs()
    for subset in range(1, 2**order):
        chosen = [k for k in range(order) if subset >> k & 1]
        value = log_partition(base + steps[:, chosen].sum(1))
        total.add_(value, alpha=(-1) ** (order - len(chosen)))
        torch.maximum(size, value.abs(), out=size)
    return total, size


# -- all pairs at once ------------------------------------------------------------------------------------------


def pairs(log_partition: LogPartition, base: Tensor, steps: Tensor) -> Tensor:
    """Compute Σ_units Δ_a Δ_b ln Z(base) for all pairs of rows: steps (rows, units) -> (rows, rows).

    ln Z is analytic, so the second difference of a unit is well approximated by a polynomial of low degree in a and b.
    Its coefficient matrix has few eigenvalues above the rounding error (one for Gaussian and Poisson units, a handful
    for others). The sum over units therefore becomes a matrix product instead of one function call per pair and unit.
    The degree increases until the last coefficients vanish; units that do not converge are summed directly.
    """
    rows = len(steps)
    total = steps.new_zeros(rows, rows)
    low, high = steps.amin(0).clamp_max(0.0), steps.amax(0).clamp_min(0.0)
    pending = torch.nonzero(high > low).flatten()
    for degree in _DEGREES:
        if degree >= rows or not len(pending):
            break
        left = []
        for units in pending.split(max(1, _COEFFICIENTS // degree**2)):
            coefficients, noise = _coefficients(log_partition, base, low, high, degree, units)
            done = coefficients[:, -2:].abs().amax((1, 2)) <= noise
            for part in chunks(int(done.sum()), rows * degree):
                unit = units[done][part]
                values = _chebyshev(steps[:, unit], low[unit], high[unit], degree)
                _add_products(total, values, coefficients[done][part], noise[done][part])
            left.append(units[~done])
        pending = torch.cat(left)
    if len(pending):
        total += _direct_pairs(log_partition, base, steps, pending)
    return (total + total.T) / 2


def _add_products(total: Tensor, values: Tensor, coefficients: Tensor, noise: Tensor) -> None:
    """Add Σ_units Tᵀ C T for the polynomials T (units, degree, rows), keeping eigenvalues of C above the noise."""
    scale, shape = torch.linalg.eigh(coefficients)
    order = scale.abs().argsort(1, descending=True)
    scale, shape = scale.gather(1, order), shape.gather(2, order.unsqueeze(1).expand_as(shape))
    kept = scale.abs() > noise.unsqueeze(1) / 8
    most = int(kept.sum(1).max())
    scale, kept = scale[:, :most], kept[:, :most]
    factors = (shape[:, :, :most].transpose(1, 2) @ values)[kept]  # (kept, rows)
    total.addmm_((factors * scale[kept].unsqueeze(1)).T, factors)


def _coefficients(
    log_partition: LogPartition, base: Tensor, low: Tensor, high: Tensor, degree: int, units: Tensor
) -> tuple[Tensor, Tensor]:
    """Chebyshev coefficients (units, degree, degree) of Δ_a Δ_b ln Z on [low, high]², and their rounding errors."""
    nodes, transform = _transform(degree)
    nodes, transform = nodes.to(base), transform.to(base)
    points = (low + high) / 2 + (high - low) / 2 * nodes.unsqueeze(1)
    single = log_partition(base + points)
    zero = log_partition(base)
    scale = single.abs().amax(0)
    lines = []
    for k in range(degree):
        both = log_partition(base + points[k] + points)
        scale = torch.maximum(scale, both.abs().amax(0))
        lines.append((both - single - single[k] + zero)[:, units])
    values = torch.stack(lines).permute(2, 0, 1)
    return transform @ values @ transform.T, _NOISE * scale[units]


def _chebyshev(steps: Tensor, low: Tensor, high: Tensor, degree: int) -> Tensor:
    """Evaluate the Chebyshev polynomials T_k at the steps: (rows, units) -> (units, degree, rows)."""
    x = ((steps - (low + high) / 2) / ((high - low) / 2)).T.clamp(-1, 1)
    terms = torch.empty(x.shape[0], degree, x.shape[1], dtype=x.dtype, device=x.device)
    terms[:, 0], terms[:, 1] = 1.0, x
    double = 2 * x
    for k in range(2, degree):
        torch.mul(double, terms[:, k - 1], out=terms[:, k]).sub_(terms[:, k - 2])
    return terms


@cache
def _transform(degree: int) -> tuple[Tensor, Tensor]:
    """Chebyshev nodes (degree,) and the matrix (degree, degree) that maps values at the nodes to coefficients."""
    angles = math.pi * (torch.arange(degree, dtype=torch.float64) + 0.5) / degree
    matrix = torch.cos(torch.arange(degree, dtype=torch.float64).unsqueeze(1) * angles) * (2 / degree)
    matrix[0] /= 2
    return angles.cos(), matrix


def _direct_pairs(log_partition: LogPartition, base: Tensor, steps: Tensor, units: Tensor) -> Tensor:
    rows = len(steps)
    mine = torch.zeros_like(base)
    mine[units] = 1.0
    steps = steps * mine  # steps of zero contribute nothing
    first, second = torch.triu_indices(rows, rows, device=steps.device)
    values = torch.cat(
        [
            summed(log_partition, base, torch.stack([steps[first[part]], steps[second[part]]], 1))
            for part in chunks(len(first), steps.shape[1])
        ]
    )
    total = steps.new_zeros(rows, rows)
    total[first, second] = values
    total[second, first] = values
    return total


# -- bounds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """|Δ_{d₁}…Δ_{d_s} ln Z| ≤ largest · |d₁|…|d_s| for each unit, by the mean value theorem.

    ``largest`` (units,) bounds |∂ˢ ln Z| for all fields that are sums of s steps: it is the sum of the magnitudes of
    the Chebyshev coefficients of that derivative. It is infinite if the expansion of ln Z of a unit does not converge.
    """

    largest: Tensor
    order: int

    @staticmethod
    def of(log_partition: LogPartition, base: Tensor, steps: Tensor, order: int) -> Bound:
        """Compute the bound for any ``order`` different rows of the steps (rows, units)."""
        ordered = steps.sort(0).values
        low = ordered[:order].clamp_max(0.0).sum(0)
        high = ordered[-order:].clamp_min(0.0).sum(0)
        half = (high - low) / 2
        largest = torch.full_like(base, math.inf)
        largest[half == 0] = 0.0
        for degree in _DEGREES:
            nodes, transform = _transform(degree)
            points = base + (low + high) / 2 + half * nodes.to(base).unsqueeze(1)
            values = log_partition(points)
            coefficients = transform.to(base) @ values
            noise = _NOISE * values.abs().amax(0)
            resolved = (coefficients[-2:].abs().amax(0) <= noise) & torch.isinf(largest)
            clean = torch.where(coefficients.abs() > noise / 8, coefficients, torch.zeros_like(coefficients))
            # the lowest coefficients that enter the derivative may be lost in rounding: bound them by the noise
            clean[order : order + 2] = torch.maximum(clean[order : order + 2].abs(), noise)
            derivative = np.polynomial.chebyshev.chebder(clean.cpu().numpy(), order)
            size = torch.as_tensor(np.abs(derivative).sum(0)).to(base) / half**order
            largest = torch.where(resolved, size, largest)
        return Bound(largest, order)
