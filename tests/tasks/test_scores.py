"""Scores compared with their definitions, and coverage of the intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import matthews_corrcoef

from harmonium.errors import InvalidData, InvalidOption
from harmonium.tasks import mcc, mse

SOURCE = np.random.default_rng(0)
SIGNAL = SOURCE.random((80, 60)) < 0.3
GUESS = np.where(SOURCE.random(SIGNAL.shape) < 0.2, ~SIGNAL, SIGNAL)


@pytest.mark.slow
def test_mcc_is_that_of_scikit_learn():
    each = [matthews_corrcoef(a, b) for a, b in zip(SIGNAL, GUESS, strict=True)]
    images = mcc(SIGNAL.astype(float), GUESS.astype(float), seed=0)
    np.testing.assert_allclose(images.images, each, atol=1e-12)
    assert images.estimate == pytest.approx(np.mean(each), abs=1e-12)
    pixels = mcc(SIGNAL.astype(float), GUESS.astype(float), average="pixels")
    assert pixels.estimate == pytest.approx(matthews_corrcoef(SIGNAL.ravel(), GUESS.ravel()), abs=1e-12)
    spins = mcc(2.0 * SIGNAL - 1, 2.0 * GUESS - 1, seed=0)
    assert (spins.estimate, spins.low, spins.high) == (images.estimate, images.low, images.high)


def test_mcc_of_one_value():
    zeros, ones = torch.zeros(1, 4), torch.ones(1, 4)
    mixed = torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    assert mcc(zeros, zeros).estimate == mcc(ones, ones).estimate == mcc(mixed, mixed).estimate == 1
    assert mcc(mixed, zeros).estimate == mcc(zeros, mixed).estimate == mcc(zeros, ones).estimate == 0
    assert mcc(mixed, 1 - mixed).estimate == -1


def test_mse():
    x, y = SOURCE.normal(size=(2, 30, 4, 5))
    score = mse(x, y)
    assert score.estimate == pytest.approx(np.mean((x - y) ** 2), rel=1e-12)
    np.testing.assert_allclose(score.images, ((x - y) ** 2).mean((1, 2)))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_the_truth_as_often_as_they_say(level):
    """Images with a known mean squared error of 1."""
    source = torch.Generator().manual_seed(0)
    trials = 300
    held = 0
    for k in range(trials):
        score = mse(torch.zeros(60, 2), torch.randn(60, 2, generator=source), level=level, resamples=400, seed=k)
        assert score.low <= score.estimate <= score.high
        held += score.low <= 1 <= score.high
    # with 60 images, the coverage of percentile intervals is too low by about 1/60
    assert abs(held / trials - level) < 4 * math.sqrt(level * (1 - level) / trials) + 0.02


def test_whole_images_are_drawn():
    """Pixels of an image are not independent: the width of the interval depends on the number of images."""
    images = SOURCE.normal(size=(50, 1)).repeat(400, 1)
    score = mse(np.zeros_like(images), images)
    values = images[:, 0] ** 2
    expected = 2 * 1.96 * values.std() / math.sqrt(50)
    assert abs((score.high - score.low) / expected - 1) < 0.15


def test_paired_differences():
    """Two denoisers on images of very different difficulty; one is slightly better on each image."""
    hard = SOURCE.exponential(size=(60, 1)) * np.ones((1, 5))
    one, two = mse(np.zeros_like(hard), hard + 0.1), mse(np.zeros_like(hard), hard)
    difference = one.minus(two)
    assert difference.estimate == pytest.approx(one.estimate - two.estimate, rel=1e-12)
    assert difference.low > 0 and one.low < two.estimate
    with pytest.raises(InvalidData, match="the same images"):
        one.minus(mse(hard[:3], hard[:3]))


def test_seeds():
    one, two, other = (mcc(SIGNAL.astype(float), GUESS.astype(float), seed=seed) for seed in (1, 1, 2))
    assert one == two and (one.low, one.high) != (other.low, other.high) and one.estimate == other.estimate


def test_refused():
    with pytest.raises(InvalidData, match="round estimates first"):
        mcc(torch.zeros(2, 3), torch.full((2, 3), 0.4))
    with pytest.raises(InvalidData, match="the shape of the signal"):
        mse(torch.zeros(2, 3), torch.zeros(3, 2))
    with pytest.raises(InvalidData, match="expected finite"):
        mse(torch.zeros(2, 3), torch.full((2, 3), math.nan))
    with pytest.raises(InvalidOption, match="level"):
        mse(torch.zeros(2, 3), torch.zeros(2, 3), level=1.0)
    with pytest.raises(InvalidOption, match="resamples"):
        mse(torch.zeros(2, 3), torch.zeros(2, 3), resamples=0)
    with pytest.raises(InvalidOption, match="unknown average"):
        mcc(torch.zeros(2, 3), torch.zeros(2, 3), average="rows")
