"""Units with at most one component equal to 1, and probabilistic max-pooling with them."""

from __future__ import annotations

import math

import pytest
import torch

import harmonium as hm
from harmonium import units
from harmonium.couplings import Conv2d
from harmonium.errors import InvalidData, InvalidOption
from harmonium.testing import check_unit

F64 = torch.float64


def test_golden_values() -> None:
    """ln Z = ln(1 + e^0.5 + e^-1) and the probabilities of the two states."""
    unit = units.AtMostOne((1, 2), bias=torch.tensor([[0.2, -0.4]], dtype=F64))
    B = torch.tensor([[[0.3, -0.6]]], dtype=F64)
    z = 1 + math.exp(0.5) + math.exp(-1.0)
    assert unit.log_partition(B).item() == pytest.approx(math.log(z), rel=1e-14)
    p = torch.tensor([[[math.exp(0.5), math.exp(-1.0)]]], dtype=F64) / z
    torch.testing.assert_close(unit.mean(B), p)
    torch.testing.assert_close(unit.variance(B), p * (1 - p))


def test_large_fields() -> None:
    unit = units.AtMostOne((1, 3))
    for size in (1e4, -1e4):
        B = torch.tensor([[[size, size, -size]]])
        mean = unit.mean(B)
        torch.testing.assert_close(mean.sum(), torch.tensor(1.0))
        assert bool(torch.isfinite(unit.log_partition(B)).all())
        assert bool(torch.isfinite(unit.variance(B)).all())
    low = torch.full((1, 1, 3), -40.0)
    torch.testing.assert_close(unit.log_partition(low), 3 * low[..., 0].exp(), rtol=1e-5, atol=0.0)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("shared", [(0,), (1,), (0, 1), (0, 1, 2)])
def test_shared_biases(shared: tuple[int, ...]) -> None:
    """Also over the components, as in Lee et al. (2009) with one bias for a feature map."""
    stored = [1 if k in shared else n for k, n in enumerate((2, 2, 3))]
    check_unit(units.AtMostOne((2, 2, 3), shared=shared, bias=0.3 * torch.rand(stored, dtype=F64)))


def test_conditional_against_enumeration() -> None:
    """p(h | v) of an image of 3×3 pixels and a block of 2×2 detection units."""
    source = torch.Generator().manual_seed(0)
    weight = torch.randn(1, 1, 2, 2, generator=source, dtype=F64)
    rbm = hm.RBM(
        units.Bernoulli((1, 3, 3)),
        units.AtMostOne((1, 1, 1, 4), shared=(1, 2, 3), bias=torch.tensor([[[[-0.3]]]], dtype=F64)),
        Conv2d((1, 3, 3), (1, 1, 1, 4), kernel=2, pool=2, weight=weight),
    ).double()
    v = torch.randint(2, (5, 1, 3, 3), generator=source).double()
    found = rbm.hidden_mean(v)
    pooled = rbm.hidden.pool(found)
    for row, p, on in zip(v, found, pooled, strict=True):
        inputs = [
            sum(row[0, i + a, j + b] * weight[0, 0, a, b] for a in range(2) for b in range(2)).item() - 0.3
            for i in range(2)
            for j in range(2)
        ]
        z = 1 + sum(math.exp(x) for x in inputs)
        torch.testing.assert_close(p.flatten(), torch.tensor([math.exp(x) / z for x in inputs], dtype=F64))
        assert on.item() == pytest.approx(1 - 1 / z)


def test_pool_and_unpool() -> None:
    bias = torch.tensor([0.0, 1.0, -1.0])
    unit = units.AtMostOne((2, 3), bias=bias)
    p = torch.randint(2, (40_000, 2), generator=torch.Generator().manual_seed(1)).float()
    x = unit.unpool(p, generator=torch.Generator().manual_seed(2))
    unit.check(x)
    assert torch.equal(unit.pool(x), p)
    assert unit.pooled_shape == (2,)
    torch.testing.assert_close(x[p > 0].mean(0), torch.softmax(bias, 0), atol=0.012, rtol=0.0)


def test_other_units_are_their_own_pooled_state() -> None:
    unit = units.Spin((2, 3))
    x = torch.ones(4, 2, 3)
    assert unit.pooled_shape == unit.shape
    assert unit.pool(x) is x
    assert unit.unpool(x) is x


def test_errors() -> None:
    with pytest.raises(InvalidOption, match=r"at-most-one: expected a shape \(sites, states\), found \(3,\)"):
        units.AtMostOne(3)
    with pytest.raises(InvalidData, match="expected one-hot vectors of 2 states or zero vectors, found"):
        units.AtMostOne((1, 2)).check(torch.ones(1, 1, 2))
