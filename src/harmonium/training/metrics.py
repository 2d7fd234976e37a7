"""Training metrics, computed every few epochs and never inside a training step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import torch
from torch import Generator, Tensor

from .. import meanfield
from ..likelihood import pseudo
from ..likelihood.rows import naive_bound
from ..machines import RBM, BoltzmannMachine, Machine
from ..machines.enumeration import is_small
from ..units import Unit

_SITES = 8  # sites of each row for the pseudo-likelihood
_ELEMENTS = 2**18  # of states at once
_MOST_STATES = 64  # states per site; each one costs the evaluation of a free energy


@torch.no_grad()
def measure(machine: Machine, train: Any, test: Any, generator: Generator) -> dict[str, float]:
    """Compute pseudo-likelihood per site, reconstruction error, free-energy gap and weight norm on some rows.

    For small machines, ``log_likelihood`` is the exact mean log-likelihood of the training rows.

    ``reconstruction`` is the mean squared error per entry of ⟨v | ⟨h | v⟩⟩; ``free_energy_gap`` is
    ⟨F⟩_test - ⟨F⟩_train, which grows when the machine overfits. For a deep Boltzmann machine, ⟨h | v⟩
    and F come from mean field, and there is no pseudo-likelihood. For a stack, each machine is measured on the input
    passed up from below, and the names end in _1, _2, … The same state of ``generator`` gives the same sites of the
    pseudo-likelihood and the same inputs of a stack, so that metrics change only with the machine. For a machine with a
    context, rows are pairs with their context, and F is the free energy given the context.
    """
    norms = [torch.linalg.vector_norm(coupling.weight, dim=-1).double() for coupling in machine.couplings]
    values = {"weight_norm": sum(norm.square().sum().item() for norm in norms) ** 0.5}
    unseen: Iterable[Any] = repeat((None, None)) if test is None else machine.stacked(test, generator=generator)
    for k, ((one, rows), (_, held_out)) in enumerate(zip(machine.stacked(train, generator=generator), unseen)):  # noqa: B905
        end = "" if one is machine else f"_{k + 1}"
        values |= {name + end: value for name, value in _measure(one, rows, held_out, generator).items()}
    return values


def _measure(machine: BoltzmannMachine, train: Any, test: Any, generator: Generator | None) -> dict[str, float]:
    held_out = machine
    if test is not None:
        held_out, test = machine.for_rows(test)
    small = is_small(machine)
    machine, train = machine.for_rows(train)
    values = {"reconstruction": _reconstruction(machine, train)}
    if not isinstance(machine, RBM):
        if test is not None:
            bounds = [naive_bound(machine, part).double().mean().item() for part in (train, test)]
            values["free_energy_gap"] = bounds[0] - bounds[1]
        return values
    parts = list(zip(machine.visible.parts, machine.visible.split(train), strict=True))
    valid = all(bool(part.support.contains(x).all()) for part, x in parts)  # false for means
    if valid and small:
        free_energy = machine.free_energy(train, check=False).double().mean().item()
        values["log_likelihood"] = -free_energy - machine.log_partition()
    if valid and all(_few_states(part) for part, _ in parts):
        each = pseudo(machine, train, sites=_SITES, seed=generator)
        values["pseudo_likelihood"] = each.double().mean().item() / machine.visible.sites
    if test is not None:
        assert isinstance(held_out, RBM)
        gap = held_out.free_energy(test, check=False).double().mean()
        gap = gap - machine.free_energy(train, check=False).double().mean()
        values["free_energy_gap"] = gap.item()
    return values


def _reconstruction(machine: BoltzmannMachine, rows: Tensor) -> float:
    """Return the mean squared error of the reconstruction of the rows, in parts that fit into the cache of a core."""
    total, size = 0.0, max(1, _ELEMENTS // sum(unit.size for unit in machine.layers))
    for index in torch.arange(len(rows), device=rows.device).split(size):
        part = rows[index]
        total += (meanfield.reconstruct(machine.at(index), part) - part).square().sum(dtype=torch.float64).item()
    return total / rows.numel()


def _few_states(unit: Unit) -> bool:
    number = unit.cardinality
    return number is not None and math.log(number) <= unit.sites * math.log(_MOST_STATES)
