"""Entropies compared with exact enumeration, and equal rows."""

from __future__ import annotations

import math

import pytest
import torch
from quality_helpers import draws, generator, machine

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption, NotEnumerable
from harmonium.quality import entropy, novelty, site_entropy, state_entropy

UNITS = {
    "binary": lambda: hm.units.Bernoulli(8),
    "spins": lambda: hm.units.Spin(8),
    "one-hot": lambda: hm.units.Potts((4, 3)),
    "counts": lambda: hm.units.Binomial(4, trials=3),
}


def by_sum(rbm: hm.RBM) -> float:
    _, log_p = rbm.distribution()
    return -math.fsum(math.exp(x) * x for x in log_p.tolist())


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("unit", UNITS)
def test_exact_and_from_samples(unit):
    rbm = machine(UNITS[unit]())
    exact = by_sum(rbm)
    assert entropy(rbm).value == pytest.approx(exact, abs=1e-12) and entropy(rbm).standard_error == 0
    estimates = [entropy(rbm, rbm.log_partition(), draws(rbm, 1000, seed)) for seed in range(30)]
    values = torch.tensor([estimate.value for estimate in estimates])
    errors = torch.tensor([estimate.standard_error for estimate in estimates])
    assert abs(values.mean() - exact) < 3 * values.std() / 30**0.5
    assert 0.6 < errors.mean() / values.std() < 1.6


def test_the_log_partition_is_enumerated_where_it_is_not_given():
    rbm = machine(hm.units.Bernoulli(5))
    v = draws(rbm, 100, 0)
    assert entropy(rbm, samples=v) == entropy(rbm, rbm.log_partition(), v)
    wrong = entropy(rbm, rbm.log_partition() + 1, v, log_partition_error=3.0)
    assert wrong.value == pytest.approx(entropy(rbm, samples=v).value + 1)
    assert wrong.standard_error == pytest.approx(math.hypot(3, entropy(rbm, samples=v).standard_error))


def test_gaussian_units_have_a_differential_entropy():
    rbm = hm.RBM(hm.units.Gaussian(3), hm.units.Bernoulli(2)).double()  # uncoupled: standard normal
    v = torch.randn(20_000, 3, generator=generator(0), dtype=torch.float64)
    found = entropy(rbm, samples=v)
    assert abs(found.value - 1.5 * math.log(2 * math.pi * math.e)) < 4 * found.standard_error < 0.05


@pytest.mark.parametrize("unit", UNITS)
def test_states_that_can_be_counted(unit):
    rbm = machine(UNITS[unit]())
    found = state_entropy(draws(rbm, 20_000, 0))
    assert found.trustworthy
    assert abs(found.value - by_sum(rbm)) < 4 * found.standard_error < 0.1


@pytest.mark.slow
def test_miller_and_madow_take_the_bias_away():
    rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(1)).double()  # 16 equal states
    values = torch.tensor([state_entropy(draws(rbm, 200, seed)).value for seed in range(100)])
    error = float(values.std()) / 10
    assert abs(float(values.mean()) - math.log(16)) < 4 * error
    assert 4 * error < 15 / 400 / 2  # the error is smaller than the correction, so the test detects it
    x = torch.rand(100, 50, 40, generator=generator(0)).round()
    values = torch.tensor([site_entropy(rows).value for rows in x])
    error = float(values.std()) / 10
    assert abs(float(values.mean()) - 40 * math.log(2)) < 4 * error
    assert 4 * error < 40 / 100 / 2


def test_too_few_rows_are_not_trusted():
    x = torch.rand(100, 30, generator=generator(0)).round()
    found = state_entropy(x)
    assert not found.trustworthy and found.coverage == 0 and found.states == 100


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_independent_sites_bound_the_entropy(unit):
    rbm = machine(UNITS[unit]())
    states, log_p = rbm.distribution()
    p = log_p.exp()
    expected = 0.0
    per_site = states.reshape(len(states), rbm.visible.sites, -1)
    for site in range(rbm.visible.sites):
        for value in per_site[:, site].unique(dim=0):
            q = float(p[(per_site[:, site] == value).all(1)].sum())
            expected -= q * math.log(q)
    found = [site_entropy(draws(rbm, 2000, seed)) for seed in range(30)]
    values = torch.tensor([one.value for one in found])
    assert abs(values.mean() - expected) < 4 * values.std() / 30**0.5
    assert 0.6 < sum(one.standard_error for one in found) / 30 / values.std() < 1.6
    assert expected >= by_sum(rbm)


def test_what_has_no_entropy_is_refused():
    rbm = machine(hm.units.Bernoulli(3))
    with pytest.raises(InvalidData, match="at most 256 discrete values"):
        site_entropy(torch.rand(500, 2, generator=generator(0)))
    with pytest.raises(InvalidOption, match="expected samples of the machine"):
        entropy(rbm, 1.0)
    with pytest.raises(InvalidOption, match="finite"):
        entropy(rbm, math.nan, torch.zeros(5, 3))
    with pytest.raises(InvalidData, match="samples: expected binary values"):
        entropy(rbm, 1.0, torch.full((5, 3), 0.5))
    with pytest.raises(InvalidData, match="expected shape"):
        entropy(rbm, 1.0, torch.zeros(5, 4))
    with pytest.raises(NotEnumerable):
        entropy(hm.RBM(hm.units.Gaussian(3), hm.units.Bernoulli(2)))
    deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(2), hm.units.Bernoulli(2), hm.units.Bernoulli(2)])
    with pytest.raises(InvalidOption, match="expected an RBM"):
        entropy(deep)


def test_novelty_of_new_rows_copies_and_repeats():
    train, data, samples = (torch.rand(200, 6, generator=generator(k)) for k in range(3))
    fresh = novelty(samples, data, train=train)
    assert (fresh.distinct.value, fresh.copied.value) == (1, 0) and not fresh.copying and not fresh.repetitive
    mixed = torch.cat([samples[:150], train[:50]])
    copies = novelty(mixed, data, train=train)
    assert copies.copied.value == 0.25 and copies.copied_data.value == 0 and copies.copying and not copies.repetitive
    repeats = novelty(samples[:100].repeat(2, 1), data, train=train)
    assert repeats.distinct.value == 0.5 and repeats.distinct_data.value == 1 and repeats.repetitive


def test_rows_that_data_share_are_not_held_against_samples():
    rbm = machine(hm.units.Bernoulli(6))
    found = novelty(draws(rbm, 1000, 0), draws(rbm, 2000, 1))
    assert found.copied.value > 0.9 and not found.copying and not found.repetitive


def test_the_same_rows_in_other_types():
    data = torch.rand(100, 4, generator=generator(0), dtype=torch.float64)
    assert novelty(data.float(), data, train=data).copied.value == 1
    zeros = torch.zeros(50, 2)
    assert novelty(-zeros, zeros, train=zeros).copied.value == 1
