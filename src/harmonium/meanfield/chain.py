"""Naive and TAP mean field for any number of layers: Tramel et al. (2018), eqs. (32)-(35) and Alg. 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor

from ..machines import BoltzmannMachine
from ..noise import Seed
from ..units import Unit
from ..units.base import per_row
from .iteration import Map, Options, Rule, Update, iterate, split
from .layers import MeanFieldLayer, link
from .solutions import Solutions
from .starts import Start, prepare


def naive(
    machine: BoltzmannMachine,
    start: Start = None,
    *,
    clamped: Any = None,
    **options: Unpack[Options],
) -> Solutions:
    """Solve naive mean field: every unit in the mean field of its neighbors. -F is a lower bound of ln Z.

    The arguments are those of :func:`tap`. The error of ln Z is of second order in the weights.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> naive(rbm).free_energy  # zero weights: -5 ln 2
    tensor([-3.4657])
    """
    rule, random = split(options)
    return solve(machine, start, rule, clamped=clamped, second_order=False, **random)


def tap(
    machine: BoltzmannMachine,
    start: Start = None,
    *,
    clamped: Any = None,
    damping: float = 0.5,
    tolerance: float = 1e-8,
    max_iterations: int = 1000,
    iterations: int | None = None,
    seed: Seed = None,
) -> Solutions:
    """Solve the TAP equations (second-order mean field), Tramel et al. (2018), Alg. 1, from many starts in parallel.

    The error of ln Z is of third order in the weights and can have either sign.

    Args:
        machine: any machine for which TAP is defined (no Poisson units).
        start: visible states (n, *visible) to start from, eqs. (36)-(37), not necessarily in the support of the units;
            the number of samples of the uncoupled visible layer to start from; ``Solutions`` to continue from; or None
            for one start at the uncoupled units.
        clamped: visible states (n, *visible) that stay fixed; ``free_energy`` is then F(v), with the hidden layers
            summed out (exactly in an RBM).
        damping: weight of the old value in each update, in [0, 1).
        tolerance: a start has converged if the undamped update changes its magnetizations by at most this, as a mean
            square over all units, and its standard deviations as well. It does not depend on the damping.
        max_iterations: largest number of iterations; a start that has not converged by then has free energy NaN.
        iterations: if given, do exactly this many iterations and compute all free energies, converged or not.
        seed: seed of the random generator.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> found = tap(rbm, start=torch.ones(4, 3))
    >>> found.free_energy
    tensor([-3.4657, -3.4657, -3.4657, -3.4657])
    >>> bool(found.converged.all()), found.magnetizations[1].shape
    (True, torch.Size([4, 2]))
    """
    rule = Rule(damping, tolerance, max_iterations, iterations)
    return solve(machine, start, rule, clamped=clamped, second_order=True, seed=seed)


@torch.no_grad()
def solve(
    machine: BoltzmannMachine,
    start: Start,
    rule: Rule,
    *,
    clamped: Any,
    second_order: bool,
    seed: Seed = None,
) -> Solutions:
    """Solve naive or TAP mean field with the given rule of iteration."""
    machine, layers, (a, c) = prepare(machine, start, clamped, quadratic=second_order, seed=seed)
    scheme = Chain(machine, layers, a, c, second_order=second_order, damping=rule.damping, clamped=clamped is not None)
    outcome = iterate(scheme, rule)
    depth = len(layers)
    a, c, B, A = (outcome.state[k * depth : (k + 1) * depth] for k in range(4))
    if not second_order:
        c = [layer.unit.variance(field) for layer, field in zip(layers, B, strict=True)]
        if clamped is not None:
            c[0] = torch.zeros_like(a[0])
    a, c = outcome.blank(a), outcome.blank(c)
    value = free_energy(machine, a, c, B, A, second_order=second_order, clamped=clamped is not None)
    wanted = ~outcome.failed if rule.iterations is not None else outcome.converged
    return Solutions(
        "tap" if second_order else "naive",
        a,
        c,
        B,
        A,
        torch.where(wanted, value, torch.nan),
        outcome.iterations,
        outcome.converged,
        clamped is not None,
        damping=rule.damping,
    )


def free_energy(
    machine: BoltzmannMachine,
    a: Sequence[Tensor],
    c: Sequence[Tensor],
    B: Sequence[Tensor],
    A: Sequence[Tensor],
    *,
    second_order: bool,
    clamped: bool,
) -> Tensor:
    """Return -ln Z of eq. (35) at a state: (rows,).

    At a fixed point it is stationary in a, c, B and A, so the derivative with respect to the parameters at the fixed
    state is the total derivative, eqs. (39)-(41).
    """
    value = torch.zeros(len(a[0]), dtype=a[0].dtype, device=a[0].device)
    layers = [MeanFieldLayer(unit) for unit in machine.layers]
    for k, layer in enumerate(layers):
        if clamped and k == 0:
            value = value + per_row(layer.unit.log_weight(a[0]))
            continue
        if second_order:
            seen, quadratic = layer.seen(B[k], A[k])
            value = value + per_row(layer.unit.log_partition(seen, quadratic))
            value = value + per_row(A[k] * layer.second_moment(a[k], c[k])) / 2
        else:
            value = value + per_row(layer.unit.log_partition(B[k]))
        value = value - per_row(B[k] * a[k])
    for k, coupling in enumerate(machine.couplings):
        part = link(coupling, layers[k], layers[k + 1], second_order)
        value = value + part.energy([a[k], a[k + 1]], [c[k], c[k + 1]] if second_order else None)
    return -value


class Chain:
    """Alg. 1 on a batch of rows, in place: even layers given the odd ones, then odd layers given the even ones."""

    def __init__(
        self,
        machine: BoltzmannMachine,
        layers: Sequence[MeanFieldLayer],
        a: Sequence[Tensor],
        c: Sequence[Tensor],
        *,
        second_order: bool = True,
        damping: float = 0.5,
        clamped: bool = False,
    ) -> None:
        self.second_order, self.damping, self.clamped = second_order, damping, clamped
        self.layers = list(layers)
        self.units = [layer.unit for layer in layers]
        self.links = [
            link(coupling, layers[k], layers[k + 1], second_order) for k, coupling in enumerate(machine.couplings)
        ]
        self.a, self.c = list(a), list(c)
        self.B, self.A = ([torch.zeros_like(x) for x in a] for _ in range(2))
        self.lost = torch.zeros(len(a[0]), dtype=torch.bool, device=a[0].device)
        self._size = sum(x[0].numel() for x in a[clamped:])
        self._scratch = [(torch.empty_like(x), torch.empty_like(x)) for x in a]
        self._before: list[Tensor] = []  # the variances before the last measured iteration

    def refresh(self) -> None:
        """Update the links after a change of the weights."""
        for part in self.links:
            part.refresh()

    def state(self) -> list[Tensor]:
        """Return a, c, B and A of all layers."""
        return [*self.a, *self.c, *self.B, *self.A]

    def keep(self, rows: Tensor) -> None:
        """Continue with the given rows only."""
        self.a, self.c, self.B, self.A = ([x[rows] for x in part] for part in (self.a, self.c, self.B, self.A))
        self.lost = self.lost[rows]
        self._scratch = [(x[: len(rows)], y[: len(rows)]) for x, y in self._scratch]
        self._before = [x[: len(rows)] for x in self._before]
        self.units[0] = self.units[0].conserving(self.a[0])

    def restore(self, state: list[Tensor], lost: Tensor) -> None:
        """Set the state to the result of an iteration, with all rows."""
        depth = len(self.layers)
        self.a, self.c, self.B, self.A = (state[k * depth : (k + 1) * depth] for k in range(4))
        self.lost = lost
        self._scratch = [(torch.empty_like(x), torch.empty_like(x)) for x in self.a]
        self._before = []
        self.units[0] = self.units[0].conserving(self.a[0])

    def step(self, measure: bool = True) -> Tensor | None:
        """Do one sweep over the layers; return the mean squared residual of each row's magnetizations: (rows,).

        The residual of a layer is f(x) - x, before damping, with the fields of this sweep.
        """
        if measure and self.second_order and not self._before:
            self._before = [torch.empty_like(x) for x in self.c]
        total = torch.zeros(len(self.lost), dtype=self.a[0].dtype, device=self.lost.device) if measure else None
        for parity in (0, 1):
            for k in range(parity, len(self.a), 2):
                if k > 0 or not self.clamped:
                    residual = self._update(k, measure)
                    if total is not None and residual is not None:
                        total += residual
        return None if total is None else (total / self._size).masked_fill_(self.lost, torch.nan)

    def _update(self, k: int, measure: bool) -> Tensor | None:
        self._fields(k)
        mean, variance = self._respond(k)
        a, c = self.a[k], self.c[k]
        share = 1 - self.damping
        mean -= a
        residual = torch.linalg.vector_norm(mean.view(len(mean), -1), dim=1).square_() if measure else None
        a.add_(mean, alpha=share)
        if not self.second_order:
            return residual
        if measure:  # keep the old and the undamped new variances for spread
            self.c[k], self._before[k] = torch.lerp(c, variance, share, out=self._before[k]), c
        else:
            c.lerp_(variance, share)
        return residual

    def spread(self) -> Tensor:
        """Return the mean squared residual of each row's standard deviations in the last (measured) sweep."""
        total = torch.zeros(len(self.lost), dtype=self.a[0].dtype, device=self.lost.device)
        if not self.second_order:
            return total
        for (_, new), old in list(zip(self._scratch, self._before, strict=True))[self.clamped :]:
            total += per_row((new.clamp_min(0.0).sqrt() - old.clamp_min(0.0).sqrt()).square_())
        return total / self._size

    def _fields(self, k: int) -> None:
        """Compute B and A of a layer from its neighbors, eqs. (33)-(34)."""
        B, A, own = self.B[k], self.A[k], self.a[k]
        extra_B, extra_A = self._scratch[k]
        reactions: list[Tensor | None] = []
        first = True
        for neighbor, upward in ((k - 1, True), (k + 1, False)):
            if not 0 <= neighbor < len(self.a):
                continue
            part = self.links[min(k, neighbor)]
            field, quadratic = (B, A) if first else (extra_B, extra_A)
            part.field_(upward, self.a[neighbor], field)
            if self.second_order:
                reactions.append(part.react_(upward, own, self.a[neighbor], self.c[neighbor], quadratic))
            if not first:
                B += extra_B
                if self.second_order:
                    A += extra_A
            first = False
        if not self.second_order:
            return
        if self.layers[k].diagonal:
            B.addcmul_(A, own)
        else:
            for reaction in reactions:
                assert reaction is not None
                B += reaction

    def _respond(self, k: int) -> tuple[Tensor, Tensor]:
        """Return f_a and f_c in the layer's fields, in buffers; mark rows as lost if they do not exist."""
        unit, (mean, variance) = self.units[k], self._scratch[k]
        if not self.second_order:
            return unit.mean_(self.B[k], mean), variance
        B, A = self.layers[k].seen(self.B[k], self.A[k])
        lost = respond_(unit, B, A, mean, variance)
        if lost is not None:
            self.lost |= lost
        return mean, variance


