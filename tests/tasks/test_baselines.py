"""The pointwise estimator and nearest neighbors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from cases import F64, UNITS, generator
from task_helpers import BSC, tensor

from harmonium import tasks, units
from harmonium.errors import InvalidData, InvalidOption
from harmonium.tasks import AdditiveGaussian, BinarySymmetric, Erasure, Pointwise, baselines, nearest_neighbors


def test_the_golden_estimate():
    case = BSC["ope"]
    estimator = Pointwise(units.Bernoulli(len(case["m"]), bias=torch.logit(tensor(case["m"]))))
    found = estimator.estimate(tensor([BSC["y"]]), BinarySymmetric(case["p"]))
    torch.testing.assert_close(found.means, tensor([case["estimate"]]), rtol=1e-13, atol=0)


@pytest.mark.parametrize(("values", "kind"), [((0, 1), units.Bernoulli), ((-1, 1), units.Spin)])
def test_equation_45_from_training_data(values, kind):
    source = torch.Generator().manual_seed(0)
    bits = (torch.rand(50, 6, generator=source) < torch.linspace(0.1, 0.9, 6)).double()
    y, p = torch.randint(2, (4, 6), generator=source).double(), 0.2
    low, high = values
    estimator = Pointwise.from_data(kind(6, bias=torch.zeros(6, dtype=F64)), low + (high - low) * bits, pseudocount=0.0)
    found = estimator.estimate(low + (high - low) * y, BinarySymmetric(p, values=values))
    m = bits.mean(0)
    expected = 1 / (1 + (1 - m) / m * (p / (1 - p)) ** (2 * y - 1))
    torch.testing.assert_close((found.means - low) / (high - low), expected, rtol=1e-12, atol=0)


def test_limits_of_the_pointwise_estimate():
    data = torch.tensor([[0.0, 1.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    estimator = Pointwise.from_data(units.Bernoulli(3), data, pseudocount=0.0)
    y = torch.tensor([[1.0, 0.0, 0.0]])
    assert torch.equal(estimator.estimate(y, BinarySymmetric(0.0)).means, y)  # even for values that no row has
    torch.testing.assert_close(estimator.estimate(y, BinarySymmetric(0.5)).means, data.mean(0, keepdim=True))
    torch.testing.assert_close(estimator.estimate(y * math.nan, Erasure(0.5)).means, data.mean(0, keepdim=True))


@pytest.mark.parametrize("name", UNITS)
def test_single_units_in_gaussian_noise(name):
    """Compare with quadrature of one site."""
    unit = UNITS[name].build((1,), generator(name))
    points, weights = UNITS[name].nodes(unit)
    y = points[:: max(1, len(points) // 5)] + 0.37
    log_p = unit.log_weight(points).flatten(1).sum(1) + weights
    distance = (y.flatten(1).unsqueeze(1) - points.flatten(1)).square().sum(-1)
    p = torch.softmax(log_p - distance / (2 * 0.6**2), 1).detach()
    mean = torch.tensordot(p, points, 1)
    found = Pointwise(unit).estimate(y, AdditiveGaussian(0.6))
    torch.testing.assert_close(found.means, mean, rtol=1e-6, atol=1e-6)
    square = torch.tensordot(p, points.square(), 1) - mean.square()
    torch.testing.assert_close(found.variances, square, rtol=1e-5, atol=1e-6)


def test_nearest_rows_by_brute_force():
    source = np.random.default_rng(0)
    train, noisy = source.normal(size=(60, 4, 3)), source.normal(size=(9, 4, 3))
    distance = ((noisy[:, None] - train[None]) ** 2).sum((2, 3))
    for k in (1, 5, 60):
        order = np.argsort(distance, 1)[:, :k]
        np.testing.assert_allclose(nearest_neighbors(train, noisy, k=k), train[order].mean(1), atol=1e-12)


def test_nearest_rows_of_many_observations(monkeypatch):
    source = torch.Generator().manual_seed(0)
    train, noisy = torch.rand(20, 6, generator=source), torch.rand(17, 6, generator=source)
    whole = nearest_neighbors(train, noisy, k=2)
    monkeypatch.setattr(baselines, "_TILE", 60)  # three rows at a time
    torch.testing.assert_close(nearest_neighbors(train, noisy, k=2), whole)


def test_nearest_rows_look_at_what_was_not_erased():
    train = torch.tensor([[0.0, 0.0, 9.0], [1.0, 1.0, 0.0]])
    assert torch.equal(nearest_neighbors(train, torch.tensor([[0.1, 0.1, math.nan]])), train[:1])
    assert torch.equal(nearest_neighbors(train, torch.tensor([[0.1, 0.1, 0.0]])), train[1:])


def test_refused():
    with pytest.raises(InvalidOption, match="from 1 to 2, found 3"):
        nearest_neighbors(torch.zeros(2, 3), torch.zeros(1, 3), k=3)
    with pytest.raises(InvalidData, match="expected rows of shape"):
        nearest_neighbors(torch.zeros(2, 3), torch.zeros(1, 4))
    with pytest.raises(InvalidData, match="expected binary values"):
        Pointwise.from_data(units.Bernoulli(2), torch.full((3, 2), 0.5))
    with pytest.raises(InvalidData, match="expected shape"):
        Pointwise(units.Bernoulli(2)).estimate(torch.zeros(1, 3), BinarySymmetric(0.1))
    with pytest.raises(InvalidOption, match="found spin"):
        Pointwise(units.Spin(2)).estimate(torch.ones(1, 2), BinarySymmetric(0.1))


def test_rounding():
    """Round to the nearest possible value for each type of unit; NaN stays NaN."""
    layer = units.Mixed(units.Bernoulli(2), units.Spin(1), units.Potts((1, 3)), units.Gaussian(1), units.Poisson(1))
    means = torch.tensor([[0.5, 0.51, -0.1, 0.2, 0.45, 0.35, 0.37, 2.6], [math.nan] * 8])
    blank = torch.zeros(2)
    found = tasks.Posterior("none", means, means, blank, blank, layer).rounded
    assert torch.equal(found[0], torch.tensor([0.0, 1.0, -1.0, 0.0, 1.0, 0.0, 0.37, 3.0]))
    assert torch.isnan(found[1]).all()
    counts = torch.tensor([[1.2, 0.7, 0.1], [0.3, 0.1, 1.6]])
    found = tasks.Posterior("none", counts, counts, blank, blank, units.Multinomial(3, total=2)).rounded
    assert torch.equal(found, torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]))
