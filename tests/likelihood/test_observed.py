"""The log-likelihood of observed units."""

from __future__ import annotations

import math

import pytest
import torch

import harmonium as hm
from harmonium import units

NAN = torch.nan


def machine(hidden, scale=0.6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rbm = hm.RBM(units.Mixed(units.Bernoulli(4), units.Categories([3])), hidden)
    with torch.no_grad():
        for parameter in rbm.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))
    return rbm


def rows_with_gaps(rbm, n=12, seed=1):
    rows = rbm.sample(n, sweeps=5, seed=seed, check_mixing=False)
    rows[::2, 1] = NAN
    rows[::3, 4:] = NAN
    rows[3, :] = NAN
    return rows


def exact_values(rbm, rows):
    states, log_p = rbm.distribution()
    values = []
    for row in rows:
        seen = ~torch.isnan(row)
        values.append(torch.logsumexp(log_p[(states[:, seen] == row[seen]).all(1)], 0))
    return torch.stack(values).double()


def test_exact_with_a_small_hidden_layer():
    rbm = machine(3)
    rows = rows_with_gaps(rbm)
    found = hm.likelihood.observed(rbm, rows)
    torch.testing.assert_close(found.log_probabilities, exact_values(rbm, rows), rtol=1e-5, atol=1e-5)
    assert found.exact and found.standard_error == 0
    assert abs(found.log_probabilities[3]) < 1e-5  # nothing observed: ln 1
    assert found.log_likelihood == pytest.approx(found.log_probabilities.mean().item())


def test_complete_rows_have_the_log_likelihood_of_the_free_energy():
    rbm = machine(22, scale=0.2)  # more hidden states than are enumerated
    rows = rbm.sample(5, sweeps=5, seed=0, check_mixing=False)
    found = hm.likelihood.observed(rbm, rows, log_partition=3.0)
    torch.testing.assert_close(
        found.log_probabilities, -rbm.free_energy(rows).double().detach() - 3.0, rtol=1e-5, atol=1e-5
    )
    assert found.exact


def test_annealing_with_a_large_hidden_layer():
    rbm = machine(22, scale=0.4)
    rows = rows_with_gaps(rbm)
    log_z = hm.machines.enumeration.log_partition(rbm, 0)  # of the 48 visible states
    found = hm.likelihood.observed(rbm, rows, log_partition=log_z, runs=100, betas=100, seed=0)
    expected = exact_values(rbm, rows)
    assert not found.exact
    assert ((found.log_probabilities - expected).abs() <= 5 * found.standard_errors + 1e-5).all()
    assert found.standard_errors.max() < 0.1
    assert 0 < found.standard_error < 0.1


def test_a_mask_marks_observed_units():
    rbm = machine(3)
    rows = rbm.sample(2, sweeps=5, seed=0, check_mixing=False)
    mask = torch.ones(7, dtype=torch.bool)
    mask[0] = False
    hidden = rows.clone()
    hidden[:, 0] = NAN
    by_mask, by_nan = hm.likelihood.observed(rbm, rows, mask=mask), hm.likelihood.observed(rbm, hidden)
    assert torch.equal(by_mask.log_probabilities, by_nan.log_probabilities)


def test_errors():
    rbm = machine(3)
    with pytest.raises(hm.errors.InvalidData, match="expected binary values"):
        hm.likelihood.observed(rbm, torch.full((1, 7), 2.0))
    with pytest.raises(hm.errors.InvalidOption, match="runs: expected at least one"):
        hm.likelihood.observed(rbm, torch.full((1, 7), math.nan), runs=0)
    deep = hm.DeepBoltzmannMachine([units.Bernoulli(3), units.Bernoulli(2), units.Bernoulli(2)])
    with pytest.raises(hm.errors.InvalidOption, match="expected an RBM"):
        hm.likelihood.observed(deep, torch.zeros(1, 3))
