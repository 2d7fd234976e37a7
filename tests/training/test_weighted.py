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
    options = {"epochs": 5, "batch_size": 10, "progress": False}
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
