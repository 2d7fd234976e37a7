"""Convolutional machines: shapes, biases, pooling, and exact results of a small one."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidOption
from harmonium.machines import convolutional, feature_maps

F64 = torch.float64


@pytest.mark.parametrize(
    ("options", "shape", "stored"),
    [
        ({"kernel": 3}, (4, 6, 6), (4, 1, 1)),
        ({"kernel": 4, "stride": 2, "padding": 1}, (4, 4, 4), (4, 1, 1)),
        ({"kernel": 3, "biases": "position"}, (4, 6, 6), (4, 6, 6)),
        ({"kernel": 3, "pool": 2}, (4, 3, 3, 4), (4, 1, 1, 1)),
        ({"kernel": 3, "pool": 3, "biases": "position"}, (4, 2, 2, 9), (4, 2, 2, 9)),
    ],
)
def test_shapes(options: dict[str, Any], shape: tuple[int, ...], stored: tuple[int, ...]) -> None:
    rbm = convolutional((1, 8, 8), channels=4, **options)
    assert rbm.hidden.shape == shape
    assert rbm.hidden.bias.shape == stored
    assert rbm.visible.bias.shape == (1, 8, 8)
    assert isinstance(rbm.hidden, units.AtMostOne if "pool" in options else units.Bernoulli)


def test_units_with_options() -> None:
    visible = units.Gaussian((3, 6, 8), shared=(1, 2))
    rbm = convolutional(visible, channels=2, kernel=3, hidden=partial(units.Multinary, levels=4, scale=0.5))
    assert rbm.visible is visible
    assert rbm.hidden.shape == (2, 4, 6)
    assert rbm.hidden.config()["levels"] == 4


def test_layers_of_a_deep_machine() -> None:
    visible = units.Bernoulli((1, 8, 8))
    first, lower = feature_maps((1, 8, 8), channels=2, kernel=4, stride=2)
    second, upper = feature_maps(tuple(first.shape), channels=3, kernel=3)
    deep = hm.DeepBoltzmannMachine([visible, first, second], [lower, upper])
    assert deep.sample(2, sweeps=1, seed=0, check_mixing=False).shape == (2, 1, 8, 8)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: convolutional((1, 8, 8), channels=2, kernel=3, stride=2), "leave out; use padding=1 or kernel=4"),
        (lambda: convolutional((8, 8), channels=2, kernel=3), r"expected a lower layer \(channels, height, width\)"),
        (lambda: convolutional((1, 8, 8), channels=2, kernel=2, pool=2), "multiples of 2, found maps of 7×7"),
        (
            lambda: convolutional((1, 8, 8), channels=2, kernel=3, pool=2, hidden=units.Spin),
            "hidden: expected bernoulli units for pool=2, found Spin",
        ),
        (lambda: convolutional((1, 8, 8), channels=2, kernel=3, biases="maps"), "did you mean 'map'"),
        (
            lambda: hm.RBM((1, 8, 8), (2, 5, 5), hm.couplings.Conv2d((1, 8, 8), (2, 6, 6), kernel=3)),
            r"layer 1: expected a coupling of the shapes \(\(1, 8, 8\), \(2, 5, 5\)\), "
            r"found \(\(1, 8, 8\), \(2, 6, 6\)\)",
        ),
    ],
)
def test_errors(build: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        build()


def small(**options: Any) -> hm.RBM:
    rbm = convolutional((1, 3, 5), **{"channels": 2, "kernel": 2, **options}).double()
    rbm.initialize(scale=0.8, seed=1)
    with torch.no_grad():
        rbm.hidden.shift_bias(torch.tensor(-0.5, dtype=F64))
    return rbm


SMALL: dict[str, dict[str, Any]] = {
    "maps": {},
    "positions": {"biases": "position"},
    "pooled": {"pool": 2},
    "strided": {"kernel": 3, "padding": 1, "stride": 2},
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("name", SMALL)
def test_annealing_and_mean_field_agree_with_enumeration(name: str) -> None:
    rbm = small(**SMALL[name])
    exact = rbm.log_partition()
    found = hm.likelihood.ais(rbm, runs=200, betas=300, seed=0)
    assert abs(found.value - exact) < 5 * found.standard_error + 1e-3
    with torch.no_grad():
        rbm.coupling.weight.mul_(0.1)
    free_energy = hm.meanfield.free_energy(rbm, hm.meanfield.tap(rbm, torch.zeros(1, 1, 3, 5, dtype=F64)))
    assert -free_energy.item() == pytest.approx(rbm.log_partition(), abs=1e-3)


@pytest.mark.parametrize("negative", [hm.CD(1), hm.PCD(1), hm.Exact(), hm.MeanField(3)], ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("pool", [1, 2])
@pytest.mark.slow
def test_training_raises_the_likelihood(negative: Any, pool: int) -> None:
    images = torch.zeros(40, 1, 3, 3)
    images[:20, 0, :2] = 1.0
    images[20:, 0, 1:] = 1.0
    images[::4, 0, 0, 0] = 0.0
    rbm = convolutional((1, 3, 3), channels=3, kernel=2, pool=pool)
    rbm.initialize(images, scale=0.5, seed=0)
    before = rbm.log_probability(images).mean().item()
    hm.fit(rbm, images, negative=negative, epochs=60, batch_size=20, initialize="keep", seed=0, progress=False)
    assert rbm.log_probability(images).mean().item() > before + 0.08
