"""Connected moments: exact values of small machines, the floor, and the choice of tuples."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import torch
from quality_helpers import draws, generator, machine, shuffled
from torch import Tensor

import harmonium as hm
from harmonium.errors import InvalidOption
from harmonium.quality import correlations

UNITS = {
    "binary": lambda: hm.units.Bernoulli(8),
    "spins": lambda: hm.units.Spin(8),
    "one-hot": lambda: hm.units.Potts((4, 3)),
}


def exact_moments(rbm: hm.RBM, tuples: Tensor) -> Tensor:
    """Σ_v p(v) Π (v_i - ⟨v_i⟩), or ⟨v_i⟩ for one index."""
    states, log_p = rbm.distribution()
    p, v = log_p.exp(), states.flatten(1)
    if tuples.shape[1] == 1:
        return (p @ v)[tuples[:, 0]]
    return p @ (v - p @ v)[:, tuples].prod(2)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("unit", UNITS)
def test_exact_draws_of_a_machine_match_its_moments(unit, order):
    rbm = machine(UNITS[unit]())
    n = 4000
    found = correlations(draws(rbm, n, 1), draws(rbm, n, 2), order)
    exact = exact_moments(rbm, found.tuples)
    for values in (found.data, found.samples):
        off = (values - exact).square().mean().sqrt().item()
        assert off < (found.floor.value + 4 * found.floor.standard_error) / 2**0.5  # noise in one set instead of two
    assert not found.meaningful
    assert found.pearson.value == pytest.approx(found.ideal_pearson, abs=5 * found.pearson.standard_error)
    assert found.slope.value == pytest.approx(found.ideal_slope, abs=5 * found.slope.standard_error)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_values_are_the_plain_estimators(order):
    """Unbiased estimates of the cumulants (k-statistics), by a loop over tuples."""
    data = torch.rand(101, 5, generator=generator(0), dtype=torch.float64)
    samples = torch.rand(83, 5, generator=generator(1), dtype=torch.float64).square()
    found = correlations(samples, data, order, seed=0)
    assert found.tuples.tolist() == [list(c) for c in itertools.combinations(range(5), order)]
    for x, values in ((data, found.data), (samples, found.samples)):
        n, z = len(x), x - x.mean(0)
        factor = {1: 1, 2: n / (n - 1), 3: n * n / ((n - 1) * (n - 2))}[order]
        z = x if order == 1 else z
        expected = [factor * z[:, list(c)].prod(1).mean().item() for c in found.tuples.tolist()]
        assert np.allclose(values, expected, atol=2e-6)
    assert found.difference.value == pytest.approx((found.data - found.samples).square().mean().sqrt().item())
    r = np.corrcoef(found.data, found.samples)[0, 1]
    assert found.pearson.value == pytest.approx(r)
    assert found.slope.value == pytest.approx(np.polyfit(found.data, found.samples, 1)[0])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.fast_cases(1)
def test_the_floor_is_what_independent_sets_differ_by(order):
    """Over many pairs of sets of unequal sizes, the difference has the mean and the spread of the floor."""
    rbm = machine(hm.units.Bernoulli(8), seed=3)
    pool = draws(rbm, 40 * 800, 0).split(800)
    found = [correlations(part[:200], part[200:], order, seed=k) for k, part in enumerate(pool)]
    difference = torch.tensor([one.difference.value for one in found])
    floor = torch.tensor([one.floor.value for one in found])
    assert abs(difference.mean() / floor.mean() - 1) < 4 * difference.std() / 40**0.5 / floor.mean()
    spreads = torch.tensor([one.floor.standard_error for one in found])
    assert 0.6 < spreads.mean() / difference.std() < 1.6
    assert sum(one.meaningful for one in found) <= 1


@pytest.mark.slow
def test_the_floor_knows_that_each_set_has_its_own_mean():
    """For three strongly correlated normal numbers the variance is 6 (that of s³ - 3s), not 15 (that of s³)."""
    pool = torch.randn(200 * 400, 1, generator=generator(0)) + 0.01 * torch.randn(200 * 400, 3, generator=generator(1))
    found = [correlations(part[:200], part[200:], 3, seed=0) for part in pool.split(400)]
    difference = torch.tensor([one.difference.value for one in found])
    floor = torch.tensor([one.floor.value for one in found])
    assert floor.square().mean().sqrt() == pytest.approx(difference.square().mean().sqrt().item(), rel=0.2)
    assert floor.square().mean().sqrt() == pytest.approx((6 * 2 / 200) ** 0.5, rel=0.2)


@pytest.mark.slow
def test_the_jackknife_error_is_right():
    rbm = machine(hm.units.Bernoulli(8), seed=3)
    pool = draws(rbm, 40 * 800, 1).split(800)
    found = [correlations(part[:400], part[400:], 2) for part in pool]
    for name in ("pearson", "slope"):
        values = torch.tensor([getattr(one, name).value for one in found])
        errors = torch.tensor([getattr(one, name).standard_error for one in found])
        assert 0.6 < errors.mean() / values.std() < 1.6


@pytest.mark.parametrize("unit", UNITS)
def test_shuffled_columns_keep_means_and_lose_correlations(unit):
    rbm = machine(UNITS[unit]())
    data, samples = draws(rbm, 3000, 1), shuffled(draws(rbm, 3000, 2), 3)
    assert not correlations(samples, data, 1).meaningful
    pairs = correlations(samples, data, 2)
    assert pairs.meaningful and pairs.ratio > 2 and abs(pairs.slope.value) < 0.1
    assert pairs.excess == pytest.approx(exact_moments(rbm, pairs.tuples).square().mean().sqrt().item(), rel=0.1)


def test_shifted_means_are_flagged():
    p = torch.rand(4000, 10, generator=generator(0))
    found = correlations((p[:2000] < 0.5).float(), (p[2000:] < 0.4).float(), 1)
    assert found.meaningful and found.excess == pytest.approx(0.1, abs=0.01)


def test_entries_of_one_one_hot_site_are_left_out():
    data = torch.eye(3)[torch.randint(3, (100, 4), generator=generator(0))]
    pairs = correlations(data, data, 2).tuples
    assert len(pairs) == 6 * 9 and bool((pairs[:, 0] // 3 != pairs[:, 1] // 3).all())
    assert len(correlations(data.flatten(1), data.flatten(1), 2).tuples) == 66
    some = correlations(data, data, 3, most=50).tuples
    assert bool((some // 3).diff(dim=1).all()) and len(some.unique(dim=0)) == 50


@pytest.mark.parametrize("order", [2, 3])
def test_chosen_tuples_have_the_values_of_all_of_them(order):
    samples, data = (torch.rand(200, 9, generator=generator(k)) for k in (0, 1))
    every = correlations(samples, data, order, seed=0)
    some = correlations(samples, data, order, most=20, seed=4)
    again = correlations(samples, data, order, most=20, seed=4)
    assert torch.equal(some.tuples, again.tuples) and len(some.tuples) == 20
    assert not torch.equal(some.tuples, correlations(samples, data, order, most=20, seed=5).tuples)
    where = {tuple(c): k for k, c in enumerate(every.tuples.tolist())}
    chosen = [where[tuple(c)] for c in some.tuples.tolist()]
    assert torch.allclose(some.data, every.data[chosen], atol=1e-6)
    given = correlations(samples, data, order, tuples=some.tuples.flip(1))
    assert torch.allclose(given.samples, every.samples[chosen], atol=1e-6)


def test_wide_rows_need_no_matrix(monkeypatch):
    module = sys.modules["harmonium.quality.pair_correlations"]
    samples, data = (torch.rand(150, 12, generator=generator(k)) for k in (0, 1))
    by_matrix = [correlations(samples, data, order, seed=0) for order in (2, 3)]
    monkeypatch.setattr(module, "_MATRIX", 4)
    monkeypatch.setattr(module, "_CHUNK", 1000)
    for before, order in zip(by_matrix, (2, 3), strict=True):
        found = correlations(samples, data, order, seed=0)
        assert torch.allclose(found.samples, before.samples, atol=1e-6)
        assert found.floor.value == pytest.approx(before.floor.value, rel=1e-4)


def test_a_large_offset_costs_no_precision():
    x = torch.randn(400, 4, generator=generator(0), dtype=torch.float64)
    plain = correlations(x[:200], x[200:], 2)
    moved = correlations(x[:200] + 1e6, x[200:] + 1e6, 2)
    assert torch.allclose(plain.data, moved.data, atol=1e-5)


def test_constant_data():
    zeros = torch.zeros(60, 3)
    found = correlations(zeros, zeros, 2)
    assert found.difference.value == 0 and not found.meaningful and np.isnan(found.pearson.value)
    assert correlations(torch.rand(60, 3, generator=generator(0)), zeros, 1).meaningful


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 4}, "order: expected 1, 2 or 3, found 4"),
        ({"order": 3}, "expected rows of at least 3 sites, found 2"),
        ({"most": 0}, "most: expected at least 1"),
        ({"tuples": [[0, 5]]}, "expected indices from 0 to 1"),
        ({"tuples": [[0, -1]]}, "expected indices from 0 to 1"),
        ({"tuples": [0, 1]}, r"expected whole numbers of shape \(t, 2\)"),
        ({"tuples": [[0.5, 1.0]]}, "expected whole numbers"),
        ({"tuples": [[0, 1], [0]]}, "expected whole numbers"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        correlations(torch.zeros(50, 2), torch.zeros(50, 2), **options)
