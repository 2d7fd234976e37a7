"""Both ways to draw counts, word by word and by binomials, against the multinomial distribution."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chi2, multinomial

from harmonium.units import Multinomial
from harmonium.units.multinomial import _by_binomials, _by_word

WAYS = [_by_word, _by_binomials]
P = torch.tensor([[0.5, 0.3, 0.2], [0.05, 0.0, 0.95]], dtype=torch.float64)
TOTALS = torch.tensor([[3.0], [4.0]], dtype=torch.float64)


@pytest.mark.parametrize("way", WAYS)
def test_counts_have_the_multinomial_distribution(way):
    n = 20_000
    generator = torch.Generator().manual_seed(0)
    x = way(P.repeat(n, 1), TOTALS.repeat(n, 1), generator).view(n, 2, 3)
    assert (x.sum(-1) == TOTALS.T).all()
    assert (x[:, 1, 1] == 0).all()  # a word of probability zero
    for row, p, total in zip(x.transpose(0, 1), P, TOTALS, strict=True):
        states = Multinomial(3, total=int(total)).support.states()
        expected = n * multinomial.pmf(states.numpy(), int(total), p.numpy())
        seen = (row[:, None] == states[None]).all(-1).sum(0).numpy()
        likely = expected > 0
        statistic = ((seen - expected)[likely] ** 2 / expected[likely]).sum()
        assert statistic < chi2.ppf(0.9999, likely.sum() - 1) and seen.sum() == n


def test_rows_of_different_lengths_are_not_mixed():
    p = torch.eye(4)
    x = _by_word(p, torch.tensor([[5.0], [0.0], [1.0], [300.0]]), torch.Generator().manual_seed(0))
    assert x.tolist() == [[5, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 300]]


@pytest.mark.parametrize("total", [4, 10**6])
def test_the_unit_uses_either_way_in_its_own_dtype(total):
    unit = Multinomial(5, total=total)
    x = unit.sample(torch.zeros(10, 5), generator=torch.Generator().manual_seed(0))
    assert x.dtype == torch.float32 and (x.sum(1) == total).all()
