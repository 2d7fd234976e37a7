"""Adaptive TAP by vector approximate message passing, Tramel et al. (2018), Alg. 3, for all scalar units.

Two approximations of the machine must have the same mean a and variance c of each unit: independent units in the fields
(B1, A1), and a Gaussian with the couplings of the machine, precision diag(A2) - J and field B2. At the fixed point
A1 + A2 = 1/c and B1 + B2 = a/c, and the estimate of ln Z is

    Σ [ln Z(B1, A1) - B1 a + A1 a²/2] + Σ a W a' - ½ [ln det(diag(1/c - A1) - J) + Σ ln c],

which is stationary in a, c, A1 and B1. These are the three terms of expectation consistency after cancellation. The
couplings connect even layers with odd layers, so J has two blocks, and each start needs the inverse of a matrix of the
size of the smaller block. Everything is computed in float64, because 1/c is large if a unit hardly fluctuates.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..units.base import per_row
from .chain import respond_, solve, undefined_rows
from .iteration import Map, Options, Randomness, Rule, Tensors, iterate, split
from .layers import MeanFieldLayer
from .solutions import Solutions
from .starts import Start, check

_LEAST_VARIANCE = 1e-10
_CHUNK_ELEMENTS = 2**24


@torch.no_grad()
def adatap(
    machine: BoltzmannMachine,
    start: Start = None,
    **options: Unpack[Options],
) -> Solutions:
    """Solve adaptive TAP (Opper & Winther 2001) with the iteration of Rangan et al. (2019).

    The reaction term of each unit comes from the linear response of the whole machine instead of W² only. The arguments
    are those of :func:`tap`; ``A`` and ``B`` of the result are A1 and B1. An iteration inverts a matrix for each start,
    so it is much slower than an iteration of :func:`tap`.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> round(adatap(rbm).free_energy.item(), 6)  # zero weights: -5 ln 2
    -3.465736
    """
    rule, random = split(options)
    double = copy.deepcopy(machine).double()
    check(double, True, False)
    if not all(MeanFieldLayer(unit).diagonal for unit in double.layers):
        raise InvalidOption("adatap expects scalar units, found softmax units: use tap")
    begin = start if isinstance(start, Solutions) else _first_fields(double, start, random)
    sides = Sides(double)
    rows = max(1, _CHUNK_ELEMENTS // sides.weight.numel())
    parts = []
    for start in range(0, len(begin), rows):
        some = begin.select(slice(start, start + rows))
        outcome = iterate(_Scheme(double, sides, some, rule.damping), rule)
        depth = len(double.layers)
        a, c, B, A = (outcome.state[k * depth : (k + 1) * depth] for k in range(4))
        for unit, field, quadratic in zip(double.layers, B, A, strict=True):  # B and A changed in the last step
            lost = undefined_rows(unit, quadratic)
            if lost is not None:
                field[lost], quadratic[lost] = 0.0, 0.0
                outcome.failed |= lost
                outcome.converged &= ~lost
        a, c = outcome.blank(a), outcome.blank(c)
        value = free_energy(double, a, c, B, A)
        wanted = (~outcome.failed if rule.iterations is not None else outcome.converged) & torch.isfinite(value)
        value = torch.where(wanted, value, torch.nan)
        converged = outcome.converged & torch.isfinite(value)
        parts.append(Solutions("adatap", a, c, B, A, value, outcome.iterations, converged, damping=rule.damping))
    return Solutions.join(parts)


def _first_fields(machine: BoltzmannMachine, start: Any, random: Randomness) -> Solutions:
    """Return A and B after one undamped iteration of TAP."""
    rule = Rule(damping=0.0, iterations=1)
    return solve(machine, start, rule, clamped=None, second_order=True, **random)


def free_energy(machine: BoltzmannMachine, a: Tensors, c: Tensors, B: Tensors, A: Tensors) -> Tensor:
    """Return the estimate of -ln Z at a state: (rows,), differentiable; NaN if the Gaussian is not normalizable."""
    value = torch.zeros(len(a[0]), dtype=a[0].dtype, device=a[0].device)
    for k, unit in enumerate(machine.layers):
        value = value + per_row(unit.log_partition(B[k], A[k]))
        value = value + per_row(a[k] * (A[k] * a[k] / 2 - B[k])) - per_row(_variance(c[k]).log()) / 2
    for k, coupling in enumerate(machine.couplings):
        value = value + per_row((a[k].flatten(1) @ coupling.matrix().to(a[k])) * a[k + 1].flatten(1))
    sides = Sides(machine)
    precision = [sides.gather([1 / _variance(x) - y for x, y in zip(c, A, strict=True)], side) for side in (0, 1)]
    return -(value - sides.log_determinant(*precision) / 2)


def _variance(c: Tensor) -> Tensor:
    return c.clamp_min(_LEAST_VARIANCE)


class Sides:
    """The even and the odd layers of the machine as two groups of units; the second group is the smaller one.

    ``weight`` (large side, small side) contains all couplings, in float64 and differentiable.
    """

    def __init__(self, machine: BoltzmannMachine) -> None:
        sizes = [unit.size for unit in machine.layers]
        parity = 0 if sum(sizes[0::2]) >= sum(sizes[1::2]) else 1
        self.members = [range(parity, len(sizes), 2), range(1 - parity, len(sizes), 2)]
        self.sizes = sizes
        zero = machine.couplings[0].weight.new_zeros((), dtype=torch.float64)
        blocks = []
        for large in self.members[0]:
            row = []
            for small in self.members[1]:
                if small == large + 1:
                    row.append(machine.couplings[large].matrix().double())
                elif small == large - 1:
                    row.append(machine.couplings[small].matrix().double().T)
                else:
                    row.append(zero.expand(sizes[large], sizes[small]))
            blocks.append(torch.cat(row, 1))
        self.weight = torch.cat(blocks, 0)

    def gather(self, layers: Sequence[Tensor], side: int) -> Tensor:
        """Concatenate the layers of one side: (rows, size of the side)."""
        return torch.cat([layers[k].flatten(1) for k in self.members[side]], 1)

    def scatter(self, large: Tensor, small: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
        """Undo :meth:`gather`, for both sides."""
        pieces: dict[int, Tensor] = {}
        for x, members in ((large, self.members[0]), (small, self.members[1])):
            for k, piece in zip(members, x.split([self.sizes[k] for k in members], 1), strict=True):
                pieces[k] = piece.reshape(like[k].shape)
        return [pieces[k] for k in range(len(like))]

    def schur(self, large: Tensor, small: Tensor) -> Tensor:
        """Return diag(small) - Wᵀ diag(1/large) W: (rows, small side, small side)."""
        return torch.diag_embed(small) - self.weight.T @ (self.weight / large.unsqueeze(-1))

    def log_determinant(self, large: Tensor, small: Tensor) -> Tensor:
        """Return ln det of the precision matrix with this diagonal: (rows,), NaN if it is not positive definite."""
        root, info = torch.linalg.cholesky_ex(self.schur(large, small))
        positive = (info == 0) & (large > 0).all(1)
        value = large.abs().log().sum(1) + 2 * root.diagonal(dim1=1, dim2=2).abs().log().sum(1)
        return torch.where(positive, value, torch.nan)

    def response(self, large: Tensor, small: Tensor, fields: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """Return mean and variance of the Gaussian on the large side, then mean and variance on the small side."""
        inverse = torch.linalg.inv_ex(self.schur(large, small)).inverse
        b, d = fields
        mean = (inverse @ (d + (b / large) @ self.weight).unsqueeze(-1)).squeeze(-1)
        cross = self.weight @ inverse  # (rows, large, small)
        variance = 1 / large + torch.einsum("bij,ij->bi", cross, self.weight) / large.square()
        return (b + mean @ self.weight.T) / large, variance, mean, inverse.diagonal(dim1=1, dim2=2)


class _Scheme:
    """One damped iteration: the units in (B1, A1), the Gaussian in (B2, A2), then new (B1, A1)."""

    def __init__(self, machine: BoltzmannMachine, sides: Sides, start: Solutions, damping: float) -> None:
        self.units, self.sides, self.damping = machine.layers, sides, damping
        self.B, self.A = ([x.clone() for x in part] for part in (start.B, start.A))
        self.a, self.c = ([x.clone() for x in part] for part in (start.magnetizations, start.variances))
        self.lost = torch.zeros(len(start), dtype=torch.bool, device=self.a[0].device)

    def state(self) -> list[Tensor]:
        return [*self.a, *self.c, *self.B, *self.A]

    def keep(self, rows: Tensor) -> None:
        self.a, self.c, self.B, self.A = ([x[rows] for x in part] for part in (self.a, self.c, self.B, self.A))
        self.lost = self.lost[rows]

    def step(self, measure: bool = True) -> Tensor:
        """Do one iteration; return the distance between the two approximations, which is 0 at a fixed point."""
        like = self.a
        self.a, self.c = [], []
        for k, unit in enumerate(self.units):
            mean, variance = torch.empty_like(like[k]), torch.empty_like(like[k])
            lost = respond_(unit, self.B[k], self.A[k], mean, variance)
            if lost is not None:
                self.lost |= lost
            self.a.append(mean)
            self.c.append(variance)
        share = 1 - self.damping
        A2 = [1 / _variance(c) - A for c, A in zip(self.c, self.A, strict=True)]
        B2 = [a / _variance(c) - B for a, c, B in zip(self.a, self.c, self.B, strict=True)]
        large, small, b, d = (self.sides.gather(x, side) for x in (A2, B2) for side in (0, 1))
        mean, variance, other, other_variance = self.sides.response(large, small, (b, d))
        means = self.sides.scatter(mean, other, self.a)
        variances = self.sides.scatter(variance, other_variance, self.a)
        residual, spread = torch.zeros(2, len(self.lost), dtype=torch.float64, device=self.lost.device)
        for k, (m, v) in enumerate(zip(means, variances, strict=True)):
            self.A[k].lerp_(1 / v - A2[k], share)
            self.B[k].lerp_(m / v - B2[k], share)
            residual += per_row((self.a[k] - m).square())
            spread += per_row((_variance(self.c[k]).sqrt() - v.clamp_min(0.0).sqrt()).square())
        size = sum(self.sides.sizes)
        self._spread = spread / size
        return (residual / size).masked_fill_(self.lost, torch.nan)

    def spread(self) -> Tensor:
        """Return the mean squared distance of the standard deviations of the two approximations: (rows,)."""
        return self._spread


def as_map(machine: BoltzmannMachine, solutions: Solutions) -> Map:
    """Return the iteration at solutions as a differentiable map of B1 and A1 of all layers, updated in parallel."""
    depth, sides = len(machine.layers), Sides(machine)

    def new(x: list[Tensor]) -> dict[int, Tensor]:
        B, A = x[:depth], x[depth:]
        a = [unit.mean(b, q) for unit, b, q in zip(machine.layers, B, A, strict=True)]
        c = [_variance(unit.variance(b, q)) for unit, b, q in zip(machine.layers, B, A, strict=True)]
        A2 = [1 / variance - q for variance, q in zip(c, A, strict=True)]
        B2 = [mean / variance - b for mean, variance, b in zip(a, c, B, strict=True)]
        large, small, b, d = (sides.gather(y, side) for y in (A2, B2) for side in (0, 1))
        mean, variance, other, other_variance = sides.response(large, small, (b, d))
        m, v = sides.scatter(mean, other, a), sides.scatter(variance, other_variance, a)
        fields = [y / z - old for y, z, old in zip(m, v, B2, strict=True)]
        quadratic = [1 / z - old for z, old in zip(v, A2, strict=True)]
        return dict(enumerate([*fields, *quadratic]))

    return Map([*solutions.B, *solutions.A], [new])
