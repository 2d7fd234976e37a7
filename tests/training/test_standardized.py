"""Gaussian visible layers learn their variances, in coordinates that do not depend on units of measurement."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.errors import NotLearned
from harmonium.machines import layout as specs
from harmonium.machines.scaling import Scaling
from harmonium.training.callbacks import Callback, Progress

F64 = torch.float64
SCALE = torch.tensor([1.0, 1e3, 1e-3, 10.0], dtype=F64)
LOCATION = torch.tensor([0.0, 5e3, 2.0, -300.0], dtype=F64)


def rows(n: int = 300) -> Tensor:
    """Four columns that two binary causes explain."""
    source = torch.Generator().manual_seed(0)
    cause = (torch.rand(n, 2, generator=source, dtype=F64) < 0.5).double()
    pattern = torch.tensor([[1.5, 1.5, 0.0, 0.0], [0.0, 0.0, 1.5, 1.5]], dtype=F64)
    return cause @ pattern + 0.5 * torch.randn(n, 4, generator=source, dtype=F64)


def machine(visible: units.Unit | None = None, hidden: int = 2) -> hm.RBM:
    return hm.RBM(units.Gaussian(4) if visible is None else visible, hidden).double()


def trained(data: Tensor, made: hm.RBM | None = None, **options: Any) -> hm.RBM:
    made = machine() if made is None else made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotLearned)
        defaults = {"epochs": 20, "batch_size": 50, "seed": 0, "progress": False}
        hm.fit(made, data, **{**defaults, **options})
    return made


def log_likelihood(made: hm.RBM, data: Tensor) -> float:
    return made.double().log_probability(data.double()).mean().item()


# -- learned by default ---------------------------------------------------------------------------------------


def test_visible_layers_learn_their_precision_and_others_do_not() -> None:
    rbm = hm.RBM(units.Gaussian(4), units.TruncatedGaussian(2, low=0.0, high=1.0))
    assert rbm.visible.learn == ("bias", "precision") and rbm.hidden.learn == ("bias",)
    assert rbm.visible.precision.requires_grad
    assert rbm.visible.max_precision is not None
    fixed = hm.RBM(units.Gaussian(4, learn=("bias",)), 2)
    assert fixed.visible.learn == ("bias",) and not fixed.visible.log_precision.requires_grad
    mixed = hm.RBM(units.Mixed(units.Bernoulli(2), units.Gaussian(3)), 2)
    assert mixed.visible.parts[1].learn == ("bias", "precision")
    assert hm.units.Gaussian(2).learn == ("bias",)
    for hidden in (units.Gaussian(2), units.ReLU(2), units.Poisson(2)):  # unbounded: variances stay as they are
        assert hm.RBM(units.Gaussian(3), hidden).visible.learn == ("bias",)


def test_files_keep_what_is_learned(tmp_path: Path) -> None:
    for learn in (None, ("bias",), ("bias", "precision")):
        made = hm.RBM(units.Gaussian(3, learn=learn), 2)
        hm.save(made, tmp_path / "machine.safetensors")
        assert hm.load(tmp_path / "machine.safetensors").visible.learn == made.visible.learn


def test_configurations_write_out_what_is_learned() -> None:
    gaussian = specs.parse_layer("gaussian:4+bernoulli:2")
    given = specs.parse_layer("gaussian:4,learn=precision")
    assert specs.as_built(given, hm.RBM(specs.layer(given), 2).visible) == given
    assert [str(part) for part in specs.as_built(gaussian, hm.RBM(specs.layer(gaussian), 2).visible)] == [
        "gaussian:4,learn=bias/precision",
        "bernoulli:2",
    ]


# -- standardized coordinates ---------------------------------------------------------------------------------


def test_the_standardized_layer_has_the_same_density() -> None:
    """ln p(x) = ln p(z) - Σ ln s, with W, b and γ converted; hidden biases absorb the location."""
    made = trained(rows(), epochs=1)
    scaling = Scaling(LOCATION, SCALE)
    other = hm.RBM(scaling.layer(made.visible), *copy.deepcopy(made).layers[1:], copy.deepcopy(made.coupling))
    with torch.no_grad():
        other.weight.mul_(other.coupling.lower_factors(SCALE))
        other.hidden.shift_bias(made.coupling.up(LOCATION[None])[0])
    x = rows() * SCALE + LOCATION
    expected = made.log_probability(x) + SCALE.log().sum()
    torch.testing.assert_close(other.log_probability(scaling.states(x)), expected, rtol=1e-9, atol=1e-7)


class Differentiated(hm.Exact):
    """A phase whose gradient is at fixed bias, as that of automatic differentiation."""

    def by_statistics(self, batch: Any) -> bool:
        return False


OPTIONS: dict[str, dict[str, Any]] = {
    "pcd": {},
    "cd": {"negative": "cd:2"},
    "exact": {"negative": "exact"},
    "differentiated": {"negative": Differentiated(), "optimizer": "sgd"},
    "tempering": {"negative": "parallel-tempering:1,rungs=3"},
    "gibbs-langevin": {"negative": "gibbs-langevin:1,steps=3"},
    "langevin": {"negative": "langevin:3"},
    "adam": {"optimizer": "adam", "learning_rate": 0.01},
    "momentum": {"optimizer": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9)},
    "average": {"constraints": [hm.Average(0.5)]},
    "penalties": {"penalties": [hm.L1(0.1), hm.L2(0.1), hm.L1Squared(0.1)]},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.fast_cases(2)
def test_units_of_measurement_do_not_matter(name: str) -> None:
    """Training on s x + m gives the machine of x, in other units: every density is divided by Π s."""
    x = rows()
    one, other = (trained(data, epochs=2, **copy.deepcopy(OPTIONS[name])) for data in (x, x * SCALE + LOCATION))
    shift = SCALE.log().sum().item()
    assert log_likelihood(other, x * SCALE + LOCATION) + shift == pytest.approx(log_likelihood(one, x), abs=1e-4)
    torch.testing.assert_close(other.weight * SCALE[:, None], one.weight, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(other.visible.precision * SCALE.square(), one.visible.precision, rtol=1e-4, atol=0.0)


@pytest.mark.slow
def test_mixed_layers_standardize_their_gaussian_part() -> None:
    source = torch.Generator().manual_seed(1)
    bits = (torch.rand(300, 2, generator=source) < 0.5).double()
    x = torch.cat([bits, rows()], 1)
    scale = torch.cat([torch.ones(2), SCALE])
    one, other = (
        trained(data, machine(units.Mixed(units.Bernoulli(2), units.Gaussian(4))), epochs=3) for data in (x, x * scale)
    )
    torch.testing.assert_close(other.weight * scale[:, None], one.weight, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_defaults_learn_binary_causes_better_than_a_full_covariance() -> None:
    """In the user's units, on held-out rows; the Gaussian with a full covariance has no clusters."""
    x = rows(3000) * SCALE + LOCATION
    data, unseen = x[:2000], x[2000:]
    made = trained(data, machine(hidden=4), epochs=25)
    gaussian = torch.distributions.MultivariateNormal(data.mean(0), data.T.cov())
    assert log_likelihood(made, unseen) > gaussian.log_prob(unseen).mean().item() + 0.05
    drawn = made.sample(2000, sweeps=50, seed=0, check_mixing=False)
    assert bool(((drawn.mean(0) - x.mean(0)).abs() < 0.15 * x.std(0)).all())
    torch.testing.assert_close(drawn.std(0), x.std(0), rtol=0.15, atol=0.0)


