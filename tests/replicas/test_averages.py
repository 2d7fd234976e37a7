"""Averages over a random field, compared with direct quadrature over its components."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from harmonium.errors import InvalidOption
from harmonium.replicas.averages import COMPONENTS, averages


def normal(step: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the trapezoidal rule, with an error of e^{-2π²/step²}."""
    x = np.arange(-50, 51) * step
    return x, np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * step


def panels(*edges: float) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(30)
    pairs = list(itertools.pairwise(edges))
    return (
        np.concatenate([(b - a) / 2 * x + (a + b) / 2 for a, b in pairs]),
        np.concatenate([(b - a) / 2 * w for a, b in pairs]),
    )


def rule(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "gaussian":
        return normal()
    if name == "bernoulli":
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    if name == "uniform":
        x, w = panels(-math.sqrt(3), 0, math.sqrt(3))
        return x, w / (2 * math.sqrt(3))
    x, w = panels(-28, -9, -3, -1, 0, 1, 3, 9, 28)
    return x, w * np.exp(-math.sqrt(2) * abs(x)) / math.sqrt(2)


@pytest.mark.parametrize("name", COMPONENTS)
def test_components_have_unit_variance(name):
    t = torch.tensor([1e-4, 0.7, 3.0], dtype=torch.float64)
    x, w = rule(name)
    assert w @ x**2 == pytest.approx(1, abs=1e-12)
    for point, cosine, sine in zip(t, COMPONENTS[name].cosine(t), COMPONENTS[name].sine(t), strict=True):
        assert cosine == pytest.approx(w @ np.cos(float(point) * x), abs=1e-13)
        assert sine == pytest.approx(w @ (x * np.sin(float(point) * x)), rel=1e-12)


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("fields", [(0.9,), (1.3, -0.4)])
def test_averages_over_noise_and_components(name, fields):
    variance = 0.35
    x, w = rule(name)
    grids = np.meshgrid(*[x] * len(fields), indexing="ij")
    inner = sum(c * u for c, u in zip(fields, grids, strict=True))
    weight = np.prod(np.meshgrid(*[w] * len(fields), indexing="ij"), axis=0)
    found = averages(
        COMPONENTS[name], torch.tensor(variance, dtype=torch.float64), torch.tensor(fields, dtype=torch.float64)
    )
    tanh = tanh2 = sech4 = log_2cosh = 0.0
    for node, share in zip(*normal(), strict=True):
        value = np.tanh(h := math.sqrt(variance) * node + inner)
        tanh = tanh + share * value
        tanh2 += share * (weight * value**2).sum()
        sech4 += share * (weight * (1 - value**2) ** 2).sum()
        log_2cosh += share * (weight * np.logaddexp(h, -h)).sum()
    assert found.projected.tolist() == pytest.approx([(weight * u * tanh).sum() for u in grids], abs=1e-12)
    assert found.tanh2 == pytest.approx(tanh2, abs=1e-12)
    assert found.sech4 == pytest.approx(sech4, abs=1e-12)
    assert found.log_2cosh == pytest.approx(log_2cosh, abs=1e-12)


@pytest.mark.parametrize("c", [1e-8, 0.1, 3.0, 40.0, 900.0])
def test_a_sure_field_of_any_size(c):
    """Without noise, a ±1 mode gives the function values."""
    found = averages(
        COMPONENTS["bernoulli"], torch.tensor(0.0, dtype=torch.float64), torch.tensor([c], dtype=torch.float64)
    )
    assert found.projected[0] == pytest.approx(math.tanh(c), rel=1e-13)
    assert found.tanh2 == pytest.approx(math.tanh(c) ** 2, abs=1e-14)
    assert found.log_2cosh == pytest.approx(np.logaddexp(c, -c), rel=1e-13)


def test_fields_beyond_the_quadrature():
    with pytest.raises(InvalidOption, match="too large for the quadrature"):
        averages(
            COMPONENTS["gaussian"], torch.tensor(1.0, dtype=torch.float64), torch.tensor([1e9], dtype=torch.float64)
        )
