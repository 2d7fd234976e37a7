"""Rows in proportion to weights: frequencies, learning, resume and errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from training_helpers import generator

import harmonium as hm
from harmonium.errors import InvalidData
from harmonium.training.batches import as_source
from harmonium.training.negative import Batch

WEIGHTS = torch.tensor([0.0, 0.02, 3.0, 0.5, 1.0, 0.0])
ROWS = torch.eye(6)


def _epochs(source: hm.Weighted, epochs: int) -> Iterator[torch.Tensor]:
    """The rows of each epoch, in the order of their indices."""
    n = len(source)
    for epoch in range(1, epochs + 1):
        source.begin(epoch)
        yield source.take(torch.arange(n), torch.empty(n, *source.shape, dtype=torch.float64), generator(0)).clone()


def test_rows_are_used_as_often_as_their_weights_say():
    total = torch.zeros(6, dtype=torch.float64)
    for epoch, rows in enumerate(_epochs(hm.Weighted(ROWS, WEIGHTS), 1000), 1):
        total += rows.sum(0)
        assert ((total - epoch * 6 * WEIGHTS / WEIGHTS.sum()).abs() < 3).all() and total.sum() == 6 * epoch
    assert total[0] == 0 and total[5] == 0


def test_the_gradient_of_many_epochs_is_that_of_the_weighted_likelihood():
    """Batches of all rows: the mean gradient of 200 epochs against automatic differentiation of Σ w ln p / Σ w."""
    n, stream = 50, generator(3)
    rows = (torch.rand(n, 5, generator=stream) < 0.5).double()
    weights = torch.randn(n, generator=stream, dtype=torch.float64).exp()
    rbm = hm.RBM(5, 3).double()
    rbm.initialize(rows, seed=stream, scale=1.0)
    total = torch.zeros_like(rbm.weight)
    phase, state = hm.Exact(), hm.Exact().init(rbm, rows, stream)
    for batch in _epochs(hm.Weighted(rows, weights), 200):
        total += phase.step(rbm, Batch(batch), state, stream)[0].couplings[0].dense()
    log_z = torch.logsumexp(-rbm.free_energy(rbm.visible.enumerate().double()), 0)
    loss = (weights * rbm.free_energy(rows)).sum() / weights.sum() + log_z
    (expected,) = torch.autograd.grad(loss, rbm.weight)
    error, spread = (total / 200 - expected).norm(), 0.5 / (200 * n) ** 0.5 * expected.numel() ** 0.5
    assert error < 0.1 * spread, error / spread  # spread is about the error with independent draws


def _variance(rows: torch.Tensor, batch: int) -> float:
    """Variance of the mean of a batch of random rows."""
    stream = generator(4)
    order = torch.cat([torch.randperm(len(rows), generator=stream) for _ in range(20)])
    means = rows[order].view(-1, batch, rows.shape[1]).mean(1)
    return float(means.var(0).sum())


def test_batches_have_less_noise_than_with_weights_in_the_gradient():
    """The factor is n Σw²/(Σw)², about 28 for these weights; the statistics have mean zero under the model."""
    n, stream = 2000, generator(5)
    rows, weights = torch.randn(n, 10, generator=stream).double(), (2 * torch.randn(n, generator=stream)).exp().double()
    weights /= weights.mean()
    rows -= (weights[:, None] * rows).mean(0)
    (used,) = _epochs(hm.Weighted(rows, weights), 1)
    assert _variance(used, 100) < 0.1 * _variance(weights[:, None] * rows, 100)
    (used,) = _epochs(hm.Weighted(rows, torch.ones(n)), 1)
    assert torch.equal(used, rows)


@pytest.mark.slow
def test_whole_weights_reach_the_optimum_of_repeated_rows():
    stream = generator(6)
    rows = (torch.rand(40, 5, generator=stream) < 0.4).double()
    weights = torch.randint(1, 9, (40,), generator=stream)
    repeated = rows.repeat_interleave(weights, 0)
    found = []
    for data in (repeated, hm.Weighted(rows, weights)):
        rbm = hm.RBM(5, 3).double()
        hm.fit(rbm, data, epochs=2000, batch_size=40, seed=0, progress=False)
        found.append(rbm.log_probability(repeated).mean().item())
    assert abs(found[0] - found[1]) < 0.005, found


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
