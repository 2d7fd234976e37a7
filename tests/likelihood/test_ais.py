"""Annealed importance sampling against exact partition functions, from both sides."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium.likelihood import Estimate, ais, reverse_ais
from harmonium.likelihood.ais import betas, outlying

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))
from cases import MACHINES, PAIRS, generator, id_of, rbm
from oracle import joint

SOME = [pair for pair in PAIRS if "bernoulli" in pair or "gaussian" in pair]


def exact_draws(case, machine, n, source):
    exact = joint(machine, case.nodes(machine))
    return exact.draw(n, source)[0], exact.log_partition


def assert_brackets(machine, log_z, start, source, temperatures=60):
    """Both intervals hold the truth at ±3σ, give or take what is left between a quadrature and its machine."""
    for estimate in (
        ais(machine, runs=400, temperatures=temperatures, generator=source),
        reverse_ais(machine, start, temperatures=temperatures, generator=source),
    ):
        error = max(estimate.standard_error, 1e-6)
        assert abs(estimate.value - log_z) < 4.5 * error, estimate.direction
        assert estimate.effective_sample_size > 100
        assert estimate.trustworthy


@pytest.mark.parametrize("pair", SOME, ids=id_of)
def test_every_unit(pair):
    case = rbm(*pair)
    machine = case.build()
    source = generator("ais", pair)
    start, log_z = exact_draws(case, machine, 400, source)
    assert_brackets(machine, log_z, start, source)


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine(name):
    case = MACHINES[name]
    machine = case.build()
    source = generator("ais", name)
    exact = joint(machine, case.nodes(machine))
    forward = ais(machine, runs=400, temperatures=60, generator=source)
    assert abs(forward.value - exact.log_partition) < 4.5 * max(forward.standard_error, 1e-6)


def strong():
    machine = hm.RBM(hm.units.Bernoulli(10), hm.units.Bernoulli(6)).double()
    machine.initialise(scale=1.5, seed=3)
    return machine


def test_coverage_and_order_of_the_two_directions():
    machine = strong()
    log_z = machine.log_partition()
    states, log_p = machine.distribution()
    inside, forward, reverse = 0, [], []
    for seed in range(60):
        source = torch.Generator().manual_seed(seed)
        start = states[torch.multinomial(log_p.exp(), 50, replacement=True, generator=source)]
        pair = (
            ais(machine, runs=50, temperatures=150, generator=source),
            reverse_ais(machine, start, temperatures=150, generator=source),
        )
        inside += sum(low <= log_z <= high for low, high in (estimate.interval for estimate in pair))
        forward.append(pair[0].value)
        reverse.append(pair[1].value)
    assert inside >= 117  # of 120 three-sigma intervals
    error = np.std(forward) / 60**0.5, np.std(reverse) / 60**0.5
    assert np.mean(forward) < log_z + 3 * error[0]
    assert np.mean(reverse) > log_z - 3 * error[1]


def test_from_data_and_from_an_earlier_machine():
    machine = strong()
    log_z = machine.log_partition()
    data = machine.sample(500, steps=100, seed=0)
    earlier = hm.sampling.Path(machine).machine(0.8)
    for base in (data, earlier):
        estimate = ais(machine, runs=200, temperatures=200, base=base, seed=0)
        low, high = estimate.interval
        assert low < log_z < high


def test_steps_so_large_that_the_fast_gain_overflows():
    machine = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    with torch.no_grad():
        machine.coupling.weight.fill_(-200.0)
        machine.hidden.bias.fill_(5.0)
    estimate = ais(machine, runs=500, temperatures=2, seed=0)
    assert np.isfinite(estimate.value)


def test_too_few_temperatures_are_flagged():
    machine = hm.RBM(hm.units.Bernoulli(60), hm.units.Bernoulli(40))
    machine.initialise(scale=1.5, seed=0)
    estimate = ais(machine, temperatures=3, seed=0)
    assert not estimate.trustworthy
    assert "runs carry the estimate" in estimate.problems[0]


def test_outliers():
    weights = torch.tensor([0.0, 0.1, -0.1, 0.05, -0.05, 9.0], dtype=torch.float64)
    assert outlying(weights).tolist() == [False] * 5 + [True]
    kept = Estimate(strong(), weights, 0.0, outliers=outlying(weights))
    assert kept.value > 5  # one wild run carries it, and that is seen
    assert not kept.trustworthy


def test_estimate_agrees_with_enumeration_and_says_so():
    data = hm.data.load("digits", binarise="threshold")
    machine = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(10))
    hm.fit(machine, data, epochs=20, seed=0, progress=False)
    result = hm.likelihood.estimate(machine, data, temperatures=1000, sampling_steps=200, seed=0)
    assert result.exact is not None
    assert result.from_reverse - 0.2 < result.exact < result.from_forward + 0.2
    assert result.trustworthy and not result.problems


def test_two_wells_are_not_trusted():
    machine = hm.RBM(hm.units.Bernoulli(40), hm.units.Bernoulli(30))
    with torch.no_grad():  # two deep wells, and no way between them
        machine.coupling.weight.fill_(2.0)
        machine.visible.bias.fill_(-30.0)
        machine.hidden.bias.fill_(-39.8)
    wells = torch.cat([torch.zeros(50, 40), torch.ones(50, 40)])
    result = hm.likelihood.estimate(machine, wells, temperatures=20, samples=wells, seed=0)
    assert result.problems
    assert not result.trustworthy


def test_bad_options():
    machine = strong()
    with pytest.raises(hm.errors.InvalidOption, match="increasing"):
        ais(machine, temperatures=[0.0, 0.7, 0.6, 1.0])
    with pytest.raises(hm.errors.InvalidOption, match="at least one"):
        betas(0)
