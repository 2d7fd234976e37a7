"""Unnormalized log-probabilities of data under deep machines, by annealing of the hidden layers."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import meanfield, noise
from ..checks import count
from ..errors import InvalidOption
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..machines.kernel import half_sweep, log_weight
from ..noise import Seed
from ..sampling.path import Path, beta_grid
from ..shown import brief
from ..units import Unit
from ..units.base import per_row

_STATES = 4096  # rows times runs that are annealed at once


@brief
@dataclass(frozen=True)
class ClampedEstimate:
    """ln p*(v) of every row of data, where p(v) = p*(v)/Z; p* sums over the hidden layers.

    Attributes:
        log_weights: (runs, n), the logarithms of unbiased estimates of p*(v).
    """

    log_weights: Tensor

    @property
    def rows(self) -> Tensor:
        """The estimate of ln p*(v) of every row, (n,): a lower bound of it on average (Jensen's inequality)."""
        return torch.logsumexp(self.log_weights, 0) - math.log(len(self.log_weights))

    @property
    def mean(self) -> float:
        """Mean of ln p*(v) over the rows; minus ln Z, it is the mean log-likelihood."""
        return self.rows.mean().item()

    @property
    def standard_error(self) -> float:
        """Standard error of ``mean`` from the annealing, for these rows; infinite for a single run."""
        errors = self.standard_errors
        return errors.square().sum().sqrt().item() / len(errors)

    @property
    def standard_errors(self) -> Tensor:
        """Standard error of every entry of ``rows`` from the annealing, (n,); infinite for a single run."""
        runs, n = self.log_weights.shape
        if runs < 2:
            return torch.full((n,), math.inf, dtype=self.log_weights.dtype)
        weights = (self.log_weights - self.log_weights.amax(0)).exp()
        return weights.std(0) / weights.mean(0) / math.sqrt(runs)

    @property
    def effective_sample_size(self) -> float:
        """Mean over the rows of the effective number of runs."""
        weights = (self.log_weights - self.log_weights.amax(0)).exp()
        return (weights.sum(0).square() / weights.square().sum(0)).mean().item()


@torch.no_grad()
def clamped_ais(
    machine: BoltzmannMachine, data: ArrayLike, *, runs: int = 10, betas: int = 100, seed: Seed = None
) -> ClampedEstimate:
    """Estimate ln p*(v) = -F(v) of every row by annealed importance sampling of the hidden layers (Neal 2001).

    For a deep machine, F(v) is a sum over the states of hidden layers that are coupled to each other. Mean field bounds
    it (:func:`harmonium.likelihood.data.mean_free_energy_bound`); this estimate is closer. The annealing starts without
    the couplings between hidden layers, where F(v) is known, and increases them to their values, with v fixed. The mean
    of the weights is p*(v), so the estimate of ln p*(v) is too small on average, like the bound.

    Args:
        machine: any machine; the result is exact for an RBM.
        data: rows (n, *visible).
        runs: number of annealing runs for each row.
        betas: number of steps of the scale of the couplings from 0 to 1.
        seed: seed of the random generator.

    >>> import harmonium as hm
    >>> deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(3), hm.units.Bernoulli(2), hm.units.Bernoulli(1)])
    >>> round(clamped_ais(deep, torch.zeros(5, 3), runs=2, betas=10).mean, 6)  # zero weights: 3 ln 2
    2.079442
    """
    if count("runs", runs) < 1:
        raise InvalidOption(f"runs: expected at least one, found {runs}")
    rows = machine.checked_states(data)
    generator = noise.generator(seed, machine.device)
    schedule, parts = beta_grid(betas), []
    for part in rows.split(max(1, _STATES // runs)):
        path = Path(machine, _separate(machine, part))
        found = _anneal(path, part.repeat(runs, *(1 for _ in part.shape[1:])), schedule, generator)
        parts.append(found.view(runs, len(part)))
    return ClampedEstimate(torch.cat(parts, 1))


def _separate(machine: BoltzmannMachine, rows: Tensor) -> BoltzmannMachine:
    """A copy without couplings between hidden layers, whose biases contain the mean fields of these couplings."""
    a = meanfield.naive(machine, clamped=rows, damping=0.0, iterations=5).magnetizations
    apart = copy.deepcopy(machine)
    for k in range(1, len(machine.couplings)):
        coupling = machine.couplings[k]
        apart.layers[k].shift_bias(coupling.down(a[k + 1]).mean(0))
        apart.layers[k + 1].shift_bias(coupling.up(a[k]).mean(0))
        apart.couplings[k].weight.zero_()
    return apart


def _anneal(path: Path, visible: Tensor, schedule: Sequence[float], generator: Generator | None) -> Tensor:
    """Return the log-weights (n,) in float64: ln p*(v) of the base and the gains of all steps."""
    machine, base = path.target, path.base
    held = machine.couplings[0].up(visible)
    fields = [held, *(torch.zeros(len(visible), *unit.shape).to(held) for unit in machine.layers[2:])]
    weights = per_row(base.visible.log_weight(visible)).double()
    state = [visible]
    for unit, field in zip(base.layers[1:], fields, strict=True):
        weights += per_row(unit.log_partition(field)).double()
        state.append(unit.sample(field, generator=generator))
    before = _Clamped(path, held, schedule[0])
    for beta in schedule[1:]:
        seen = {k: before.response(k, state) for k in path.odd}
        now = _Clamped(path, held, beta, seen)
        weights += log_weight(now, state, dtype=torch.float64)
        weights -= log_weight(_Clamped(path, held, before.beta, seen), state, dtype=torch.float64)
        if beta < schedule[-1]:
            half_sweep(now, state, 1, generator)
            now = _Clamped(path, held, beta)
            half_sweep(now, state, 0, generator, held={0: True})
        before = now
    return weights


class _Clamped:
    """The machine at β of a path (:class:`harmonium.machines.kernel.Layers`) with a fixed visible layer.

    β scales the couplings between hidden layers. ``held`` is the field of the visible layer; ``seen`` are the
    responses of the other layers at β = 1, if they are already known.
    """

    def __init__(self, path: Path, held: Tensor, beta: float, seen: Mapping[int, Tensor] | None = None) -> None:
        self.path, self.held, self.beta, self._seen = path, held, beta, seen or {}

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.path.target.depth

    def layer(self, layer: int) -> Unit:
        """The units of a layer at β."""
        return self.path.unit(layer, self.beta)

    def field(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        """The field on a hidden layer."""
        field = self.beta * (self._seen[layer] if layer in self._seen else self.response(layer, state))
        return field + self.held if layer == 1 else field

    def response(self, layer: int, state: Sequence[Tensor | None]) -> Tensor:
        """The field of the other hidden layers on a hidden layer at β = 1."""
        couplings, total = self.path.target.couplings, torch.zeros((), dtype=self.held.dtype, device=self.held.device)
        if layer > 1:
            total = total + couplings[layer - 1].up(state[layer - 1])  # type: ignore[arg-type]
        if layer < len(couplings):
            total = total + couplings[layer].down(state[layer + 1])  # type: ignore[arg-type]
        return total
