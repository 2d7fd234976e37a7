"""Weights of Gaussian units that training keeps within the spectral bound."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.machines.normalizable import SpectralBound, may_diverge

F64 = torch.float64
GAUSSIAN = {
    "gaussian": lambda n: units.Gaussian(n, precision=torch.linspace(0.5, 2.0, n)),
    "relu": lambda n: units.ReLU(n, precision=torch.linspace(0.5, 2.0, n)),
    "mixed": lambda n: units.Mixed(units.Bernoulli(2), units.Gaussian(n)),
}


def machine(visible: str, hidden: str, sizes: tuple[int, int], size: float) -> hm.RBM:
    rbm = hm.RBM(GAUSSIAN[visible](sizes[0]), GAUSSIAN[hidden](sizes[1])).double()
    source = torch.Generator().manual_seed(0)
    with torch.no_grad():
        rbm.weight.normal_(0, size, generator=source)
    return rbm


def _visible_field(rbm: hm.RBM, mean: Tensor, above: Tensor) -> Tensor:
    return rbm.visible.bias + rbm.coupling.down(above)[0]


def _hidden_field(rbm: hm.RBM, mean: Tensor, above: Tensor) -> Tensor:
    return rbm.hidden.bias + rbm.coupling.up(mean[None])[0]


@pytest.mark.parametrize("sizes", [(4, 3), (70, 50)], ids=["few", "many"])
@pytest.mark.parametrize("hidden", GAUSSIAN)
@pytest.mark.parametrize("visible", GAUSSIAN)
def test_weights_beyond_the_bound_are_scaled_back(visible: str, hidden: str, sizes: tuple[int, int]) -> None:
    rbm = machine(visible, hidden, sizes, 1.0)
    with pytest.raises(hm.errors.NotNormalizable):
        rbm.check_normalizable()
    before, mean = copy.deepcopy(rbm), torch.full(rbm.visible.shape, 0.3, dtype=F64)
    with torch.no_grad():
        SpectralBound(rbm, mean).hold()
        rbm.check_normalizable()
        factor = (rbm.weight / before.weight).mean()
        torch.testing.assert_close(rbm.weight, before.weight * factor)
        above = before.hidden.mean(before.coupling.up(mean[None]))
        for field in (_visible_field, _hidden_field):
            torch.testing.assert_close(field(rbm, mean, above), field(before, mean, above))
        rbm.weight.mul_(1.05)
    with pytest.raises(hm.errors.NotNormalizable):  # not scaled further than needed
        rbm.check_normalizable()


def test_weights_within_the_bound_do_not_change() -> None:
    for rbm in (machine("gaussian", "gaussian", (4, 3), 0.1), machine("gaussian", "relu", (70, 50), 0.02)):
        before = copy.deepcopy(rbm.state_dict())
        SpectralBound(rbm).hold()
        assert all(torch.equal(value, before[name]) for name, value in rbm.state_dict().items())


def test_changes_are_seen_after_weights_within_the_bound() -> None:
    """The norm is computed only if the weights have changed by more than their distance from the bound."""
    rbm = machine("gaussian", "gaussian", (70, 50), 0.03)
    bound, before = SpectralBound(rbm), rbm.weight.detach().clone()
    assert before.norm() > 1
    bound.hold()
    assert torch.equal(rbm.weight, before)
    for _ in range(20):
        with torch.no_grad():
            rbm.weight.mul_(1.2)
        bound.hold()
        rbm.check_normalizable()
    assert rbm.weight.norm() > before.norm()


def test_negative_weights_of_half_lines_have_no_bound() -> None:
    rbm = machine("relu", "relu", (4, 3), 1.0)
    torch.nn.init.constant_(rbm.weight, -5.0)
    SpectralBound(rbm).hold()
    assert bool((rbm.weight == -5.0).all())


def test_only_neighboring_gaussian_units_may_diverge() -> None:
    assert may_diverge(hm.RBM(units.Gaussian(2), units.ReLU(2)))
    assert not may_diverge(hm.RBM(units.Gaussian(2), 2))
    assert not may_diverge(hm.RBM(2, units.Gaussian(2)))


def test_chains_of_gaussian_layers() -> None:
    layers = [units.Gaussian(3), units.Gaussian(2), units.Gaussian(2)]
    deep = hm.DeepBoltzmannMachine(layers)
    for coupling in deep.couplings:
        torch.nn.init.constant_(coupling.weight, 0.6)
    with pytest.raises(hm.errors.NotNormalizable):
        deep.check_normalizable()
    SpectralBound(deep).hold()
    deep.check_normalizable()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [units.Gaussian, units.ReLU])
def test_defaults_learn_columns_with_a_variance_far_from_that_of_the_units(kind: type[units.Unit]) -> None:
    """The weights must come near the bound, which single steps passed: training diverged."""
    source = torch.Generator().manual_seed(0)
    factor = torch.randn(300, 1, generator=source)
    rows = 3 * (factor + 0.5 * torch.randn(300, 3, generator=source))
    rbm = hm.RBM(units.Gaussian(3), kind(1))
    hm.fit(rbm, rows, epochs=30, batch_size=50, progress=False, seed=0)
    rbm.check_normalizable()
