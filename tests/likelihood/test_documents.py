"""Perplexity of documents: against enumeration of all counts, and the annealing against the exact sum."""

from __future__ import annotations

import math

import pytest
import torch

import harmonium as hm
from harmonium.units.multinomial import log_multinomial

WORDS = 6
ROWS = torch.tensor([[1, 0, 2, 0, 0, 0], [0, 0, 1, 1, 1, 1], [3, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]])


def machine(hidden: hm.units.Unit | int = 3, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> hm.RBM:
    hidden = hm.units.Bernoulli(hidden) if isinstance(hidden, int) else hidden
    rbm = hm.RBM(hm.units.Multinomial(WORDS), hidden).to(dtype)
    rbm.initialize(scale=scale, seed=0)
    generator = torch.Generator().manual_seed(1)
    for unit in rbm.layers:
        unit.shift_bias(torch.randn(unit.shape, generator=generator, dtype=dtype))
    return rbm


def of_length(rbm: hm.RBM, total: int) -> hm.RBM:
    """The machine of documents of one length, whose states can be enumerated."""
    fixed = hm.RBM(hm.units.Multinomial(WORDS, total=total), rbm.hidden, rbm.coupling)
    fixed.visible.load_state_dict(rbm.visible.state_dict())
    return fixed


@pytest.mark.parametrize("hidden", [hm.units.Bernoulli(3), hm.units.Spin(2), hm.units.Potts((2, 3))])
def test_every_length_agrees_with_enumeration_of_all_counts(hidden):
    rbm = machine(hidden)
    found = hm.likelihood.exact(rbm, ROWS)
    assert found.interval == (found.value, found.value) and found.trustworthy
    for row, value in zip(ROWS, found.per_row, strict=True):
        states, log_p = of_length(rbm, int(row.sum())).distribution()
        at = (states == row).all(1).nonzero().item()
        assert value.item() == pytest.approx((log_p[at] - log_multinomial(row.double())).item(), abs=1e-9)


def test_perplexity_per_word():
    found = hm.likelihood.exact(machine(), ROWS)
    log_p, lengths = found.per_row, ROWS.sum(1)
    assert found.perplexity(lengths).value == pytest.approx(math.exp(-log_p.sum() / lengths.sum()))


def test_the_baseline_is_that_of_independent_words():
    frequencies = (ROWS.sum(0) + 1) / (ROWS.sum() + WORDS)  # with one count of each word added
    expected = (ROWS * frequencies.log()).sum(1).mean().item()
    assert hm.likelihood.exact(machine(), ROWS).baseline == pytest.approx(expected)


def test_the_standard_error_is_that_of_resampled_documents():
    rbm, generator = machine(), torch.Generator().manual_seed(0)
    rows = torch.cat([ROWS * k for k in (1, 2, 3, 5)]).double()[torch.randint(16, (400,), generator=generator)]
    found, lengths = hm.likelihood.exact(rbm, rows), rows.sum(1)
    index = torch.randint(len(rows), (500, len(rows)), generator=generator)
    resampled = (-(found.per_row[index].sum(1) / lengths[index].sum(1))).exp()
    assert found.perplexity(lengths).standard_error == pytest.approx(resampled.std().item(), rel=0.15)


def test_a_hidden_bias_proportional_to_the_length_is_part_of_the_weights():
    """Adding a to all weights of a unit adds a·D to its field, the bias of Salakhutdinov & Hinton (2009)."""
    rbm, shift = machine(), torch.tensor([0.7, -0.4, 1.1], dtype=torch.float64)
    moved = machine()
    moved.coupling.weight.data += shift
    for row in ROWS.double():
        length = int(row.sum())
        biased = of_length(rbm, length)
        biased.hidden.bias.data += length * shift
        expected = biased.log_probability(row[None])
        torch.testing.assert_close(of_length(moved, length).log_probability(row[None]), expected)
        torch.testing.assert_close(moved.coupling.up(row[None]), rbm.coupling.up(row[None]) + length * shift)
        biased.hidden.bias.data -= length * shift  # the layer is shared with rbm


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_annealing_contains_the_exact_likelihood(dtype):
    rbm = machine(dtype=dtype)
    exact = hm.likelihood.exact(rbm, ROWS)
    found = hm.likelihood.estimate(rbm, ROWS, runs=200, betas=100, sampling_sweeps=20, seed=0)
    low, high = found.interval
    assert found.trustworthy and low <= exact.value <= high < low + 0.3
    assert found.baseline == pytest.approx(exact.baseline, abs=1e-4)
    perplexity = exact.perplexity(ROWS.sum(1)).value
    assert found.perplexity(ROWS.sum(1)).value == pytest.approx(perplexity, rel=0.03)


def test_a_hard_annealing_is_not_trusted():
    found = hm.likelihood.estimate(machine(scale=6.0), ROWS * 10, runs=20, betas=2, sampling_sweeps=0)
    assert found.problems and not found.trustworthy


def test_the_same_seed_gives_the_same_result():
    settings = {"runs": 5, "betas": 10, "sampling_sweeps": 2}
    a, b, c = (hm.likelihood.estimate(machine(), ROWS, seed=seed, **settings).details for seed in (3, 3, 4))
    assert torch.equal(a["forward"], b["forward"]) and torch.equal(a["reverse"], b["reverse"])
    assert not torch.equal(a["forward"], c["forward"])


@pytest.mark.parametrize(
    ("rbm", "rows", "words"),
    [
        (machine(), torch.zeros(2, WORDS), "at least one word in each document, found none in row 0"),
    ],
)
def test_invalid_documents(rbm, rows, words):
    with pytest.raises(ValueError, match=words):
        hm.likelihood.exact(rbm, rows)
