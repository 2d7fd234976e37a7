"""The log-likelihood of observed units."""

from __future__ import annotations

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


def known(machine, value):
    return hm.likelihood.LogPartition(
        machine=machine, value=value, standard_error=0.0, interval=(value, value), method="known"
    )


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
    found = hm.likelihood.exact(rbm, rows, mask=~rows.isnan())
    torch.testing.assert_close(found.per_row, exact_values(rbm, rows), rtol=1e-5, atol=1e-5)
    assert found.interval == (found.value, found.value) and found.baseline is None
    assert abs(found.per_row[3]) < 1e-5  # nothing observed: ln 1
    assert found.value == pytest.approx(found.per_row.mean().item())


def test_complete_rows_have_the_log_likelihood_of_the_free_energy():
    rbm = machine(22, scale=0.2)  # more hidden states than are enumerated
    rows = rbm.sample(5, sweeps=5, seed=0, check_mixing=False)
    found = known(rbm, 3.0).log_likelihood(rows, mask=torch.ones(rows.shape, dtype=torch.bool))
    torch.testing.assert_close(found.per_row, -rbm.free_energy(rows).double().detach() - 3.0, rtol=1e-5, atol=1e-5)
    assert not found.details["row_errors"].any()
    assert found.baseline == pytest.approx(known(rbm, 3.0).log_likelihood(rows).baseline)


def test_annealing_with_a_large_hidden_layer():
    rbm = machine(22, scale=0.4)
    rows = rows_with_gaps(rbm)
    log_z = hm.machines.enumeration.log_partition(rbm, 0)  # of the 48 visible states
    found = known(rbm, log_z).log_likelihood(rows, mask=~rows.isnan(), runs=100, betas=100, seed=0)
    expected, errors = exact_values(rbm, rows), found.details["row_errors"]
    assert ((found.per_row - expected).abs() <= 5 * errors + 1e-5).all()
    assert 0 < errors.max() < 0.1
    assert found.interval[0] < expected.mean() < found.interval[1] < found.interval[0] + 0.1


def test_a_mask_marks_observed_units():
    rbm = machine(3)
    rows = rbm.sample(2, sweeps=5, seed=0, check_mixing=False)
    mask = torch.ones(7, dtype=torch.bool)
    mask[0] = False
    hidden = rows.clone()
    hidden[:, 0] = NAN
    values = [hm.likelihood.exact(rbm, x, mask=mask).per_row for x in (rows, hidden)]
    assert torch.equal(*values)


def test_errors():
    rbm = machine(3)
    with pytest.raises(hm.errors.InvalidData, match="expected binary values"):
        hm.likelihood.exact(rbm, torch.full((1, 7), 2.0), mask=torch.ones(7, dtype=torch.bool))
    with pytest.raises(hm.errors.InvalidOption, match="runs: expected at least one"):
        known(rbm, 0.0).log_likelihood(torch.zeros(1, 7), mask=torch.zeros(7, dtype=torch.bool), runs=0)
    network = hm.DeepBeliefNetwork.of([3, 2, 2])
    with pytest.raises(hm.errors.InvalidOption, match="expected a Boltzmann machine"):
        hm.likelihood.exact(network, torch.zeros(1, 3), mask=torch.zeros(3, dtype=torch.bool))
