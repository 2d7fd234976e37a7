"""The comparison table and its verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from quality_helpers import draws, generator, machine, shuffled

import harmonium as hm
from harmonium.errors import HarmoniumError, InvalidData
from harmonium.quality import compare

UNITS = {
    "binary": lambda: hm.units.Bernoulli(10),
    "spins": lambda: hm.units.Spin(10),
    "one-hot": lambda: hm.units.Potts((5, 3)),
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.slow
def test_good_and_bad_samples(unit):
    rbm = machine(UNITS[unit]())
    data, good = draws(rbm, 2000, 1), draws(rbm, 1500, 2)
    found = compare(good, data)
    assert found.problems == ()
    assert found.verdict == "Nothing measured here tells the samples from the data (1500 samples, 2000 rows of data)."
    bad = compare(shuffled(good, 3), data)
    assert bad.verdict.startswith("The samples differ from the data")
    assert "pair correlations differ by" in bad.verdict
    assert "single-site" not in bad.verdict


@pytest.mark.slow
def test_alarms_are_rare():
    alarms = 0
    for seed in range(25):
        rbm = machine(hm.units.Bernoulli(12), seed=seed)
        alarms += bool(compare(draws(rbm, 300, 2 * seed), draws(rbm, 400, 2 * seed + 1), seed=seed).problems)
    assert alarms <= 2


@pytest.mark.slow
def test_noise_and_crowding_do_not_hide_in_an_accuracy_of_one_half():
    """Halving or doubling the spread of normal data changes AA_truth and AA_syn in opposite directions."""
    data, others = (torch.randn(800, 30, generator=generator(k)) for k in (0, 1))
    wide, narrow = (compare(scale * others, data) for scale in (1.4, 0.7))
    for found, words in ((wide, "they are more spread out"), (narrow, "they are more concentrated")):
        assert abs(found.neighbors.value - 0.5) < 0.1 < 0.5 < abs(found.neighbors.asymmetry.value)
        assert words in found.verdict


@pytest.mark.slow
def test_memorizing_is_named():
    train, data = (torch.rand(300, 30, generator=generator(k)).round() for k in (0, 1))
    found = compare(train.flip(0), data, train=train)
    assert "closer to the training rows than to held-out rows" in found.problems[0]
    assert "100.0% are exact copies (new data: 0.0%)" in found.verdict
    assert "like copies" in compare(data.flip(0), data).problems[0]


@pytest.mark.slow
def test_the_table_has_every_measure_in_words():
    rbm = machine(hm.units.Bernoulli(5))
    train, data, samples = (draws(rbm, 500, seed) for seed in range(3))
    found = compare(samples, data, train)
    rows = {row.name: row for row in found.table()}
    assert len(rows) == len(found.table())
    assert rows["nearest-neighbor accuracy"].value == found.neighbors.value
    assert rows["nearest-neighbor accuracy"].ideal == 0.5 and rows["privacy loss"].ideal == 0
    pairs = rows["pair correlations, RMS difference"]
    assert (pairs.value, pairs.standard_error) == found.correlations[2].difference[:2]
    assert pairs.ideal == found.correlations[2].floor.value
    states = rows["entropy of the states, nats"]
    assert (states.value, states.ideal) == tuple(side.value for side in found.state_entropy)
    names = {"leading axes, overlap", "total variance, samples over data", "copies of training rows, fraction"}
    assert names <= set(rows)
    assert all(math.isfinite(number) for row in rows.values() for number in row[1:])
    assert all(name in str(found) for name in rows) and found.verdict in str(found)
    plain = {row.name for row in compare(samples, data).table()}
    assert "privacy loss" not in plain and "copies of data rows, fraction" in plain


@pytest.mark.slow
def test_real_numbers_have_no_entropy_of_states():
    x = torch.randn(400, 5, generator=generator(0))
    found = compare(x[:200], x[200:])
    assert found.site_entropy is None and found.state_entropy is None and found.problems == ()
    assert not any("entropy" in row.name for row in found.table())


@pytest.mark.slow
def test_the_seed_decides():
    x = torch.rand(500, 6, generator=generator(0)).round()
    first, again, other = (compare(x[:200], x[200:], seed=seed).table() for seed in (3, 3, 4))
    assert first == again and first != other


def test_arrays_lists_and_kinds_of_number():
    x = torch.rand(200, 4, generator=generator(0)).round()
    table = compare(x[:100], x[100:], seed=0).table()
    for kind in (
        lambda t: t.numpy(),
        lambda t: t.tolist(),
        lambda t: t.bool(),
        lambda t: t.to(torch.uint8),
        np.asarray,
    ):
        found = compare(kind(x[:100]), kind(x[100:]), seed=0).table()
        assert [row.name for row in found] == [row.name for row in table]
        assert np.allclose([row[1:] for row in found], [row[1:] for row in table], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1,), (2,), (3, 2), (2, 2, 2)])
def test_narrow_rows(shape):
    x = torch.randn(100, *shape, generator=generator(0))
    found = compare(x[:50], x[50:])
    assert list(found.correlations) == [order for order in (1, 2, 3) if order <= math.prod(shape)]


@pytest.mark.slow
def test_constant_rows():
    zeros = torch.zeros(60, 4)
    assert compare(zeros, zeros).problems == ()
    assert compare(torch.rand(60, 4, generator=generator(0)), zeros).problems


@pytest.mark.parametrize(
    ("samples", "data", "train", "message"),
    [
        (torch.zeros(50, 3), torch.zeros(50, 4), None, "expected rows of one shape"),
        (torch.zeros(50, 3), torch.zeros(50, 3), torch.zeros(50, 2), "samples and train: expected rows of one shape"),
        (torch.zeros(50, 3), torch.full((50, 3), torch.inf), None, "data: expected finite numbers, found inf"),
        (torch.zeros(39, 3), torch.zeros(50, 3), None, "samples: expected at least 40 rows, found 39"),
        (torch.zeros(50, 3), torch.zeros(50, 3), torch.zeros(1, 3), "train: expected at least 40 rows, found 1"),
        (torch.zeros(50, 0), torch.zeros(50, 0), None, "expected real numbers of shape"),
    ],
)
def test_what_cannot_be_compared_is_refused(samples, data, train, message):
    with pytest.raises(InvalidData, match=message):
        compare(samples, data, train)
    assert issubclass(InvalidData, HarmoniumError)
