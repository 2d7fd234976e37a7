"""Posterior of the visible units of a machine, by mean field or by Gibbs sampling."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Generator, Tensor

from .. import meanfield, noise
from ..checks import whole
from ..errors import Inaccurate, InvalidOption, warn
from ..machines import RBM, BoltzmannMachine
from ..machines.partial import check_enumerable
from ..units import Unit
from ..units.base import per_row
from ..units.support import OneHot
from .observed import Evidence, by_part, observed, posterior_machine
from .posterior import Posterior

Start = Tensor | meanfield.Solutions
Solver = Callable[..., meanfield.Solutions]

_SOLVERS: dict[str, Solver] = {"tap": meanfield.tap, "naive": meanfield.naive}
_BLOCK = 25  # iterations between checks of which rows have converged
_MOST_ELEMENTS = 2**24  # limit for the sums over chains
_MOST_TERMS = 2**28  # states times rows times visible units, up to which the exact posterior takes seconds
_CHECKED_ROWS = 16  # of mean field, by Gibbs sampling where the exact sum is too long
_LARGE_ERROR = 0.1  # of a mean, as a fraction of the range of the unit
_RELATIVE_ERROR = 0.1  # error of a mean in posterior standard deviations: equivalent to 100 independent draws


@dataclass(frozen=True)
class FixedPoint:
    """Options of :func:`mean_field`; see :func:`harmonium.meanfield.tap`."""

    damping: float
    tolerance: float
    max_iterations: int


@dataclass(frozen=True)
class Chains:
    """Options of :func:`gibbs`: chains for each row, sweeps of each chain, and sweeps that are discarded before."""

    chains: int
    sweeps: int
    warm_up: int


def _check_at_least(least: int, name: str, value: int) -> None:
    if whole(name, value) < least:
        raise InvalidOption(f"{name}: expected at least {least}, found {value}")


@torch.no_grad()
def pointwise(layer: Unit, evidence: Evidence) -> Posterior:
    """Posterior of each unit of a layer without couplings."""
    unit = observed(layer, evidence)
    zero = torch.zeros_like(evidence.values)
    n, device = len(evidence), evidence.values.device
    return Posterior(
        "pointwise",
        unit.mean(zero),
        unit.variance(zero),
        converged=torch.ones(n, dtype=torch.bool, device=device),
        iterations=torch.zeros(n, dtype=torch.int64, device=device),
        visible=layer,
    )


def summable(machine: BoltzmannMachine, rows: int) -> bool:
    """Return whether the exact posterior of this number of rows takes seconds at most: an RBM with few hidden units."""
    states = machine.hidden.cardinality if isinstance(machine, RBM) else None
    return states is not None and states * rows * machine.visible.size <= _MOST_TERMS


@torch.no_grad()
def exact(
    machine: BoltzmannMachine, evidence: Evidence, chains: int = 1, generator: Generator | None = None
) -> Posterior:
    """Sum over all states of the hidden layer of an RBM, in float64; ``draws`` has ``chains`` exact draws of each row.

    P(x, h|y) ∝ P(h) Π_i P(x_i|h) e^{B_i x_i - A_i x_i²/2}, so that P(h|y) ∝ e^{-U(h)} Π_i Z_i((Wh)_i + B_i, A_i).
    """
    if not isinstance(machine, RBM):
        raise InvalidOption(f"exact: expected an RBM (two layers), found {type(machine).__name__}; use method='gibbs'")
    _check_at_least(1, "chains", chains)
    check_enumerable(machine)
    machine.check_normalizable()
    rbm = copy.deepcopy(machine).double()
    h = rbm.hidden.enumerate().to(rbm.device)
    own, field = per_row(rbm.hidden.log_weight(h)), rbm.coupling.down(h)
    size = max(1, _MOST_ELEMENTS // rbm.visible.size)
    means, variances, draws = [], [], []
    for row in range(len(evidence)):
        single = evidence.rows(slice(row, row + 1)).each(lambda x: x if x.dtype == torch.bool else x.double())

        def given(some: Tensor, single: Evidence = single) -> Unit:
            return observed(rbm.visible, single.each(lambda x: x.expand(len(some), *x.shape[1:])))

        p = torch.softmax(own + torch.cat([per_row(given(some).log_partition(some)) for some in field.split(size)]), 0)
        mean, square = torch.zeros_like(field[0]), torch.zeros_like(field[0])
        for some, share in zip(field.split(size), p.split(size), strict=True):
            unit = given(some)
            center = unit.mean(some)
            mean += torch.tensordot(share, center, 1)
            square += torch.tensordot(share, unit.variance(some) + center.square(), 1)
        chosen = field[torch.multinomial(p, chains, replacement=True, generator=generator)]
        draws.append(given(chosen).sample(chosen, generator=generator))
        means.append(single.fix(mean[None])[0])
        variances.append(single.fix((square - mean.square()).clamp_min(0.0)[None], 0.0)[0])
    n = len(evidence)
    return Posterior(
        "exact",
        torch.stack(means).to(evidence.values),
        torch.stack(variances).to(evidence.values),
        torch.ones(n, dtype=torch.bool, device=rbm.device),
        torch.zeros(n, dtype=torch.int64, device=rbm.device),
        machine.visible,
        draws=torch.stack(draws).to(evidence.values),
    )


def checked(found: Posterior, machine: BoltzmannMachine, evidence: Evidence, start: Tensor) -> Posterior:
    """Compare with the exact posterior of all rows, or mean field with Gibbs sampling of some of them.

    Mean field of strongly coupled units can converge to a solution that is far from the posterior, and all chains of a
    row can stay in a part of it. A row has converged only if no mean is wrong by more than a tenth of the range of its
    unit, or half a posterior standard deviation where the range is infinite, in addition to four standard errors of
    the check. Warns :class:`Inaccurate` otherwise.
    """
    rows = torch.nonzero(found.converged).flatten()
    if not len(rows):
        return found
    generator = noise.generator(0, machine.device)
    if summable(machine, len(rows)):
        better, what = "exact", "the exact posterior"
        truth = exact(machine, evidence.rows(rows), generator=generator)
    elif found.draws is not None:  # of Gibbs sampling
        return found
    else:
        rows = rows[:: -(-len(rows) // _CHECKED_ROWS)]
        better, what = "gibbs", "Gibbs sampling"
        truth = gibbs(machine, evidence.rows(rows), start[rows], Chains(4, 200, 100), generator)
    allowed = by_part(machine.visible, _large_error, truth.variances)
    if truth.standard_error is not None:
        allowed = allowed + 4 * truth.standard_error
    error = (found.means[rows] - truth.means).abs()
    wrong = (error > allowed).flatten(1).any(1)
    if not bool(wrong.any()):
        return found
    warn(
        f"{found.method}: the posterior means of {int(wrong.sum())} of {len(rows)} checked rows differ from {what} "
        f"by up to {error.max().item():.2g}; use method='{better}'",
        Inaccurate,
    )
    converged = found.converged.clone()
    converged[rows[wrong]] = False
    return replace(found, converged=converged)


def _large_error(unit: Unit, variance: Tensor) -> Tensor:
    """Return the error of a mean, (n, *shape), above which it is wrong."""
    low, high = unit.support.entries().range
    width = high - low
    return torch.full_like(variance, _LARGE_ERROR * width) if math.isfinite(width) else variance.sqrt() / 2


@torch.no_grad()
def mean_field(
    machine: BoltzmannMachine, evidence: Evidence, start: Tensor, method: str, options: FixedPoint
) -> Posterior:
    """Naive or TAP mean field given the evidence, starting from visible magnetizations ``start`` (n, *visible)."""
    for part in machine.visible.parts:
        # for other vector units, mean field would use the covariance of the free unit
        if part.event_shape and not isinstance(part.support, OneHot):
            raise InvalidOption(f"{method}: expected scalar or one-hot units, found {part.name()}; use method='gibbs'")
    _check_at_least(1, "max_iterations", options.max_iterations)
    n, device = len(evidence), start.device
    means, variances = torch.full_like(start, torch.nan), torch.full_like(start, torch.nan)
    free_energy = torch.full((n,), torch.nan, dtype=start.dtype, device=device)
    iterations = torch.zeros(n, dtype=torch.int64, device=device)
    converged = torch.zeros(n, dtype=torch.bool, device=device)
    active, done = torch.arange(n, device=device), 0
    begin: Start = start
    while len(active) and done < options.max_iterations:
        steps = min(_BLOCK, options.max_iterations - done)
        solver = partial(_SOLVERS[method], damping=options.damping, tolerance=options.tolerance, iterations=steps)
        found = _advance(solver, machine, evidence.rows(active), begin)
        done += steps
        means[active], variances[active] = found.magnetizations[0], found.variances[0]
        free_energy[active] = torch.where(found.converged, found.free_energy, torch.nan)
        iterations[active], converged[active] = done, found.converged
        rest = ~found.converged & ~_lost(found)
        active, begin = active[rest], found.select(rest)
    return Posterior(method, means, variances, converged, iterations, machine.visible, free_energy)


def _advance(solver: Solver, machine: BoltzmannMachine, evidence: Evidence, begin: Start) -> meanfield.Solutions:
    """Iterate all rows. Rows that become infinite or NaN are repeated one by one: another row may be the cause."""
    found = solver(posterior_machine(machine, evidence), begin)
    lost = _lost(found)
    if len(evidence) == 1 or not bool(lost.any()):
        return found
    kept, again = torch.nonzero(~lost).flatten(), torch.nonzero(lost).flatten()
    alone = [_advance(solver, machine, evidence.rows(row), _rows(begin, row)) for row in again.split(1)]
    return meanfield.Solutions.join([found.select(kept), *alone]).select(torch.cat([kept, again]).argsort())


def _lost(found: meanfield.Solutions) -> Tensor:
    return ~torch.isfinite(found.magnetizations[0]).flatten(1).all(1)


def _rows(begin: Start, index: Tensor) -> Start:
    return begin.select(index) if isinstance(begin, meanfield.Solutions) else begin[index]


@torch.no_grad()
def gibbs(
    machine: BoltzmannMachine, evidence: Evidence, start: Tensor, options: Chains, generator: Generator | None
) -> Posterior:
    """Gibbs sampling given the evidence: ``chains`` per row, ``warm_up`` discarded sweeps, then ``sweeps`` sweeps.

    Means are averages of ⟨x⟩ given the hidden layer, which has less variance than x. Their errors are estimated from
    the spread between the halves of all chains (:attr:`Posterior.standard_error`). A row has converged if the error is
    small compared with the posterior standard deviation.
    """
    chains, sweeps, warm_up = options.chains, options.sweeps, options.warm_up
    _check_at_least(1, "chains", chains)
    _check_at_least(2, "sweeps", sweeps)
    _check_at_least(0, "warm_up", warm_up)
    machine.check_normalizable()
    size = 2 * chains * machine.visible.size
    rows = max(1, _MOST_ELEMENTS // size)
    parts = []
    for first in range(0, len(evidence), rows):
        here = slice(first, first + rows)
        single = evidence.rows(here)
        many = single.each(lambda x: x.repeat_interleave(chains, 0))
        view = posterior_machine(machine, many)
        state = view.initial_state(start[here].repeat_interleave(chains, 0), generator)
        for _ in range(warm_up):
            state = view.sweep(state, generator)
        halves, spread = [], torch.zeros_like(state[0], dtype=torch.float64)
        mean, variance = torch.empty_like(state[0]), torch.empty_like(state[0])
        for steps in (sweeps - sweeps // 2, sweeps // 2):
            total = torch.zeros_like(spread)
            for _ in range(steps):
                state = view.sweep(state, generator)
                view.visible.mean_and_variance_(view.field(0, state), None, mean, variance)
                total += mean
                spread += torch.addcmul(variance, mean, mean)
            halves.append(total / steps)
        groups = torch.cat([x.unflatten(0, (-1, chains)) for x in halves], 1)  # (rows, 2·chains, *visible)
        center = groups.mean(1)
        within = (spread.unflatten(0, (-1, chains)).mean(1) / sweeps - center.square()).clamp_min(0.0)
        error = groups.std(1) / (2 * chains) ** 0.5
        within, error = single.fix(within, 0.0), single.fix(error, 0.0)  # removes rounding errors of the sums
        settled = error.square().flatten(1).sum(1) <= _RELATIVE_ERROR**2 * within.flatten(1).sum(1)
        parts.append(
            Posterior(
                "gibbs",
                single.fix(center.to(start)),
                within.to(start),
                settled | (error == 0).flatten(1).all(1),
                torch.full((len(center),), sweeps, device=start.device),
                machine.visible,
                standard_error=error.to(start),
                draws=state[0].unflatten(0, (-1, chains)),
            )
        )
    return Posterior.join(parts)