class StopAfter(Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, progress: Progress) -> None:
        progress.stop = progress.epoch == self.epoch


@pytest.mark.slow
def test_runs_resume_bit_for_bit(tmp_path: Path) -> None:
    x, options = rows() * SCALE + LOCATION, {"epochs": 4, "schedule": "constant"}
    whole = trained(x, **options)
    trained(x, **options, run=tmp_path / "run", callbacks=[StopAfter(2)])
    again = trained(x, **options, run=tmp_path / "run", resume=True)
    for name, value in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


# -- difficult columns ----------------------------------------------------------------------------------------

COLUMNS: dict[str, Any] = {
    "constant": lambda x: torch.full_like(x, 3.0),
    "zero": torch.zeros_like,
    "large": lambda x: 1e6 * x,
    "far": lambda x: 1e4 + x,
    "tiny": lambda x: 1e-6 * x,
    "outlier": lambda x: torch.where(torch.arange(len(x)) == 7, 1e6, x),
}
PARTS: dict[str, dict[str, Any]] = {
    "none": {"centered": False},
    "centered": {},
    "penalties": {"penalties": [hm.L1(1e-3), hm.L2(1e-3), hm.L1Squared(1e-3)]},
    "average": {"constraints": [hm.Average(0.5)]},
}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "momentum": {"optimizer": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9)},
    "adam": {"optimizer": "adam"},
    "rmsprop": {"optimizer": "rmsprop"},
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.slow
def test_no_column_makes_training_fail(column: str) -> None:
    """Single precision, under every transform and optimizer: finite parameters, likelihood and samples."""
    x = rows(120)
    x[:, 3] = COLUMNS[column](x[:, 3])
    for transforms, optimizer in [
        *((name, "sgd") for name in PARTS),
        *(("centered", name) for name in OPTIMIZERS),
    ]:
        made = hm.RBM(units.Gaussian(4), 3)
        options = {**OPTIMIZERS[optimizer], **PARTS[transforms]}
        trained(x.float(), made, epochs=3, batch_size=20, **options)
        label = f"{column}, {transforms}, {optimizer}"
        assert all(bool(torch.isfinite(p).all()) for p in made.parameters()), label
        assert bool(torch.isfinite(made.log_probability(x.float())).all()), label
        assert bool(torch.isfinite(made.sample(20, sweeps=20, seed=0, check_mixing=False)).all()), label


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.slow
def test_other_columns_are_learned_as_well_as_without_it(column: str) -> None:
    """The machine's mean and spread of three ordinary columns next to a difficult one."""
    x = rows()
    x[:, 3] = COLUMNS[column](x[:, 3])
    made = trained(x.float(), hm.RBM(units.Gaussian(4), 3), epochs=60).double()
    drawn = made.sample(2000, sweeps=100, seed=0, check_mixing=False)[:, :3]
    assert bool(((drawn.mean(0) - x[:, :3].mean(0)).abs() < 0.25).all())
    torch.testing.assert_close(drawn.std(0), x[:, :3].std(0), rtol=0.25, atol=0.0)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("transforms", PARTS)
def test_all_zero_weights(transforms: str) -> None:
    """Zero weights stay finite, and so does everything that is computed from them."""
    made = hm.RBM(units.Gaussian(4), 3)
    made.visible.initialize_from(rows().float())
    trained(rows().float(), made, epochs=2, initialize="keep", **PARTS[transforms])
    assert all(bool(torch.isfinite(p).all()) for p in made.parameters())
    found = hm.likelihood.ais(made, runs=20, betas=50, seed=0)
    assert found.value == pytest.approx(made.log_partition(), abs=0.05)
