"""Nearest-neighbor accuracy: known values, ties, errors, sizes."""

from __future__ import annotations

import time

import pytest
import torch
from quality_helpers import draws, generator, machine, shuffled
from torch import Tensor

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption
from harmonium.quality import nearest_neighbor_accuracy as accuracy


def by_hand(samples: Tensor, data: Tensor) -> tuple[float, float]:
    """AA_truth and AA_syn by loops over rows: the fraction of nearest neighbors from the same set."""
    scores = []
    for own, other in ((data, samples), (samples, data)):
        total = 0.0
        for k, row in enumerate(own):
            mine = (torch.cat([own[:k], own[k + 1 :]]) - row).flatten(1).square().sum(1)
            theirs = (other - row).flatten(1).square().sum(1)
            best = min(mine.min(), theirs.min())
            counts = int((mine == best).sum()), int((theirs == best).sum())
            total += counts[0] / sum(counts)
        scores.append(total / len(own))
    return scores[0], scores[1]


SETS = {
    "real": lambda g: torch.randn(120, 3, generator=g, dtype=torch.float64),
    "binary": lambda g: torch.rand(120, 7, generator=g).round(),
    "spins": lambda g: torch.rand(120, 6, generator=g).round() * 2 - 1,
    "counts": lambda g: torch.randint(5, (120, 3), generator=g),
    "one-hot": lambda g: torch.eye(4)[torch.randint(4, (120, 3), generator=g)],
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", SETS)
def test_against_loops_with_ties(name):
    samples, data = SETS[name](generator(0)), SETS[name](generator(1))
    found = accuracy(samples, data)
    truth, synthetic = by_hand(samples.double(), data.double())
    assert found.truth.value == pytest.approx(truth, abs=1e-6)
    assert found.synthetic.value == pytest.approx(synthetic, abs=1e-6)
    assert found.value == pytest.approx((truth + synthetic) / 2, abs=1e-6)
    assert (found.tied > 0.2) == (name != "real")


@pytest.mark.parametrize("name", ["real", "binary"])
@pytest.mark.slow
def test_the_same_distribution_is_half_within_an_error_that_is_right(name):
    g = generator(5)
    found = [accuracy(SETS[name](g), SETS[name](g)) for _ in range(50)]
    values = torch.tensor([result.value for result in found])
    errors = torch.tensor([result.standard_error for result in found])
    assert found[0].chance == pytest.approx(0.5 - 0.25 / 120, abs=1e-4)
    assert abs(values.mean() - found[0].chance) < 3 * values.std() / 50**0.5
    assert 0.75 < errors.square().mean().sqrt() / values.std() < 1.5


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: torch.randn(400, 2, generator=g),
        lambda g: torch.randn(400, 200, generator=g),  # with hubs
        lambda g: (torch.rand(400, 6, generator=g) < 0.3).float(),  # states that repeat
    ],
    ids=["plane", "many dimensions", "few states"],
)
@pytest.mark.slow
def test_errors_are_those_of_repeated_draws(draw):
    """They are never much too small, and not much more than the jackknife too large (a factor of 1.9 in the limit)."""
    found = [accuracy(draw(generator(k)), draw(generator(1000 + k))) for k in range(60)]
    for name in ("accuracy", "truth", "asymmetry"):
        values, errors = torch.tensor([getattr(one, name)[:2] for one in found], dtype=torch.float64).T
        assert 0.75 < errors.square().mean().sqrt() / values.std() < 2.3, name


def test_clusters_that_lie_apart_are_told_apart():
    data = torch.randn(200, 4, generator=generator(0))
    found = accuracy(data + 100, torch.randn(200, 4, generator=generator(1)))
    assert found.value == 1 and found.standard_error == 0


@pytest.mark.slow
def test_copies_of_training_rows_show():
    train, test = (torch.rand(300, 20, generator=generator(k)) for k in (0, 1))
    found = accuracy(train[torch.randperm(300, generator=generator(2))], test, train=train)
    assert found.train.value == 0 and found.train.synthetic.value == 0
    assert abs(found.value - 0.5) < 3 * found.standard_error
    assert found.privacy_loss.value == pytest.approx(found.value)
    assert found.privacy_loss.above(0)


