"""A deep machine small enough for enumeration, and its likelihood."""

from __future__ import annotations

import itertools

import torch

import harmonium as hm


def small(seed: int = 0, scale: float = 0.8) -> hm.DeepBoltzmannMachine:
    machine = hm.DeepBoltzmannMachine([hm.units.Bernoulli(4), hm.units.Bernoulli(3), hm.units.Bernoulli(2)]).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in machine.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return machine


def all_states(machine: hm.BoltzmannMachine) -> list[torch.Tensor]:
    """Every joint state, a batch for each layer."""
    sizes = [unit.size for unit in machine.layers]
    states = torch.tensor(list(itertools.product([0.0, 1.0], repeat=sum(sizes))), dtype=torch.float64)
    return list(states.split(sizes, 1))


ROWS = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 0], [0, 1, 0, 0]], dtype=torch.float64)


@torch.no_grad()
def exact(machine: hm.BoltzmannMachine, rows: torch.Tensor) -> float:
    """⟨ln p(v)⟩ by enumeration of all states."""
    states = all_states(machine)
    weights = -machine.energy(*states)
    values = [torch.logsumexp(weights[(states[0] == row).all(1)], 0) for row in rows]
    return (torch.stack(values).mean() - torch.logsumexp(weights, 0)).item()
