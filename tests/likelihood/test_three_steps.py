"""Annealing with few, large steps, in which an error of the weights shows; with many small steps it hides."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.machines import enumeration

BETAS = (0.0, 0.3, 0.6, 1.0)
MACHINES = {
    "rbm": lambda: hm.RBM(3, 2),
    "spins": lambda: hm.RBM(hm.units.Spin(3), hm.units.Spin(2)),
    "letters": lambda: hm.RBM(hm.units.Potts((2, 3)), 2),
    "deep": lambda: hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in (3, 2, 2)]),
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_the_mean_weight_of_three_steps(name: str, direction: str) -> None:
    machine = MACHINES[name]()
    generator = torch.Generator().manual_seed(1)
    for parameter in machine.parameters():
        torch.nn.init.normal_(parameter, std=0.8, generator=generator)
    runs, exact = 20_000, machine.log_partition()
    if direction == "forward":
        found = hm.likelihood.ais(machine, runs=runs, betas=BETAS, seed=0)
    else:
        samples = enumeration.draws(machine, runs, generator)[0]
        found = hm.likelihood.reverse_ais(machine, samples, betas=BETAS, seed=0)
    weights = found.details["weights"].log_weights
    ratios = (weights - torch.logsumexp(weights, 0)).exp() * runs
    error = ratios.std().item() / runs**0.5
    assert error < 0.03
    assert abs(found.value - exact) < 4 * error
