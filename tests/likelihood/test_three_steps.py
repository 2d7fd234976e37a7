"""Annealing with few, large steps, in which an error of the weights shows; with many small steps it hides."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.likelihood import Weights, rows
from harmonium.machines import enumeration
from harmonium.machines.partial import PartialRows

BETAS = (0.0, 0.3, 0.6, 1.0)
MACHINES = {
    "rbm": lambda: hm.RBM(3, 2),
    "spins": lambda: hm.RBM(hm.units.Spin(3), hm.units.Spin(2)),
    "letters": lambda: hm.RBM(hm.units.Potts((2, 3)), 2),
    "deep": lambda: hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in (3, 2, 2)]),
}


def random(machine: hm.BoltzmannMachine) -> hm.BoltzmannMachine:
    generator = torch.Generator().manual_seed(1)
    for parameter in machine.parameters():
        torch.nn.init.normal_(parameter, std=0.8, generator=generator)
    return machine


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_the_mean_weight_of_three_steps(name: str, direction: str) -> None:
    machine, generator = random(MACHINES[name]()), torch.Generator().manual_seed(1)
    runs, exact = 20_000, machine.log_partition()
    if direction == "forward":
        found = hm.likelihood.ais(machine, runs=runs, betas=BETAS, seed=0)
    else:
        samples = enumeration.draws(machine, runs, generator)[0]
        found = hm.likelihood.reverse_ais(machine, samples, betas=BETAS, seed=0)
    assert found.standard_error < 0.03
    assert abs(found.value - exact) < 4 * found.standard_error


@torch.no_grad()
@pytest.mark.parametrize("name", MACHINES)
def test_the_mean_weight_of_rows_with_missing_units(name: str) -> None:
    """All of them observed, some of them, none of them: compared with the sum over all visible states."""
    machine, generator = random(MACHINES[name]()).double(), torch.Generator().manual_seed(2)
    states = enumeration.draws(machine, 3, generator)[0]
    mask = torch.ones_like(states, dtype=torch.bool)
    mask[1, 0], mask[2] = False, False
    every = machine.visible.enumerate().double()
    sums = rows.hidden_sums(machine, every)
    agree = torch.stack([((every == row) | ~seen).flatten(1).all(1) for row, seen in zip(states, mask, strict=True)])
    exact = torch.logsumexp(torch.where(agree, sums, -torch.inf), 1)
    found = rows.annealed(machine, PartialRows.of(states, machine.visible, mask), 20_000, BETAS, generator)
    check(found, exact)


def test_the_mean_weight_of_documents() -> None:
    machine = random(hm.RBM(hm.units.Multinomial(4), 2))
    counts = torch.tensor([[1.0, 0, 0, 0], [0, 2, 1, 0], [1, 1, 1, 2]])
    exact = hm.likelihood.exact(machine, counts).per_row
    found = hm.likelihood.estimate(machine, counts, runs=20_000, betas=BETAS, sampling_sweeps=20, seed=0)
    for side in ("forward", "reverse"):
        assert (found.details[side] - exact).abs().max() < 0.05


def check(found: Weights, exact: torch.Tensor) -> None:
    assert found.standard_error.max() < 0.03
    assert bool(((found.log_mean - exact).abs() < 4 * found.standard_error + 1e-9).all())
