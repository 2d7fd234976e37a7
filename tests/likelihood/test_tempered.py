"""ln Z from the exchanges of parallel tempering, compared with enumeration."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from phase_machines import make, rows

import harmonium as hm
from harmonium.errors import InvalidOption
from harmonium.estimates import Estimate
from harmonium.likelihood.log_partition import acceptance_ratio, significant

U = hm.units
MACHINES = {
    "bernoulli": lambda: hm.RBM(U.Bernoulli(6), U.Bernoulli(4)),
    "spin": lambda: hm.RBM(U.Spin(5), U.Spin(3)),
    "gaussian": lambda: hm.RBM(U.Gaussian(4), U.Bernoulli(4)),
    "potts-relu": lambda: hm.RBM(U.Potts((3, 3)), U.ReLU(3)),
    "binomial-gaussian": lambda: hm.RBM(U.Binomial(4, trials=3), U.Gaussian(2)),
    "deep": lambda: hm.DeepBoltzmannMachine([U.Bernoulli(4), U.Bernoulli(3), U.Bernoulli(3)]),
}


def built(name: str) -> hm.BoltzmannMachine:
    machine = MACHINES[name]()
    machine.initialize(weights="normal", scale=0.6, seed=1)
    return machine


def ferromagnet(strength: float) -> hm.RBM:
    """Two states, all up and all down, of equal probability."""
    machine = hm.RBM(U.Spin(8), U.Spin(4))
    torch.nn.init.constant_(machine.coupling.weight, strength)
    return machine


@pytest.mark.parametrize("name", MACHINES)
def test_the_exact_value_is_within_the_error(name: str) -> None:
    machine = built(name)
    found = hm.likelihood.tempering(machine, chains=50, sweeps=200, seed=0)
    assert abs(found.value - machine.log_partition()) < 4 * found.standard_error < 0.2
    assert found.trustworthy, found.problems


@pytest.mark.slow
def test_standard_errors_are_those_of_many_runs() -> None:
    machine = built("bernoulli")
    exact = machine.log_partition()
    found = [hm.likelihood.tempering(machine, chains=30, sweeps=100, betas=4, seed=seed) for seed in range(60)]
    scores = torch.tensor([(one.value - exact) / one.standard_error for one in found])
    assert 0.7 < scores.std() < 1.4
    assert abs(scores.mean()) < 0.5
    assert sum(one.trustworthy for one in found) >= 57
    low, high = zip(*(one.interval for one in found), strict=True)
    assert sum(a < exact < b for a, b in zip(low, high, strict=True)) >= 57


def test_likelihoods_and_initial_states() -> None:
    machine = built("bernoulli")
    assert isinstance(machine, hm.RBM)
    rows = machine.sample(40, sweeps=50, seed=0, check_mixing=False)
    found = hm.likelihood.tempering(machine, start=rows, chains=50, sweeps=300, seed=0)
    exact = hm.likelihood.exact(machine).log_likelihood(rows)
    assert found.log_likelihood(rows).value == pytest.approx(exact.value, abs=0.05)
    assert not significant(found.details["starts"]) and not significant(found.details["halves"])
    assert found.samples[0].shape == (50, 6)
    assert "ln Z" in repr(found)


def test_equal_seeds_give_equal_results() -> None:
    machine = built("spin")
    one, two, other = (hm.likelihood.tempering(machine, chains=10, sweeps=40, seed=seed) for seed in (0, 0, 1))
    assert one.value == two.value != other.value


def test_data_as_base() -> None:
    machine = built("bernoulli")
    assert isinstance(machine, hm.RBM)
    rows = machine.sample(100, sweeps=50, seed=0, check_mixing=False)
    found = hm.likelihood.tempering(machine, base=rows, chains=50, sweeps=200, seed=0)
    assert abs(found.value - machine.log_partition()) < 4 * found.standard_error < 0.2


def test_states_that_exchanges_do_not_reach_are_reported() -> None:
    machine = ferromagnet(1.5)
    options = {"start": torch.ones(1, 8), "chains": 8, "sweeps": 20, "betas": 2}
    log_z = machine.log_partition()
    for rare in (hm.likelihood.tempering(machine, **options, seed=seed) for seed in range(5)):
        exchanged, phases = rare.details["exchanged"], rare.details["phases"]
        assert abs(exchanged - log_z) > 0.5
        assert not rare.trustworthy or rare.value == phases.log_partition  # they replace what is missed
        assert rare.interval[0] < log_z < rare.interval[1]
        missed = replace(phases, complete=False)
        assert missed.verdict(exchanged, (0.0, 1.0), ("few round trips",), 0.6).problems[0] == "few round trips"
    many = hm.likelihood.tempering(machine, start=torch.ones(1, 8), chains=40, sweeps=1000, seed=0)
    assert many.trustworthy, many.problems
    assert abs(many.value - machine.log_partition()) < 4 * many.standard_error


def test_an_estimate_uses_the_tempering_that_is_more_precise() -> None:
    """With few temperatures, the two directions have large errors; the chains mix."""
    machine = built("bernoulli")
    assert isinstance(machine, hm.RBM)
    rows = machine.sample(40, sweeps=50, seed=0, check_mixing=False)
    found = hm.likelihood.estimate(machine, rows, betas=3, sampling_sweeps=300).log_partition
    assert found.method == "tempering"
    assert found.value == found.details["tempering"].value != found.details["forward"].value
    low, high = found.interval
    assert low < machine.log_partition() < high and not found.problems


def test_a_tempering_that_disagrees_with_both_directions_does_not_replace_them() -> None:
    """With few sweeps its standard error is too small: -0.48 nats, and an interval that ends at -0.34."""
    machine = make("deep_top", 1124)
    found = hm.likelihood.estimate(machine, rows(machine, 1124), betas=500, sampling_sweeps=100, seed=1624)
    found, log_z = found.log_partition, machine.log_partition()
    assert found.method == "both directions" and found.details["tempering"].value < log_z - 0.4
    assert abs(found.value - log_z) < 0.2
    low, high = found.interval
    assert low < log_z < high and not found.problems


def test_significant_differences() -> None:
    assert not significant(Estimate(0.3, 0.1))
    assert significant(Estimate(0.5, 0.1))
    assert significant(Estimate(math.nan, 0.1))


def test_the_acceptance_ratio_of_two_gaussians() -> None:
    """w₀ = e^{-x²/2} and w₁ = e^{c - (x-m)²/2}: ln Z₁/Z₀ = c, also if the two hardly overlap."""
    source, c = torch.Generator().manual_seed(0), -3.0
    for m in (0.5, 2.0, 4.0):
        x, y = (torch.randn(200_000, generator=source, dtype=torch.float64) + shift for shift in (0.0, m))
        ratio = acceptance_ratio(c + m * x - m**2 / 2, -(c + m * y - m**2 / 2))
        assert ratio == pytest.approx(c, abs=0.05)


def test_values_that_are_not_finite_have_no_ratio() -> None:
    assert math.isnan(acceptance_ratio(torch.tensor([0.0, torch.inf]), torch.tensor([0.0, 0.0])))


def test_wrong_options() -> None:
    machine = built("bernoulli")
    with pytest.raises(InvalidOption, match="expected chains ≥ 4 and sweeps ≥ 16, found chains=3, sweeps=100"):
        hm.likelihood.tempering(machine, chains=3, sweeps=100)
    with pytest.raises(InvalidOption, match="betas: expected increasing values from 0 to 1"):
        hm.likelihood.tempering(machine, betas=[0.5, 1.0])
