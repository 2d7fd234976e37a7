"""The phases of a machine and their masses, by annealing from mean-field solutions: which phases do samples miss?

An estimate of ln Z is too small by the mass of the states that its samples did not visit, and its own numbers cannot
show this. The phases are found without samples, so they are an independent check.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from .. import noise
from ..noise import Seed
from ..shown import Shown, short
from ..units.base import per_row

if TYPE_CHECKING:
    from .chain import BoltzmannMachine

TOLERANCE = 0.35  # nats by which estimates that agree may differ
LARGEST_MISSED = 0.42  # nats of missed phases that are not a problem; two standard errors are subtracted already
_LEAST = 0.02  # nats of missing mass that change a value or an interval
_ERRORS = 2  # standard errors of a mass within which it is not missing
_LARGEST_ERROR = 0.3  # largest relative error of a sum over the phases that confirms or replaces an estimate
_MOST = 64  # phases
_STARTS = 1024  # of the mean-field iteration
_SWEEPS = 30  # of the mean-field iteration from each start
_ROUNDS = 2  # of further starts, which are the best solutions with one hidden unit changed
_OVERLAP = 0.5  # -ln ∫√(q q') of two solutions that count as one
_SATURATED = 3.0  # mean field that saturates a visible unit
_BETAS = 40
_MOST_SAMPLES = 256  # that are annealed back to their phases
_ELEMENTS = 2**24  # of the hidden states from which the receptive fields follow


@dataclass(frozen=True)
class Verdict:
    """An estimate of ln Z with its interval and problems after the comparison with the phases."""

    log_partition: float
    interval: tuple[float, float]
    problems: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Phases(Shown):
    """A soft partition of the visible states into phases, with unbiased estimates of the mass of every phase.

    Naive mean field has found K product distributions q_k of the visible units. A state v belongs to phase k with the
    share q_k(v)/Σ_j q_j(v). The mean of e^{log_weights} over the runs of phase k is an unbiased estimate of Z times the
    mass of this phase. The sum over the phases is an unbiased estimate of Z, even if phases are missing or not real.

    Attributes:
        fields: mean fields of the visible units (K, *visible), which define q_k.
        norms: ln of the normalization of q_k relative to units without field (K,).
        bounds: lower bounds of ln Z by naive mean field (K,), in descending order.
        log_weights: log-weights of the annealing runs from every phase (K, runs).
        complete: whether the search found fewer phases than its limit. If not, more phases are likely.
    """

    fields: Tensor
    norms: Tensor
    bounds: Tensor
    log_weights: Tensor
    complete: bool

    def shown(self) -> tuple[str, Mapping[str, Any]]:
        """The number of phases and the sum of their masses."""
        number = f"{len(self.bounds)}{'' if self.complete else ' or more'}"
        ln_z = f"{short(self.log_partition, 6)} ± {short(self.standard_error, 2)}"
        return "Phases", {"phases": number, "ln of the sum of their Z": ln_z}

    @property
    def log_partition(self) -> float:
        """ln of the sum of Z over the phases; -∞ without phases."""
        return torch.logsumexp(self.log_weights.flatten(), 0).item() - math.log(max(1, self.log_weights.shape[1]))

    @property
    def standard_error(self) -> float:
        """Standard error of ``log_partition``, to first order."""
        return self.masses(self.log_partition)[1].norm().item() if len(self.bounds) else math.inf

    def shares(self, v: Tensor) -> Tensor:
        """The shares of the phases in states (n, *visible): (n, K), with rows that add up to 1."""
        return torch.softmax(v.double().flatten(1) @ self.fields.double().flatten(1).T - self.norms, 1)

    def masses(self, log_partition: float) -> tuple[Tensor, Tensor]:
        """Z of every phase in units of e^log_partition, and standard errors: (K,) each."""
        z = (self.log_weights - log_partition).exp()
        return z.mean(1), z.std(1) / math.sqrt(z.shape[1])

    def missed(
        self, log_partition: float, samples: Tensor, log_weights: Tensor | None = None, effective: float = math.inf
    ) -> float:
        """ln(1 + D): D is the mass of the phases that the samples did not visit, in units of e^log_partition.

        The share of every phase in ``samples`` (n, *visible) with ``log_weights`` (n,), and two standard errors, are
        subtracted from its mass. ``effective`` limits the number of independent states.
        """
        weights = torch.softmax(samples.new_zeros(len(samples)).double() if log_weights is None else log_weights, 0)
        share = weights.double() @ self.shares(samples)
        n = min(effective, 1 / weights.square().sum().item())
        mass, error = self.masses(log_partition)
        error = (error.square() + share * (1 - share) / n + 1 / n**2).sqrt()
        return math.log1p((mass - share - _ERRORS * error).clamp_min(0).sum().item())

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of ``log_partition``, if the phases are all there are.

        The few runs of each phase have weights with long tails, so it is four standard errors and 0.01 wide.
        """
        spread = 4 * self.standard_error + 0.01
        return self.log_partition + math.log1p(-min(spread, 0.95)), self.log_partition + math.log1p(spread)

    @property
    def precise(self) -> bool:
        """Whether the sum over the phases may replace another estimate."""
        return self.complete and self.sharp

    @property
    def sharp(self) -> bool:
        """Whether the error of the sum over the phases is small enough for a comparison with another estimate."""
        return self.standard_error < _LARGEST_ERROR

    def problems(self, log_partition: float, missed: float = 0.0) -> tuple[str, ...]:
        """Why an estimate of ln Z with so many ``missed`` nats of phases is too small; empty if it is not."""
        if missed > LARGEST_MISSED:
            return (f"the samples miss phases of the machine, with which ln Z is {missed:.2f} nats larger",)
        least = self.log_partition + math.log1p(-min(_ERRORS * self.standard_error, 0.9))
        if least > log_partition + LARGEST_MISSED:
            return (
                f"the phases of the machine have a ln Z that is {self.log_partition - log_partition:.2f} nats larger",
            )
        return ()

    def verdict(
        self,
        log_partition: float,
        interval: tuple[float, float],
        problems: Sequence[str],
        missed: float,
        *,
        replace: bool = True,
    ) -> Verdict:
        """Judge an estimate of ln Z with samples that ``missed`` so many nats of phases.

        An independent estimate that agrees with a sum over the phases of small error is right, whatever its other
        ``problems``. With ``replace``, a :attr:`precise` sum replaces an estimate that misses phases. The estimate
        itself must not have been started from the phases.
        """
        low, high = interval
        found = self.problems(log_partition, missed)
        if replace and self.precise and (found or missed > max(_LEAST, self.standard_error)):
            return Verdict(self.log_partition, self.interval, ())
        if found:
            return Verdict(log_partition, (low, math.inf), (*problems, *found))
        high = max(high, self.interval[1]) if missed > _LEAST else high + missed
        if self.sharp and abs(self.log_partition - log_partition) <= TOLERANCE:
            if problems or not low <= self.log_partition <= high:
                low, high = min(low, self.interval[0]), max(high, self.interval[1])
            return Verdict(log_partition, (low, high), ())
        return Verdict(log_partition, (low, high), tuple(problems))