def as_map(machine: BoltzmannMachine, solutions: Solutions) -> Map:
    """Return the iteration at solutions as a differentiable map of a (and for TAP c) of the free layers."""
    s, second_order, free = solutions, solutions.method == "tap", int(solutions.clamped)
    depth = len(s.magnetizations)
    layers = [MeanFieldLayer(unit) for unit in machine.layers]
    links = [link(coupling, layers[k], layers[k + 1], second_order) for k, coupling in enumerate(machine.couplings)]

    def image(k: int, a: list[Tensor], c: list[Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return f_a and f_c of layer k in the fields of its neighbors."""
        near = [(m, m < k, links[min(k, m)]) for m in (k - 1, k + 1) if 0 <= m < depth]
        B = torch.stack([part.field(upward, a[m]) for m, upward, part in near]).sum(0)
        if not second_order:
            return layers[k].unit.mean(B), None
        terms = [part.react(upward, a[k], a[m], c[m]) for m, upward, part in near]
        A = torch.stack([quadratic for quadratic, _ in terms]).sum(0)
        B = B + torch.stack([reaction for _, reaction in terms]).sum(0)
        seen = layers[k].seen(B, A)
        return layers[k].unit.mean(*seen), layers[k].unit.variance(*seen)

    def update(parity: int) -> Update:
        def new(x: list[Tensor]) -> dict[int, Tensor]:
            a = [*s.magnetizations[:free], *x[: depth - free]]
            c = [*s.variances[:free], *x[depth - free :]]
            found: dict[int, Tensor] = {}
            for k in range(parity, depth, 2):
                if k >= free:
                    mean, variance = image(k, a, c)
                    found[k - free] = mean
                    if variance is not None:
                        found[k - free + depth - free] = variance
            return found

        return new

    state = [*s.magnetizations[free:], *(s.variances[free:] if second_order else [])]
    return Map(state, [update(0), update(1)])


def respond_(unit: Unit, B: Tensor, A: Tensor | None, mean: Tensor, variance: Tensor) -> Tensor | None:
    """Write f_a and f_c to ``mean`` and ``variance``; return a mask of the rows where they do not exist, or None.

    B and A are set to zero in these rows.
    """
    lost = undefined_rows(unit, A)
    if lost is not None and A is not None:
        B[lost], A[lost] = 0.0, 0.0
    unit.mean_and_variance_(B, A, mean, variance)
    return lost


def undefined_rows(unit: Unit, A: Tensor | None) -> Tensor | None:
    """Return a mask (rows,) of the rows where the weight of a unit has no finite integral; None if there are none."""
    if A is None or unit.support.bounded:
        return None
    lost = ~unit.normalizable(A).flatten(1).all(1)
    return lost if bool(lost.any()) else None