@pytest.mark.slow
def test_honest_samples_have_no_privacy_loss():
    samples, test, train = (torch.rand(300, 20, generator=generator(k)) for k in range(3))
    loss = accuracy(samples, test, train=train).privacy_loss
    assert abs(loss.value) < 3 * loss.standard_error
    assert loss.standard_error < 0.06


@pytest.mark.slow
def test_copies_of_binary_rows_with_duplicates_are_below_half():
    data = draws(machine(hm.units.Bernoulli(10)), 400, seed=0)
    assert accuracy(data, data).accuracy.below(0.5)


@pytest.mark.slow
def test_wrong_frequencies_of_states_that_both_have():
    """Every state has a neighbor at distance zero in both sets: counting ties as one half would detect nothing."""
    p = torch.rand(4000, 2, generator=generator(0))
    data, samples = (p[:2000] < 0.5).float(), (p[2000:] < 0.8).float()
    found = accuracy(samples, data)
    assert found.tied == 1 and found.accuracy.above(0.5)


@pytest.mark.slow
def test_destroyed_correlations_are_seen():
    data = torch.randn(1000, 1, generator=generator(0)) + 0.1 * torch.randn(1000, 5, generator=generator(1))
    assert accuracy(shuffled(data[:500], 2), data[500:]).accuracy.above(0.5)


@pytest.mark.slow
def test_duplicates_of_real_numbers_are_ties():
    rows = 1e4 + torch.randn(60, 8, generator=generator(0), dtype=torch.float64)
    data = torch.cat([rows, rows])
    found = accuracy(data, data)  # each row has one copy in its own set and two in the other
    assert found.tied == 1 and found.value == pytest.approx(1 / 3)


def test_distances_that_single_precision_does_not_resolve_are_ties():
    rows = torch.randn(60, 8, generator=generator(0), dtype=torch.float64)
    jitter = 1e-6 * torch.randn(4, 60, 8, generator=generator(1), dtype=torch.float64)
    copies = rows + jitter
    found = accuracy(copies[:2].flatten(0, 1), copies[2:].flatten(0, 1))
    assert found.tied == 1 and found.value == pytest.approx(1 / 3)


@pytest.mark.slow
def test_as_many_rows_of_each_kind():
    data = torch.rand(500, 4, generator=generator(0))
    assert accuracy(data[:100], data[100:]).rows == 100
    assert accuracy(data[:250], data[250:], most_rows=60).rows == 60
    assert accuracy(data[:200], data[200:400], train=data[400:450]).rows == 50


@pytest.mark.slow
def test_the_seed_decides():
    samples, data = (torch.rand(300, 5, generator=generator(k)) for k in (0, 1))
    first, again, other = (accuracy(samples, data, most_rows=100, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.value != other.value


@pytest.mark.slow
def test_thousands_of_wide_rows_take_seconds():
    x = (torch.rand(10_000, 784, generator=generator(0)) < 0.2).float()
    start = time.process_time()
    found = accuracy(x[:5000], x[5000:])
    assert time.process_time() - start < 20  # about 1.5 s on one core, and 6 s for twice as many rows
    assert abs(found.value - 0.5) < 4 * found.standard_error < 0.05


@pytest.mark.parametrize(
    ("samples", "data", "message"),
    [
        (torch.zeros(50, 3), torch.zeros(50, 4), r"expected rows of one shape, found \(3,\) and \(4,\)"),
        (torch.zeros(5, 3), torch.zeros(50, 3), "samples: expected at least 40 rows, found 5"),
        (torch.zeros(50, 3), torch.zeros(5, 3), "data: expected at least 40 rows, found 5"),
        (torch.full((50, 3), torch.nan), torch.zeros(50, 3), "samples: expected finite numbers, found nan at row 0"),
        (torch.zeros(50), torch.zeros(50), "expected real numbers of shape"),
        ([["a"]], torch.zeros(50, 1), "expected rows of numbers"),
    ],
)
def test_what_cannot_be_compared_is_refused(samples, data, message):
    with pytest.raises(InvalidData, match=message):
        accuracy(samples, data)


def test_options_that_are_refused():
    x = torch.zeros(50, 2)
    with pytest.raises(InvalidOption, match="most_rows: expected at least 40, found 3"):
        accuracy(x, x, most_rows=3)
    with pytest.raises(InvalidOption, match="seed"):
        accuracy(x, x, seed=-1)
    with pytest.raises(InvalidData, match="train: expected at least"):
        accuracy(x, x, train=x[:1])
