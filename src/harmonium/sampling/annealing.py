"""Annealing of independent states along a path: the loop of every annealed importance sampling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Generator, Tensor

from ..machines.kernel import Held, half_sweep
from ..units import Unit
from .path import Path


def anneal(
    path: Path,
    state: list[Tensor],
    schedule: Sequence[float],
    generator: Generator | None,
    *,
    held: Held | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Anneal states along a path; return the log-weights (runs,) in float64 and the final states (Neal 2001).

    ``held`` are units that keep their states, as in a sweep. Memory does not depend on the number of betas; each beta
    costs one matrix product up and one down.
    """
    weights, final = _anneal(path, state, schedule, generator, held, fast=True)
    if not bool(torch.isfinite(weights).all()):  # the fast form of the gain overflows for large steps
        weights, final = _anneal(path, state, schedule, generator, held, fast=False)
    return weights, final


def spreads(path: Path, state: list[Tensor], schedule: Sequence[float], generator: Generator | None) -> Tensor:
    """The standard deviations of the log-weights gained in every step of an annealing, (steps,)."""
    gains: list[Tensor] = []
    _anneal(path, state, schedule, generator, None, fast=False, spreads=gains)
    return torch.stack(gains)


def _anneal(
    path: Path,
    state: list[Tensor],
    schedule: Sequence[float],
    generator: Generator | None,
    held: Held | None,
    fast: bool,
    spreads: list[Tensor] | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Accumulate ln w = Σ_t ln p*_{t+1}(x_t) - ln p*_t(x_t), with the odd layers summed out (Neal 2001)."""
    state = [x.clone() for x in state]
    weights = torch.zeros(len(state[0]), dtype=torch.float64, device=state[0].device)
    means = {layer: torch.empty_like(state[layer]) for layer in path.odd}
    before = path.at(schedule[0])
    for beta in schedule[1:]:
        now, seen, fields = path.at(beta), path.seen(state), {}
        gain = path.tilt(state) * (beta - before.beta)
        for layer in path.odd:  # the change of log_weight, from fields and means that the sweep uses too
            unit, field_before = now.layer(layer), path.mixed(layer, seen[layer], before.beta)
            fields[layer] = path.mixed(layer, seen[layer], beta, last=True)
            unit.mean_(fields[layer], means[layer])
            gain_of = unit.log_partition_gain if fast else partial(Unit.log_partition_gain, unit)
            gain = gain + gain_of(fields[layer], before.layer(layer), field_before, means[layer])
        weights += gain
        if spreads is not None:
            spreads.append(gain.std(correction=0))  # zero for a single run: equal steps
        if beta < schedule[-1]:
            half_sweep(now, state, 1, generator, held=held, fields=fields, means=means, in_place=True)
            half_sweep(now, state, 0, generator, held=held, in_place=True)
        before = now
    return weights, state
