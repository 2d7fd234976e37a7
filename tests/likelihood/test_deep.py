"""The likelihood of deep machines: a mean-field bound, with ln Z from forward and reverse annealing."""

from __future__ import annotations

import pytest
import torch
from deep_helpers import ROWS, exact, small

import harmonium as hm
from harmonium.likelihood import rows as row_module
from harmonium.likelihood.rows import hidden_sums, mean_free_energy, naive_bound


def bound_of(machine):
    return naive_bound(machine, ROWS).double().mean().item()


def test_the_bound_lies_below_the_likelihood_and_meets_it_without_a_second_layer():
    machine = small(1, 1.5)
    truth = exact(machine, ROWS) + machine.log_partition()
    assert truth - 1 < bound_of(machine) < truth - 1e-4
    with torch.no_grad():
        machine.couplings[1].weight.zero_()
    truth = exact(machine, ROWS) + machine.log_partition()
    assert bound_of(machine) == pytest.approx(truth, abs=1e-10)


@pytest.mark.slow
def test_it_is_the_free_energy_of_an_rbm():
    machine = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(3)).double()
    machine.initialize(seed=0, scale=1.0)
    assert bound_of(machine) == pytest.approx(-mean_free_energy(machine, ROWS), abs=1e-10)
    assert not hm.likelihood.estimate(machine, ROWS, runs=10, betas=10, sampling_sweeps=10).bound


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.fast_cases(1)
def test_the_likelihood_of_a_small_machine_is_exact(seed):
    machine = small(seed)
    found = hm.likelihood.estimate(machine, ROWS, betas=300, sampling_sweeps=30, seed=seed)
    low, high = found.interval
    truth = exact(machine, ROWS)
    assert low < truth < high < low + 0.5
    assert not found.bound and hm.likelihood.exact(machine, ROWS).value == pytest.approx(truth, abs=1e-10)
    assert found.trustworthy and not found.problems and found.log_partition.details["round_trips"] >= 100


@pytest.mark.parametrize("sizes", [(4, 3, 2), (3, 2, 3, 2), (3, 2, 4, 3, 2), (3, 1, 8)])
def test_sums_over_the_hidden_layers(sizes):
    machine = hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in sizes]).double()
    machine.initialize(seed=0, scale=2.0)
    rows = machine.visible.enumerate()
    sums = hidden_sums(machine, rows)
    assert torch.logsumexp(sums, 0).item() == pytest.approx(machine.log_partition(), abs=1e-10)
    assert (sums - machine.log_partition()).mean().item() == pytest.approx(exact(machine, rows), abs=1e-10)


def test_a_bound_is_named_so(monkeypatch):
    """As for a machine with more hidden states than can be summed for each row."""
    monkeypatch.setattr(row_module, "sums_hidden", lambda *_: False)
    machine = small(1, 1.5)
    found = hm.likelihood.exact(machine, ROWS)
    bound = bound_of(machine) - machine.log_partition()
    assert found.bound and "lower bound of the log-likelihood" in repr(found)
    assert found.value == pytest.approx(bound, abs=1e-12) and bound < exact(machine, ROWS)
    low, high = hm.likelihood.estimate(machine, ROWS, betas=300, sampling_sweeps=30).interval
    assert low < bound < high < low + 0.5


@pytest.mark.slow
def test_another_base_for_the_annealing():
    machine = small(0)
    options = {"betas": 300, "sampling_sweeps": 30}
    here, elsewhere = (hm.likelihood.estimate(machine, ROWS, base=base, **options) for base in (None, ROWS[:2]))
    here, elsewhere = (found.log_partition.details["forward"] for found in (here, elsewhere))
    assert here.details["base_log_partition"] != elsewhere.details["base_log_partition"]
    assert elsewhere.value == pytest.approx(machine.log_partition(), abs=0.05)
    with pytest.raises(hm.errors.InvalidData, match="at least one row"):
        hm.likelihood.estimate(machine, ROWS, base=ROWS[:0], **options)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("seed", [0, 1])
def test_annealing_the_hidden_layers_is_closer_than_the_bound(seed, monkeypatch):
    machine = small(seed, 1.5)
    log_z, truth = hm.likelihood.exact(machine), exact(machine, ROWS)
    monkeypatch.setattr(row_module, "sums_hidden", lambda *_: False)
    found = log_z.log_likelihood(ROWS, hidden="annealing", runs=1000, betas=50, seed=seed)
    low, high = found.interval
    assert low < truth < high and not found.bound
    assert high - low < truth - log_z.log_likelihood(ROWS).value


@pytest.mark.slow
def test_annealing_the_hidden_layers_of_four_layers_and_of_an_rbm(monkeypatch):
    sizes = (3, 2, 2, 2)
    deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(n) for n in sizes]).double()
    deep.initialize(seed=0, scale=1.5)
    rows = ROWS[:, :3]
    log_z, truth = hm.likelihood.exact(deep), exact(deep, rows)
    monkeypatch.setattr(row_module, "sums_hidden", lambda *_: False)
    found = log_z.log_likelihood(rows, hidden="annealing", runs=1000, betas=50, seed=0)
    assert found.interval[0] - 1e-6 < truth < found.interval[1] + 1e-6
    rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(3)).double()
    rbm.initialize(seed=0, scale=1.0)
    found = [hm.likelihood.exact(rbm).log_likelihood(ROWS, hidden=name).value for name in ("naive", "annealing")]
    assert found[0] == found[1]


def test_unknown_sums():
    with pytest.raises(hm.errors.InvalidOption, match="did you mean 'annealing'"):
        hm.likelihood.exact(small()).log_likelihood(ROWS, hidden="anealing")
