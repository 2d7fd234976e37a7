"""Channels corrupt signals according to their distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from harmonium import units
from harmonium.errors import InvalidData, InvalidOption
from harmonium.tasks import AdditiveGaussian, BinarySymmetric, Erasure

SIGNAL = torch.randint(2, (200, 500), generator=torch.Generator().manual_seed(0)).float()
N = SIGNAL.numel()


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 1.0)])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5])
def test_flips(p, values):
    signal = torch.where(SIGNAL > 0, values[1], values[0])
    noisy = BinarySymmetric(p, values=values).corrupt(signal, seed=1)
    assert set(noisy.unique().tolist()) == set(values)
    flipped = noisy != signal
    for value in values:  # symmetric: both values are flipped with equal probability
        here = flipped[signal == value].float()
        assert abs(here.mean().item() - p) <= 4 * math.sqrt(p * (1 - p) / len(here))
    both = (flipped[:, 1:] & flipped[:, :-1]).float().mean().item()
    assert abs(both - p * p) <= 4 * math.sqrt(p * p / N), "neighbors are not flipped independently"


def test_erasure():
    noisy = Erasure(0.3).corrupt(SIGNAL, seed=1)
    lost = torch.isnan(noisy)
    assert abs(lost.float().mean().item() - 0.3) < 4 * math.sqrt(0.21 / N)
    assert torch.equal(noisy[~lost], SIGNAL[~lost])
    assert not torch.isnan(Erasure(0.0).corrupt(SIGNAL, seed=1)).any()
    assert torch.isnan(Erasure(1.0).corrupt(SIGNAL, seed=1)).all()
    vectors = torch.isnan(Erasure(0.3, event_dims=1).corrupt(SIGNAL.view(200, 100, 5), seed=1))
    assert torch.equal(vectors.any(-1), vectors.all(-1))
    assert abs(vectors[..., 0].float().mean().item() - 0.3) < 4 * math.sqrt(0.21 * 5 / N)


def test_additive():
    added = (AdditiveGaussian(0.4).corrupt(SIGNAL, seed=1) - SIGNAL).double()
    assert abs(added.mean().item()) < 4 * 0.4 / math.sqrt(N)
    assert abs(added.std().item() / 0.4 - 1) < 4 / math.sqrt(2 * N)
    assert torch.equal(AdditiveGaussian(0.0).corrupt(SIGNAL, seed=1), SIGNAL)


@pytest.mark.parametrize("channel", [BinarySymmetric(0.3), Erasure(0.3), AdditiveGaussian(0.3)], ids=repr)
def test_seeds(channel):
    state = torch.get_rng_state()
    one, two, other = (channel.corrupt(SIGNAL, seed=seed).nan_to_num(7.0) for seed in (3, 3, 4))
    assert torch.equal(one, two) and not torch.equal(one, other)
    given = channel.corrupt(SIGNAL, seed=torch.Generator().manual_seed(3)).nan_to_num(7.0)
    assert torch.equal(given, one)
    assert torch.equal(torch.get_rng_state(), state)
    before = SIGNAL.clone()
    channel.corrupt(SIGNAL, seed=0)
    assert torch.equal(SIGNAL, before), "the signal was changed in place"
    integers = channel.corrupt(SIGNAL.numpy().astype(np.int64), seed=3).nan_to_num(7.0)
    assert torch.equal(integers, one)


@pytest.mark.parametrize("unit", [units.Bernoulli(1), units.Binomial(1, trials=1), units.Multinary(1, levels=1)])
def test_flips_take_every_unit_of_two_values(unit):
    BinarySymmetric(0.1).check(unit)
    with pytest.raises(InvalidOption, match="-1 and 1, found"):
        BinarySymmetric(0.1, values=(-1, 1)).check(unit)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: BinarySymmetric(-0.1), "from 0 to 0.5, found -0.1"),
        (lambda: BinarySymmetric(0.6), "from 0 to 0.5, found 0.6"),
        (lambda: BinarySymmetric(math.nan), "found nan"),
        (lambda: BinarySymmetric(0.1, values=(1, 0)), "increasing order"),
        (lambda: Erasure(1.1), "from 0 to 1, found 1.1"),
        (lambda: Erasure(0.1, event_dims=-1), "event_dims"),
        (lambda: AdditiveGaussian(-1.0), "at least 0, found -1.0"),
        (lambda: AdditiveGaussian(math.inf), "found inf"),
    ],
)
def test_refused_parameters(build, words):
    with pytest.raises(InvalidOption, match=words):
        build()


def test_refused_signals():
    with pytest.raises(InvalidData, match=r"expected the values 0 and 1, found 0\.5 at index"):
        BinarySymmetric(0.1).corrupt([[0.0, 0.5]])
    for channel in (BinarySymmetric(0.1), Erasure(0.1), AdditiveGaussian(0.1)):
        with pytest.raises(InvalidData, match="expected finite"):
            channel.corrupt([[math.nan]])
    with pytest.raises(InvalidData, match="units of 2 dimensions"):
        Erasure(0.1, event_dims=2).corrupt(torch.zeros(3, 2))
