"""Tuples of units: all, random, checked."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

import harmonium as hm
from harmonium.interactions import all_tuples, random_tuples


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_all_tuples_in_dictionary_order(n):
    for order in range(1, n + 1):
        assert [tuple(row) for row in all_tuples(n, order).tolist()] == list(combinations(range(n), order))


def test_random_tuples_are_different_increasing_and_repeatable():
    rows = random_tuples(50, 4, 3000, seed=3)
    assert rows.shape == (3000, 4)
    assert bool((rows[:, 1:] > rows[:, :-1]).all()) and len(rows.unique(dim=0)) == 3000
    assert torch.equal(rows, random_tuples(50, 4, 3000, seed=3))
    assert not torch.equal(rows, random_tuples(50, 4, 3000, seed=4))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("count", [2, 8])  # by rejection sampling, and from the list of all tuples
def test_random_tuples_are_equally_likely(count):
    counts = torch.zeros(6, 6)
    for seed in range(1500):
        rows = random_tuples(6, 2, count, seed=seed)
        counts[rows[:, 0], rows[:, 1]] += 1
    found = counts[tuple(all_tuples(6, 2).T)]
    expected = 1500 * count / 15
    assert found.sum() == 1500 * count
    assert bool(((found - expected).abs() < 5 * expected**0.5).all())


def test_as_many_as_there_are():
    assert torch.equal(random_tuples(5, 2, 1000), all_tuples(5, 2))


def test_refusals():
    with pytest.raises(hm.errors.NotEnumerable, match="too many to list"):
        all_tuples(784, 4)
    with pytest.raises(hm.errors.InvalidOption, match="expected 1 to 3"):
        all_tuples(3, 4)
    with pytest.raises(hm.errors.InvalidOption, match="at least one tuple"):
        random_tuples(3, 2, 0)
