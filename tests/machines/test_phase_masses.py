"""The phases of a machine: unbiased masses, and estimates that miss one."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium.machines import enumeration

U = hm.units
F64 = torch.float64


def needle(on: float = 0.85, seed: int = 0, visible: int = 40) -> tuple[hm.RBM, Tensor]:
    """A machine whose first hidden unit is strong and on with probability ``on``, and rows in which it is off."""
    source = torch.Generator().manual_seed(seed)
    W = 0.3 * torch.randn(visible, 5, generator=source, dtype=F64)
    W[:, 0] = 3.0 * (torch.randint(0, 2, (visible,), generator=source) * 2 - 1)
    machine = hm.RBM(U.Bernoulli(visible), U.Bernoulli(5)).double()
    with torch.no_grad():
        machine.coupling.weight.copy_(W)
        machine.visible.bias.zero_()
        parts = list(enumeration.chunks(machine, 1))
        first = torch.cat([state[1][:, 0] for state, _ in parts if state[1] is not None])
        log_p = torch.cat([part for _, part in parts])
        odds = torch.logsumexp(log_p[first == 1], 0) - torch.logsumexp(log_p[first == 0], 0)
        machine.hidden.bias[0] += math.log(on / (1 - on)) - odds
    hidden = torch.randint(0, 2, (50, 5), generator=source, dtype=F64)
    hidden[:, 0] = 0
    return machine, machine.sample_visible(hidden, seed=source)


def test_the_masses_of_a_strong_hidden_unit() -> None:
    machine, rows = needle()
    found = hm.sampling.phases(machine)
    log_z = machine.log_partition()
    assert abs(found.log_partition - log_z) < 0.05 and found.standard_error < 0.05
    assert found.missed(log_z, rows) == pytest.approx(math.log(1.85), abs=0.1)
    both = enumeration.draws(machine, 500, torch.Generator().manual_seed(0))[0]
    assert found.missed(log_z, both) < 0.05
    assert not found.problems(log_z) and found.problems(log_z + math.log(0.15))


@torch.no_grad()
def strong_top(seed: int) -> hm.DeepBoltzmannMachine:
    """A deep machine whose last layer has a strong unit, which is on with a probability of 80 % and sets the others."""
    source = torch.Generator().manual_seed(seed)
    machine = hm.DeepBoltzmannMachine([U.Bernoulli(30), U.Bernoulli(12), U.Bernoulli(3)]).double()
    below, above = (coupling.weight for coupling in machine.couplings)
    below.copy_(1.5 * torch.randn(30, 12, generator=source, dtype=F64))
    above.zero_()
    above[:, 0] = 6.0 * (torch.randint(0, 2, (12,), generator=source) * 2 - 1)
    machine.visible.bias.copy_(-below.sum(1) / 2)
    machine.layers[1].bias.copy_(-below.sum(0) / 2)
    bias = machine.layers[2].bias
    bias[0] = -100.0
    off = machine.log_partition()
    bias[0] = 0.0
    bias[0] = math.log(4) + off - machine.log_partition()
    return machine


@pytest.mark.parametrize("seed", [3, 12, 15])
def test_phases_of_a_strong_unit_in_an_upper_layer(seed: int) -> None:
    machine = strong_top(seed)
    assert abs(hm.sampling.phases(machine).log_partition - machine.log_partition()) < 0.3


def test_the_phases_replace_what_the_samples_miss() -> None:
    """The chains of each estimate stay where the strong unit is off."""
    machine, rows = needle()
    log_z = machine.log_partition()
    both = hm.likelihood.estimate(machine, rows, betas=300, sampling_sweeps=50, seed=0).log_partition
    assert both is not None and both.details["forward"].value < log_z - 1
    tempering = hm.likelihood.tempering(machine, start=rows, sweeps=100, seed=0)
    assert tempering.details["exchanged"] < log_z - 1
    for found in (both, tempering):
        low, high = found.interval
        assert found.method == "phases" and low < log_z < high < low + 0.5
        assert found.value == pytest.approx(log_z, abs=0.1) and found.trustworthy


def test_samples_that_miss_a_phase_are_not_trusted() -> None:
    machine, rows = needle()
    log_z = machine.log_partition()
    for threshold in (0.5, None):
        found = hm.likelihood.population(machine, 500, threshold=threshold, seed=0)
        assert found.value < log_z - 1 and found.standard_error > 1
        assert any("phases of the machine" in problem for problem in found.problems)
        low, high = found.details["conditional_interval"]
        assert low < log_z < high
    assert "phases of the machine" in hm.likelihood.reverse_ais(machine, rows, betas=100, seed=0).problems[-1]


def test_phases_that_are_not_precise_replace_nothing() -> None:
    machine, _ = needle()
    found = replace(hm.sampling.phases(machine), complete=False)
    small = machine.log_partition() - 1
    judged = found.verdict(small, (small, small), (), missed=1.0)
    assert judged.log_partition == small and judged.interval == (small, math.inf) and len(judged.problems) == 1


def test_an_estimate_that_agrees_with_the_phases_is_confirmed() -> None:
    found, log_z = hm.sampling.phases(needle()[0]), needle()[0].log_partition()
    judged = found.verdict(log_z + 0.2, (log_z + 0.1, log_z + 0.3), ("few round trips",), missed=0.0)
    assert not judged.problems and judged.interval[0] < log_z
    assert found.verdict(log_z + 0.6, (log_z, log_z + 1), ("few round trips",), missed=0.0).problems


def test_estimates_that_visit_every_phase_are_trusted() -> None:
    machine, rows = needle(on=0.05)
    assert hm.likelihood.tempering(machine, start=rows, sweeps=200).trustworthy
    assert not hm.likelihood.population(machine, 1000, seed=0).problems


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_sum_over_the_phases_is_an_unbiased_estimate_of_z(depth: int) -> None:
    """With few steps the logarithm has a bias, Z itself has none."""
    machine = hm.machines.BoltzmannMachine([U.Bernoulli(7), U.Spin(4), U.Bernoulli(3), U.Spin(3)][:depth]).double()
    machine.initialize(weights="normal", scale=2.0, seed=3)
    log_z = machine.log_partition()
    ratios = torch.tensor(
        [math.exp(hm.sampling.phases(machine, runs=8, betas=3, seed=k).log_partition - log_z) for k in range(60)]
    )
    assert abs(ratios.mean().item() - 1) < 4 * ratios.std().item() / math.sqrt(len(ratios))


@pytest.mark.parametrize("depth", [2, 3])
def test_the_shares_are_those_of_normalized_distributions(depth: int) -> None:
    layers = [U.Bernoulli(6), U.Spin(4), U.Bernoulli(3)][:depth]
    machine = hm.machines.BoltzmannMachine(layers).double()
    machine.initialize(weights="normal", scale=2.0, seed=3)
    found = hm.sampling.phases(machine)
    v = machine.visible.enumerate().double()
    log_q = v @ found.fields.T + machine.visible.log_weight(v).sum(1, keepdim=True) - found.norms
    assert len(found.norms) > 1
    torch.testing.assert_close(log_q.exp().sum(0), torch.ones_like(found.norms))
    torch.testing.assert_close(found.shares(v), torch.softmax(log_q, 1))


@pytest.mark.parametrize(
    "layers",
    [
        (U.Potts((4, 3)), U.ReLU(3)),
        (U.Gaussian(5), U.Spin(4)),
        (U.Spin(5), U.Poisson(3)),
        (U.Multinomial(4, total=3), U.Bernoulli(3)),
        (U.Mixed(U.Bernoulli(3), U.Gaussian(2)), U.Potts((2, 3))),
    ],
    ids=lambda layers: "-".join(unit.name() for unit in layers),
)
def test_layers_of_any_units(layers: tuple[hm.units.Unit, ...]) -> None:
    machine = hm.RBM(*layers)
    machine.initialize(weights="normal", scale=0.3, seed=0)
    found = hm.sampling.phases(machine)
    expected = hm.likelihood.tempering(machine, chains=20, sweeps=100, betas=4).value
    assert found.log_partition == pytest.approx(expected, abs=0.1)


def test_equal_seeds_give_equal_phases() -> None:
    machine, _ = needle()
    one, two, other = (hm.sampling.phases(machine, seed=seed) for seed in (0, 0, 1))
    assert one.log_partition == two.log_partition != other.log_partition
    assert torch.equal(one.fields, other.fields)
