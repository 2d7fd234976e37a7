"""The likelihood of deep machines: a mean-field bound, with ln Z from forward and reverse annealing."""

from __future__ import annotations

import math

import pytest
import torch
from deep_helpers import ROWS, exact, small

import harmonium as hm
from harmonium.likelihood import data
from harmonium.likelihood.data import hidden_sums, mean_free_energy, mean_free_energy_bound


def test_the_bound_lies_below_the_likelihood_and_meets_it_without_a_second_layer():
    machine = small(1, 1.5)
    truth = exact(machine, ROWS) + machine.log_partition()
    assert truth - 1 < -mean_free_energy_bound(machine, ROWS) < truth - 1e-4
    with torch.no_grad():
        machine.couplings[1].weight.zero_()
    truth = exact(machine, ROWS) + machine.log_partition()
    assert -mean_free_energy_bound(machine, ROWS) == pytest.approx(truth, abs=1e-10)


@pytest.mark.slow
def test_it_is_the_free_energy_of_an_rbm():
    machine = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(3)).double()
    machine.initialize(seed=0, scale=1.0)
    assert mean_free_energy_bound(machine, ROWS) == mean_free_energy(machine, ROWS)
    assert not hm.likelihood.estimate(machine, ROWS, runs=10, betas=10, sampling_sweeps=10).bound


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.fast_cases(1)
def test_the_likelihood_of_a_small_machine_is_exact(seed):
    machine = small(seed)
    found = hm.likelihood.estimate(machine, ROWS, betas=300, sampling_sweeps=30, seed=seed)
    low, high = found.annealed_interval
    truth = exact(machine, ROWS)
    assert low < truth < high < low + 0.5
    assert not found.bound and found.exact == pytest.approx(truth, abs=1e-10)
    assert found.interval == (found.exact, found.exact)
    assert found.trustworthy and not found.problems and found.round_trips >= 100
    assert "effective runs" in str(found)


@pytest.mark.parametrize("sizes", [(4, 3, 2), (3, 2, 3, 2), (3, 2, 4, 3, 2), (3, 1, 8)])
def test_sums_over_the_hidden_layers(sizes):
    machine = hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in sizes]).double()
    machine.initialize(seed=0, scale=2.0)
    rows = machine.visible.enumerate()
    free_energy = hidden_sums(machine, rows)
    assert torch.logsumexp(-free_energy, 0).item() == pytest.approx(machine.log_partition(), abs=1e-10)
    assert (-free_energy - machine.log_partition()).mean().item() == pytest.approx(exact(machine, rows), abs=1e-10)


@pytest.mark.fast_cases(1)
def test_a_bound_is_one_sided_and_named_so(monkeypatch):
    """As for a machine with more hidden states than can be summed for each row."""
    monkeypatch.setattr(data, "sums_hidden", lambda *_: False)
    machine = small(1, 1.5)
    found = hm.likelihood.estimate(machine, ROWS, betas=300, sampling_sweeps=30)
    bound = -mean_free_energy_bound(machine, ROWS) - machine.log_partition()
    assert found.bound and found.exact is None
    assert found.log_likelihood == pytest.approx(bound, abs=1e-12) and bound < exact(machine, ROWS)
    assert found.interval == (found.log_likelihood, math.inf)
    assert "lower bound of the log-likelihood" in repr(found)
    low, high = found.annealed_interval
    assert low < bound < high < low + 0.5


@pytest.mark.slow
def test_another_base_for_the_annealing():
    machine = small(0)
    options = {"betas": 300, "sampling_sweeps": 30}
    here, elsewhere = (hm.likelihood.estimate(machine, ROWS, base=base, **options) for base in (None, ROWS[:2]))
    assert here.forward.base_log_partition != elsewhere.forward.base_log_partition
    assert elsewhere.forward.log_partition == pytest.approx(machine.log_partition(), abs=0.05)
    with pytest.raises(hm.errors.InvalidData, match="at least one row"):
        hm.likelihood.estimate(machine, ROWS, base=ROWS[:0], **options)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("seed", [0, 1])
def test_annealing_the_hidden_layers_is_closer_than_the_bound(seed):
    machine = small(seed, 1.5)
    found = hm.likelihood.clamped_ais(machine, ROWS, runs=1000, betas=50, seed=seed)
    truth = exact(machine, ROWS) + machine.log_partition()
    assert found.mean == pytest.approx(truth, abs=4 * found.standard_error)
    assert 4 * found.standard_error < truth + mean_free_energy_bound(machine, ROWS)
    assert found.log_weights.shape == (1000, len(ROWS)) and 500 < found.effective_sample_size <= 1000


@pytest.mark.slow
def test_annealing_the_hidden_layers_of_four_layers_and_of_an_rbm():
    sizes = (3, 2, 2, 2)
    deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in sizes]).double()
    deep.initialize(seed=0, scale=1.5)
    rows = ROWS[:, :3]
    found = hm.likelihood.clamped_ais(deep, rows, runs=1000, betas=50)
    assert found.mean == pytest.approx(exact(deep, rows) + deep.log_partition(), abs=4 * found.standard_error + 1e-6)
    rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(3)).double()
    rbm.initialize(seed=0, scale=1.0)
    assert hm.likelihood.clamped_ais(rbm, ROWS, runs=2, betas=2).mean == pytest.approx(-mean_free_energy(rbm, ROWS))


def test_other_estimates_still_expect_two_layers():
    for estimate in (hm.likelihood.exact(small()), hm.likelihood.ais(small(), betas=10, runs=5)):
        with pytest.raises(hm.errors.InvalidOption, match="an RBM"):
            estimate.log_likelihood(ROWS)
