"""Sums over missing visible units, compared with enumeration and quadrature of all visible states."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import units
from harmonium.machines import partial
from harmonium.machines.partial import PartialRows

F64 = torch.float64
NAN = torch.nan


def machine(visible, hidden, seed=0, scale=0.7):
    generator = torch.Generator().manual_seed(seed)
    rbm = hm.RBM(visible, hidden).double()
    with torch.no_grad():
        for parameter in rbm.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator, dtype=F64))
    return rbm


def discrete():
    return units.Mixed(units.Bernoulli(2), units.Categories([3, 2]), units.Binomial(1, trials=3))


def some_rows(rbm, seed=1):
    """Four rows with different missing units: a scalar, a category, several, all."""
    rows = rbm.sample(5, sweeps=3, seed=seed, check_mixing=False)
    rows[0, 1] = NAN
    rows[1, 2:5] = NAN
    rows[2, [0, 5, 6, 7]] = NAN
    rows[3] = NAN
    return rows


def matching(states, row):
    seen = ~torch.isnan(row)
    return (states[:, seen] == row[seen]).all(1)


@pytest.mark.parametrize("hidden", [units.Bernoulli(3), units.Potts((2, 3)), units.Spin(2)], ids=lambda u: u.name())
def test_marginals_equal_enumeration(hidden):
    rbm = machine(discrete(), hidden)
    rows = some_rows(rbm)
    states, log_p = rbm.distribution()
    found = partial.log_marginal(rbm, PartialRows.of(rows, rbm.visible)) - rbm.log_partition()
    expected = torch.stack([torch.logsumexp(log_p[matching(states, row)], 0) for row in rows])
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_conditional_moments_equal_enumeration():
    rbm = machine(discrete(), units.Bernoulli(3))
    rows = some_rows(rbm)
    states, log_p = rbm.distribution()
    found = partial.moments(rbm, PartialRows.of(rows, rbm.visible))
    for k, row in enumerate(rows):
        at = matching(states, row)
        p, x = torch.softmax(log_p[at], 0), states[at]
        mean = p @ x
        torch.testing.assert_close(found.visible[k], mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.variance[k], p @ (x - mean).square(), rtol=1e-7, atol=1e-7)
        torch.testing.assert_close(found.hidden[k], p @ rbm.hidden_mean(x), rtol=1e-9, atol=1e-9)


def test_conditional_draws_follow_the_conditional_distribution():
    rbm = machine(discrete(), units.Bernoulli(3))
    rows = PartialRows.of(some_rows(rbm), rbm.visible)
    n = 4000
    drawn = partial.draws(rbm, rows, n, torch.Generator().manual_seed(0))
    rbm.visible.check(drawn.flatten(0, 1))
    moments = partial.moments(rbm, rows)
    error = (drawn.mean(1) - moments.visible).abs()
    assert (error <= 5 * (moments.variance / n).sqrt() + 1e-12).all()


def test_gaussian_units_are_integrated_out():
    rbm = machine(units.Mixed(units.Gaussian(1), units.Bernoulli(2)), units.Bernoulli(3))
    grid = torch.linspace(-40, 40, 40001, dtype=F64)
    full = torch.stack([grid, torch.ones_like(grid), torch.zeros_like(grid)], 1)
    expected = torch.logsumexp(-rbm.free_energy(full), 0) + (grid[1] - grid[0]).log()
    row = torch.tensor([[NAN, 1.0, 0.0]], dtype=F64)
    rows = PartialRows.of(row, rbm.visible)
    torch.testing.assert_close(partial.log_marginal(rbm, rows)[0], expected, rtol=1e-9, atol=1e-9)
    p = torch.softmax(-rbm.free_energy(full), 0)
    found = partial.moments(rbm, rows)
    torch.testing.assert_close(found.visible[0, 0], p @ grid, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(found.variance[0, 0], p @ (grid - p @ grid).square(), rtol=1e-7, atol=1e-7)


def test_large_hidden_layers_are_rejected():
    rbm = hm.RBM(4, 30)
    with pytest.raises(hm.errors.NotEnumerable, match=r"at most 2\^20 states"):
        partial.log_marginal(rbm, PartialRows.of(torch.zeros(1, 4), rbm.visible))


def test_torn_units_are_rejected():
    rbm = hm.RBM(units.Categories([3, 2]), 2)
    with pytest.raises(hm.errors.InvalidOption, match="all components of a unit or none"):
        PartialRows.of(torch.tensor([[1.0, 0.0, NAN, 1.0, 0.0]]), rbm.visible)
