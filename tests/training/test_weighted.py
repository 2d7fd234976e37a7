"""Rows in proportion to weights: frequencies, learning, resume and errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from training_helpers import generator

import harmonium as hm
from harmonium.errors import InvalidData
from harmonium.training.batches import as_source

WEIGHTS = torch.tensor([0.0, 0.02, 3.0, 0.5, 1.0, 0.0])
ROWS = torch.eye(6)


def _taken(source: hm.Weighted, epochs: int) -> torch.Tensor:
    """The number of times each row is used in an epoch: (epochs, rows)."""
    stream = generator(1)
    out = torch.empty(6, 6)
    return torch.stack([source.take(torch.randperm(6, generator=stream), out, stream).sum(0) for _ in range(epochs)])


@pytest.mark.slow
def test_rows_come_up_as_often_as_their_weights_say():
    taken = _taken(hm.Weighted(ROWS, WEIGHTS), 20_000)
    expected = 6 * WEIGHTS / WEIGHTS.sum()
    error = taken.std(0) / 20_000**0.5
    assert ((taken.mean(0) - expected).abs() <= 4 * error).all()  # a row with weight 0 is never used
    assert (taken.sum(1) == 6).all()
    # strata, not independent draws: a row with weight 3.98 of 6 is used 3 to 5 times, never 0 or 6
    assert taken[:, 2].min() >= 3 and taken[:, 2].max() <= 5


def test_equal_weights_are_the_rows_themselves():
    source = hm.Weighted(ROWS, np.full(6, 0.3))
    assert torch.equal(source.take(torch.arange(6), torch.empty(6, 6)), ROWS)
    assert torch.equal(source.take(torch.arange(6), torch.empty(6, 6), generator(0)), ROWS)


@pytest.mark.slow
def test_the_machine_learns_the_weighted_distribution():
    rows = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).repeat(25, 1)
    weights = torch.tensor([4.0, 1.0, 1.0, 2.0]).repeat(25)
    rbm = hm.RBM(hm.units.Bernoulli(2), hm.units.Bernoulli(3)).double()
    options = {"negative": hm.Exact(), "batch_size": 100, "progress": False}
    hm.fit(rbm, hm.Weighted(rows, weights), epochs=3000, optimizer=lambda p: torch.optim.Adam(p, lr=0.01), **options)
    expected = torch.tensor([4.0, 1.0, 1.0, 2.0], dtype=torch.float64) / 8
    torch.testing.assert_close(rbm.log_probability(rows[:4].double()).exp(), expected, atol=0.02, rtol=0)


def _incomplete(n: int = 400) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of two equal units, a third of whose entries are missing, and weights that double the rows of ones."""
    rows = (torch.rand(n, 1, generator=generator(0)) < 0.5).double().repeat(1, 2)
    weights = 1 + rows[:, 0]
    lost = torch.rand(n, 2, generator=generator(1)) < 1 / 3
    lost &= ~lost.all(1, keepdim=True)
    return rows, weights, rows.masked_fill(lost, torch.nan)


@pytest.mark.slow
def test_rows_with_missing_values_may_be_weighted():
    """The machine learns that the units are equal, and 1 with a probability above 1/2, although entries are missing."""
    _, weights, seen = _incomplete()
    rbm = hm.RBM(2, 2).double()
    hm.fit(rbm, hm.Weighted(hm.Incomplete(seen, sweeps=3), weights), epochs=300, seed=0, progress=False)
    states = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    p = rbm.log_probability(states).exp().detach()
    expected = weights[seen.nansum(1) > 0].sum() / weights.sum()
    assert p[1] + p[2] < 0.06 and abs(p[3] - expected) < 0.06, p


def test_completed_values_belong_to_the_rows_that_were_taken():
    rows, weights, seen = _incomplete(60)
    source = hm.Weighted(hm.Incomplete(seen), weights)
    index = torch.arange(60)
    taken = source.take(index, torch.empty(60, 2, dtype=torch.float64), generator(2))
    missing = source.missing(index)
    assert missing is not None and torch.equal(taken[~missing].bool(), rows[source._taken[1]][~missing].bool())
    source.keep(index, torch.where(missing, 1 - taken, taken))
    again = source.take(index, torch.empty(60, 2, dtype=torch.float64), generator(2))
    assert torch.equal(again[missing], 1 - taken[missing]) and torch.equal(again[~missing], taken[~missing])


def test_gray_values_may_be_weighted_too():
    source = hm.Weighted(hm.Redrawn(torch.tensor([[0.0, 0.0], [1.0, 0.5]])), [0.0, 1.0])
    drawn = source.take(torch.arange(2).repeat(500), torch.empty(1000, 2), generator(0))
    assert (drawn[:, 0] == 1).all() and abs(drawn[:, 1].mean() - 0.5) < 4 * 0.5 / 1000**0.5


def test_resumed_to_the_bit(tmp_path):
    data = hm.Weighted(torch.randint(0, 2, (60, 6), generator=generator(0)), torch.rand(60, generator=generator(1)))

    def new() -> hm.RBM:
        return hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(4))

    class Stop(hm.Callback):
        def on_epoch(self, progress) -> None:
            progress.stop = progress.epoch == 2

    whole, parts = new(), new()
    options = {"epochs": 5, "batch_size": 10, "progress": False, "seed": 0}
    hm.fit(whole, data, **options)
    hm.fit(new(), data, run=tmp_path / "run", callbacks=[Stop()], **options)
    hm.fit(parts, data, run=tmp_path / "run", resume=True, **options)
    assert torch.equal(whole.coupling.weight, parts.coupling.weight)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (torch.ones(5), r"expected shape \(6,\), one weight per row, found \(5,\)"),
        (torch.zeros(6), "with a positive sum"),
        (-torch.ones(6), "non-negative"),
        ([1, 1, 1, 1, 1, float("nan")], "finite"),
        ([1, 1, 1, 1, 1, float("inf")], "finite"),
    ],
)
def test_refused_weights(weights, words):
    with pytest.raises(InvalidData, match=words):
        hm.Weighted(ROWS, weights)


def test_no_rows():
    with pytest.raises(InvalidData, match="positive sum"):
        hm.Weighted(torch.ones(0, 6), torch.ones(0))


def test_rows_of_little_weight_are_checked_too():
    rows = ROWS.clone()
    rows[1] = 7.0
    machine = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(2))
    with pytest.raises(InvalidData, match="7"):
        as_source(hm.Weighted(rows, WEIGHTS), machine)
