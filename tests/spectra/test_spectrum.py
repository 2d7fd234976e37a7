"""Spectra of the weights: modes, gauges, the Marchenko–Pastur law, and their changes during a run."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad

import harmonium as hm
from harmonium import spectra, units
from harmonium.errors import InvalidData, InvalidOption


def machine(visible: units.Unit, hidden: units.Unit, seed: int = 0, scale: float = 1.0) -> hm.RBM:
    rbm = hm.RBM(visible, hidden).double()
    rbm.initialize(weights="normal", scale=scale, seed=seed)
    return rbm


# -- one machine ----------------------------------------------------------------------------------------------


def test_the_modes_make_up_the_weights():
    rbm = machine(units.Spin((3, 4)), units.Gaussian(5))
    found = spectra.spectrum(rbm)
    again = torch.einsum("k,kij,kh->ijh", found.values, found.left, found.right)
    torch.testing.assert_close(again.flatten(0, 1), rbm.coupling.matrix().detach(), rtol=0, atol=1e-13)
    assert len(found) == 5 and found.size == (12, 5)
    assert (found.values.diff() <= 0).all()
    largest = found.left.flatten(1).gather(1, found.left.flatten(1).abs().argmax(1, keepdim=True))
    assert (largest > 0).all()


def test_layers_of_a_deep_machine():
    deep = hm.DeepBoltzmannMachine([units.Spin(6), units.Spin(5), units.Spin(3)]).double()
    deep.initialize(scale=1.0, seed=0)
    expected = torch.linalg.svdvals(deep.couplings[1].weight.detach())
    torch.testing.assert_close(spectra.spectrum(deep, 1).values, expected)
    with pytest.raises(InvalidOption, match="0 to 1, found 2"):
        spectra.spectrum(deep, 2)


def test_the_gauge_of_one_hot_units_does_not_matter():
    rbm = machine(units.Potts((4, 3)), units.Potts((2, 3)))
    before = spectra.spectrum(rbm).values
    with torch.no_grad():
        rbm.coupling.weight += torch.randn(4, 1, 6, dtype=torch.float64).expand(4, 3, 6).reshape(12, 6)
        rbm.coupling.weight += torch.randn(12, 2, 1, dtype=torch.float64).expand(12, 2, 3).reshape(12, 6)
    torch.testing.assert_close(spectra.spectrum(rbm).values, before)


def test_parts_of_a_mixed_layer_keep_their_own_gauge():
    rbm = machine(units.Mixed(units.Bernoulli(3), units.Potts((2, 3))), units.Spin(4))
    weight = rbm.coupling.matrix().detach().clone()
    weight[3:] -= weight[3:].view(2, 3, 4).mean(1, keepdim=True).expand(2, 3, 4).reshape(6, 4)
    torch.testing.assert_close(spectra.spectrum(rbm).values, torch.linalg.svdvals(weight))


def test_relative_weights_do_not_depend_on_how_the_states_are_written():
    """Equivalent machines of {0, 1}, spin and two-state Potts units have the same relative spectrum."""
    spins = machine(units.Spin(5), units.Spin(3))
    weight = spins.coupling.weight.detach()
    binary = hm.RBM(units.Bernoulli(5, bias=0.7), units.Bernoulli(3, bias=-0.2)).double()
    potts = hm.RBM(units.Potts((5, 2)), units.Spin(3)).double()
    with torch.no_grad():
        binary.coupling.weight.copy_(4 * weight)
        potts.coupling.weight.copy_(torch.stack([weight, -weight], 1).reshape(10, 3))
    expected = torch.linalg.svdvals(weight)
    for equal in (spins, binary, potts):
        torch.testing.assert_close(spectra.spectrum(equal, relative=True).values, expected)


def test_relative_weights_of_a_linear_machine_reach_one_where_it_loses_its_norm():
    visible, hidden = units.Gaussian(4, precision=0.5), units.Gaussian(3, precision=2.0)
    rbm = machine(visible, hidden)
    with torch.no_grad():
        rbm.coupling.weight /= spectra.spectrum(rbm, relative=True).values[0]
        rbm.coupling.weight *= 0.999
        rbm.check_normalizable()
        rbm.coupling.weight *= 1.002
    with pytest.raises(hm.errors.NotNormalizable):
        rbm.check_normalizable()


def test_participation_and_effective_rank():
    eye, flat = torch.eye(4, dtype=torch.float64), torch.full((1, 4), 0.5, dtype=torch.float64)
    found = spectra.Spectrum(torch.tensor([2.0, 0.0]).double(), torch.cat([eye[:1], flat]), eye[:2])
    torch.testing.assert_close(found.participation[0], torch.tensor([0.25, 1.0]).double())
    assert found.effective_rank == 1.0
    zero = spectra.Spectrum(torch.zeros(2), eye[:2], eye[:2])
    assert zero.effective_rank == 0.0


def test_weights_that_are_not_finite_are_refused():
    rbm = machine(units.Spin(3), units.Spin(2))
    rbm.coupling.weight.data[0, 0] = math.nan
    with pytest.raises(InvalidData, match="finite"):
        spectra.spectrum(rbm)


# -- the noise ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(400, 100), (100, 400), (150, 150)])
def test_the_law_of_noise(size):
    law = spectra.MarchenkoPastur(*size, 0.3)
    low, high = law.edges
    density = lambda w: law.density(torch.tensor([w])).item()  # noqa: E731
    assert quad(density, low, high, limit=200)[0] == pytest.approx(1, abs=1e-6)
    assert quad(density, low, law.median, limit=200)[0] == pytest.approx(0.5, abs=1e-4)
    assert density(low - 0.01) == density(high + 0.01) == 0
    values = torch.linalg.svdvals(0.3 * torch.randn(size, generator=torch.Generator().manual_seed(0)).double())
    inside = ((values > low - 0.1) & (values < high + 0.1)).all()
    assert inside and values.median().item() == pytest.approx(law.median, rel=0.03)
    assert spectra.MarchenkoPastur.of(values, *size).std == pytest.approx(0.3, rel=0.03)


@pytest.mark.slow
def test_noise_exceeds_the_threshold_once_in_a_thousand():
    generator = torch.Generator().manual_seed(0)
    law = spectra.MarchenkoPastur(60, 30, 1.0)
    largest = torch.linalg.matrix_norm(torch.randn(20_000, 60, 30, generator=generator), ord=2)
    share = (largest > law.threshold).double().mean().item()
    assert 0.0003 < share < 0.003  # expected 20 of 20 000, with a margin for small matrices
    assert (largest > law.edges[1]).double().mean().item() > 0.05


def test_what_was_added_to_noise_stands_out():
    generator = torch.Generator().manual_seed(1)
    rbm = hm.RBM(units.Spin(200), units.Spin(100)).double()
    u, v = (torch.linalg.qr(torch.randn(n, 3, generator=generator).double()).Q for n in (200, 100))
    strong = torch.tensor([3.0, 2.0, 1.5]).double()
    with torch.no_grad():
        rbm.coupling.weight.copy_(0.05 * torch.randn(200, 100, generator=generator).double() + (u * strong) @ v.T)
    found = spectra.spectrum(rbm)
    assert found.outliers == 3
    assert found.noise.std == pytest.approx(0.05, rel=0.03)
    # expected singular value of a mode in noise, √((w² + σ²N)(w² + σ²M))/w; its standard deviation is about σ
    expected = ((strong**2 + 0.5) * (strong**2 + 0.25)).sqrt() / strong
    torch.testing.assert_close(found.values[:3], expected, rtol=0, atol=3 * 0.05)


@pytest.mark.parametrize(("rows", "std"), [(0, 1.0), (3, 0.0), (3, math.nan), (3, math.inf)])
def test_impossible_noise_is_refused(rows, std):
    with pytest.raises(InvalidOption, match="positive std"):
        spectra.MarchenkoPastur(rows, 3, std)


def test_weights_without_a_bulk_say_so():
    found = spectra.spectrum(hm.RBM(units.Spin(4), units.Spin(3)))
    assert found.values.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(InvalidData, match="half are zero"):
        _ = found.outliers


# -- the data -------------------------------------------------------------------------------------------------


def test_modes_of_the_data():
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(5000, 2, 3, generator=generator) * torch.tensor([[3.0, 1, 1], [1, 2, 1]]) + 5
    found = spectra.data_modes(rows)
    expected = np.linalg.eigvalsh(np.cov(rows.flatten(1).numpy().T.astype(np.float64), bias=True))[::-1]
    np.testing.assert_allclose(found.variances, expected.copy(), rtol=1e-10)
    assert abs(found.axes[0, 0, 0]) > 0.99 and abs(found.axes[1, 1, 1]) > 0.99
    about_zero = spectra.data_modes(rows, centered=False)
    mean = found.mean.flatten() / found.mean.norm()
    assert abs(about_zero.axes[0].flatten() @ mean) > 0.99
    with pytest.raises(InvalidData, match="two rows"):
        spectra.data_modes(rows[:1])


# -- during a run ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_picks_up_the_axes_of_its_data():
    """Data vary along two axes; the two leading modes align with them, one after the other."""
    generator = torch.Generator().manual_seed(3)
    axes = torch.linalg.qr(torch.randn(20, 2, generator=generator).double()).Q.T
    rows = torch.randn(2000, 2, generator=generator).double() * torch.tensor([3.0, 2.0]) @ axes
    rows += 0.5 * torch.randn(2000, 20, generator=generator).double()
    rbm = hm.RBM(units.Gaussian(20), units.Gaussian(5)).double()
    rbm.initialize(scale=1e-3, seed=0)
    kept = {0: spectra.spectrum(rbm)}
    machines = {0.0: hm.RBM(units.Gaussian(20), units.Gaussian(5)).double()}
    machines[0.0].load_state_dict(rbm.state_dict())
    hm.fit(rbm, rows, negative=hm.PCD(1), epochs=45, batch_size=100, seed=0, progress=False, initialize="keep")
    machines[45.0] = rbm
    history = spectra.spectral_history(machines)
    assert history.epochs == [0.0, 45.0]
    torch.testing.assert_close(history.values[0], kept[0].values)
    start, end = history.alignment(axes, modes=2).tolist()
    assert start < 0.5 and end > 0.98
    assert history.outliers[1] >= 2 and history.turned(2).shape == (1,) and history.turned(2)[0] > 0.5
    assert spectra.spectral_history([rbm]).turned().shape == (0,)
    with pytest.raises(InvalidOption, match="1 to 2, found 3"):
        history.alignment(axes, modes=3)
    with pytest.raises(InvalidData, match="at least one checkpoint"):
        spectra.spectral_history({})