@torch.no_grad()
def phases(
    machine: BoltzmannMachine,
    *,
    runs: int = 256,
    betas: int = _BETAS,
    seed: Seed = None,
) -> Phases:
    """Find the phases of a machine by naive mean field, and estimate their masses by annealing.

    The iterations start from the receptive fields of the units of every hidden layer and from random sums of them. A
    phase that no start leads to remains unknown.

    Args:
        machine: machine with a finite partition function.
        runs: number of annealing runs for all phases together; every phase has at least 8.
        betas: number of steps from a mean-field solution to the machine.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(8), hm.units.Spin(4))
    >>> _ = torch.nn.init.constant_(rbm.coupling.weight, 1.0)  # two phases: all units up, all units down
    >>> found = hm.sampling.phases(rbm)
    >>> abs(found.log_partition - rbm.log_partition()) < 0.1
    True
    >>> up = torch.ones(100, 8)
    >>> found.missed(rbm.log_partition(), torch.cat([up, -up])), round(found.missed(found.log_partition, up), 1)
    (0.0, 0.4)
    """
    generator = noise.generator(seed, machine.device)
    fields, bounds = _solutions(machine)
    each = max(8, runs // max(1, len(bounds)))
    own = torch.arange(len(bounds), device=machine.device).repeat_interleave(each)
    starts = _fields(machine, [B[own] for B in fields])
    state = {k: machine.layer(k).sample(starts[k], generator=generator) for k in range(0, machine.depth, 2)}
    log_weights, visible = _anneal(machine, starts, state, _grid(betas), generator)
    norms, shape = _norms(machine, fields[0]), (len(bounds), each)
    found = Phases(fields[0], norms, bounds, log_weights.view(shape), len(bounds) < _MOST)
    log_share = found.shares(visible).gather(1, own.unsqueeze(1)).log()
    return replace(found, log_weights=found.log_weights + log_share.view(shape))


@torch.no_grad()
def unvisited(machine: BoltzmannMachine, samples: Tensor, *, betas: int = _BETAS, seed: Seed = 0) -> float:
    """ln(1 + D): D is the mass of the phases of an RBM that ``samples`` (n, *visible) did not visit.

    It is in units of the mass of the phases that they did visit, of which annealing the samples back to their phases
    gives an estimate that is too large on average. So D is too small if the annealing is too short.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Spin(8), hm.units.Spin(4))
    >>> _ = torch.nn.init.constant_(rbm.coupling.weight, 1.0)
    >>> up = torch.ones(100, 8)
    >>> round(unvisited(rbm, torch.cat([up, -up])), 1), round(unvisited(rbm, up), 1)
    (0.0, 0.7)
    """
    found, some = phases(machine, seed=seed), samples[:_MOST_SAMPLES]
    own = found.shares(some).argmax(1)
    starts, generator = _fields(machine, [found.fields[own]]), noise.generator(seed, machine.device)
    log_z, _ = _anneal(machine, starts, {0: some}, _grid(betas)[::-1], generator)
    share = torch.bincount(own, minlength=len(found.bounds)).double() / len(own)
    return found.missed(log_z.mean().item() + torch.special.entr(share).sum().item(), samples)


Fields = list[Tensor]  # mean fields of the even layers (n, *shape) each, from the visible layer on


def _solutions(machine: BoltzmannMachine) -> tuple[Fields, Tensor]:
    """Distinct solutions of naive mean field, best first: fields of the even layers, and lower bounds of ln Z (K,)."""
    F = _receptive_fields(machine)
    fields, bounds = _improved(machine, _starts(machine, F))
    fields, bounds = _distinct(machine, fields, bounds)
    for _ in range(_ROUNDS):
        best = fields[0][: max(1, min(8, _STARTS // (2 * max(1, len(F)))))]
        changed = torch.cat([x + sign * F for x in best for sign in (1, -1)]) if len(best) else best
        new, new_bounds = _improved(machine, changed)
        joined = [torch.cat(pair) for pair in zip(fields, new, strict=True)]
        fields, bounds = _distinct(machine, joined, torch.cat([bounds, new_bounds]))
    return fields, bounds


def _receptive_fields(machine: BoltzmannMachine) -> Tensor:
    """The fields on the visible layer of single hidden units, the strongest ones of every layer: (m, *visible).

    The field of a unit of an upper layer passes through the means of the layers below.
    """
    most, found = _STARTS // 4, []
    for top in range(1, machine.depth):
        unit = machine.layer(top)
        chosen = torch.linspace(0, unit.size - 1, min(unit.size, max(most, _ELEMENTS // unit.size))).long()
        alone = torch.zeros(len(chosen), unit.size, dtype=machine.dtype, device=machine.device)
        alone[torch.arange(len(chosen)), chosen] = 1
        x = alone.view(-1, *unit.shape)
        for k in reversed(range(1, top)):
            x = machine.layer(k).mean(machine.couplings[k].down(x))
        F = machine.couplings[0].down(x)
        found.append(F[F.flatten(1).norm(dim=1).argsort(descending=True)[: most // (machine.depth - 1)]])
    return torch.cat(found)


def _starts(machine: BoltzmannMachine, F: Tensor) -> Tensor:
    """Initial fields on the visible layer from receptive fields (m, *visible).

    They are zero, single receptive fields of both signs, strong enough to saturate the visible units, with and without
    the visible biases, and random sums of the receptive fields.
    """
    rows = F.flatten(1)
    size = (rows.square().sum(1) / rows.abs().sum(1).clamp_min(1e-12)).clamp_min(1e-12)
    wide = (rows * (_SATURATED / size).clamp_min(1).unsqueeze(1)).view_as(F)
    source = Generator().manual_seed(0)  # the starts are part of the method, so they do not depend on the seed
    signs = torch.randint(-1, 2, (_STARTS // 4, len(F)), generator=source).to(rows)
    parts = [torch.zeros_like(F[:1]), wide, -wide, (signs @ rows).view(-1, *F.shape[1:])]
    bias = machine.layer(0).natural().get("bias")
    if bias is not None:
        bias = machine.layer(0).full(bias)
        parts += [wide - bias, -wide - bias]
    return torch.cat(parts)


def _improved(machine: BoltzmannMachine, visible: Tensor) -> tuple[Fields, Tensor]:
    """Fields of the even layers after alternating updates, from those of the ``visible`` units; and bounds (n,).

    The fields of other even layers are zero at first. Updates of the odd, then of the even layers never lower a bound.
    """
    above = (visible.new_zeros(len(visible), *machine.layer(k).shape) for k in range(2, machine.depth, 2))
    fields = [visible, *above]
    for _ in range(_SWEEPS):
        now = _fields(machine, fields)
        state = [machine.layer(k).mean(now[k]) if k % 2 else None for k in range(machine.depth)]
        fields = [machine.field(k, state) for k in range(0, machine.depth, 2)]
    now = _fields(machine, fields)
    bounds = torch.stack([per_row(machine.layer(k).log_partition(B).double()) for k, B in now.items()]).sum(0)
    for k, B in zip(range(0, machine.depth, 2), fields, strict=True):
        bounds -= per_row((B * machine.layer(k).mean(B)).double())
    return fields, bounds


def _fields(machine: BoltzmannMachine, fields: Fields) -> dict[int, Tensor]:
    """Mean fields of all layers (n, *shape), by their index, from those of the even layers."""
    state: list[Tensor | None] = [None] * machine.depth
    found = {2 * k: B for k, B in enumerate(fields)}
    for k, B in found.items():
        state[k] = machine.layer(k).mean(B)
    return found | {k: machine.field(k, state) for k in range(1, machine.depth, 2)}


def _norms(machine: BoltzmannMachine, B: Tensor) -> Tensor:
    """ln of the normalization of product distributions of the visible units with fields B (n, *visible): (n,)."""
    return per_row(machine.layer(0).log_partition(B).double())


def _distinct(machine: BoltzmannMachine, fields: Fields, bounds: Tensor) -> tuple[Fields, Tensor]:
    """The solutions with different distributions of the visible units, best first; of similar ones only the best."""
    order = bounds.argsort(descending=True)
    order = order[torch.isfinite(bounds[order])]
    fields, bounds = [B[order] for B in fields], bounds[order]
    visible, own, chosen = fields[0], _norms(machine, fields[0]), list[Tensor]()
    left = torch.arange(len(bounds), device=bounds.device)
    while len(left) and len(chosen) < _MOST:
        best = left[0]
        chosen.append(best)
        together = _norms(machine, (visible[left] + visible[best]) / 2)
        apart = (own[left] + own[best]) / 2 - together > _OVERLAP
        apart[0] = False
        left = left[apart]
    index = torch.stack(chosen) if chosen else left
    return [B[index] for B in fields], bounds[index]


def _grid(betas: int) -> list[float]:
    return [k / betas for k in range(betas + 1)]


def _anneal(
    machine: BoltzmannMachine,
    start: Mapping[int, Tensor],
    state: Mapping[int, Tensor],
    betas: Sequence[float],
    generator: Generator | None,
) -> tuple[Tensor, Tensor]:
    """Anneal states of the even layers along ``betas``; ln of estimates of Z (n,), and the last visible states.

    Every unit has the field (1 - β) B + β W x, where B is its ``start`` (n, *shape), and W x the field from its
    neighbors. Odd layers are summed out (Neal 2001). From 0 to 1, with exact draws of the product distribution, the
    estimates of Z are unbiased. From 1 to 0, with exact draws of the machine, those of 1/Z are. Then the mean of ln Z
    over the states of a set of phases, plus the entropy of their shares, is at least ln Z of these phases on average
    (Jensen).
    """
    even, odd = range(0, machine.depth, 2), range(1, machine.depth, 2)
    x = [state.get(k) for k in range(machine.depth)]
    log_z = torch.stack([per_row(machine.layer(k).log_partition(B).double()) for k, B in start.items()]).sum(0)
    for now, following in pairwise(betas):
        before, after = sorted((now, following))
        for k in even:
            log_z -= per_row((start[k] * x[k]).double()) * (after - before)  # type: ignore[operator]
        up = {k: machine.field(k, x) for k in odd}
        for k, field in up.items():
            unit = machine.layer(k)
            low, high = (unit.log_partition(torch.lerp(start[k], field, beta)).double() for beta in (before, after))
            log_z += per_row(high - low)
        if following != betas[-1]:
            for k in (*odd, *even):
                field = up[k] if k in up else machine.field(k, x)
                x[k] = machine.layer(k).sample(torch.lerp(start[k], field, following), generator=generator)
    assert x[0] is not None
    return log_z, x[0]
