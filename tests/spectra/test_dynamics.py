"""The theory of learning, tested against reference values, finite differences and gradients of machines."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import harmonium as hm
from harmonium import spectra, units
from harmonium.errors import InvalidData, InvalidOption

GOLDEN = json.loads((Path(__file__).parent / "golden_spectral.json").read_text())


def tensor(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def svd(weight: torch.Tensor) -> spectra.Spectrum:
    u, w, vt = torch.linalg.svd(weight, full_matrices=False)
    return spectra.Spectrum(w, u.T, vt)


# -- changes of singular values and vectors -------------------------------------------------------------------


def test_golden_motion():
    case = {name: tensor(value) for name, value in GOLDEN["svd_kinematics"].items() if name != "note"}
    modes = spectra.Spectrum(case["w"], case["U"].T, case["V"].T)
    found = spectra.kinematics(modes, case["dW_dt"])
    torch.testing.assert_close(found.rates, case["dw_dt"], rtol=0, atol=1e-12)
    torch.testing.assert_close(found.visible, case["Omega_v"], rtol=0, atol=1e-12)
    torch.testing.assert_close(found.hidden, case["Omega_h"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [(7, 4), (4, 7), (5, 5)])
def test_motion_by_finite_differences(size):
    generator = torch.Generator().manual_seed(0)
    weight, change = (torch.randn(size, generator=generator, dtype=torch.float64) for _ in range(2))
    at = svd(weight)
    found = spectra.kinematics(at, change)
    step = 1e-6
    before, after = svd(weight - step * change), svd(weight + step * change)
    torch.testing.assert_close(found.rates, (after.values - before.values) / (2 * step), rtol=0, atol=1e-8)
    for side, rotation, outwards in zip(("left", "right"), (found.visible, found.hidden), found.outwards, strict=True):
        here, ends = getattr(at, side), [getattr(end, side) for end in (before, after)]
        ends = [end * (end * here).sum(1, keepdim=True).sign() for end in ends]  # the sign of a vector is arbitrary
        moved = (ends[1] - ends[0]) / (2 * step)
        torch.testing.assert_close(rotation, moved @ here.T, rtol=0, atol=1e-7)
        out = moved - (moved @ here.T) @ here
        torch.testing.assert_close(outwards, out.norm(dim=1), rtol=0, atol=1e-7)


def test_modes_of_the_same_strength_have_no_rotation():
    found = spectra.kinematics(svd(torch.eye(3, dtype=torch.float64)), torch.ones(3, 3))
    assert (found.visible == 0).all() and torch.isfinite(found.hidden).all()
    with pytest.raises(InvalidData, match=r"expected shape \(3, 3\)"):
        spectra.kinematics(svd(torch.eye(3)), torch.ones(2, 3))


def test_the_drive_is_the_gradient_of_the_likelihood():
    """dw_α is the derivative of the mean log-likelihood with respect to w_α, from enumeration and differences."""
    rbm = hm.RBM(units.Bernoulli(6), units.Bernoulli(3)).double()
    rbm.initialize(weights="normal", scale=1.0, seed=0)
    data = torch.bernoulli(torch.full((50, 6), 0.4), generator=torch.Generator().manual_seed(0)).double()
    states, log_p = rbm.distribution()
    model = states[
        torch.multinomial(log_p.exp(), 400_000, replacement=True, generator=torch.Generator().manual_seed(1))
    ]
    modes = spectra.spectrum(rbm)
    found = spectra.drive(rbm, data, model).rates
    weight = rbm.coupling.weight.detach().clone()
    for mode in range(3):
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                rbm.coupling.weight.copy_(weight + step * torch.outer(modes.left[mode], modes.right[mode]))
            values.append(hm.likelihood.exact(rbm).log_likelihood(data).value)
        assert found[mode].item() == pytest.approx((values[0] - values[1]) / 2e-5, abs=0.01)  # 4 standard errors
    with pytest.raises(InvalidData, match="at least one"):
        spectra.drive(rbm, data[:0], model)


# -- the empirical term ---------------------------------------------------------------------------------------


def test_mean_slope():
    x, expected = tensor(GOLDEN["V_eq9"]).T
    torch.testing.assert_close(spectra.mean_slope(x), expected, rtol=0, atol=1e-13)
    large = torch.tensor([1e4, 1e8], dtype=torch.float64)  # V → √(2/(π x))
    torch.testing.assert_close(spectra.mean_slope(large), (2 / (math.pi * large)).sqrt(), rtol=1e-3, atol=0)


def test_the_empirical_term_is_the_mean_over_random_right_vectors():
    """Eq. (9) averages over v; compare with machines with random right vectors."""
    generator = torch.Generator().manual_seed(0)
    visible, hidden, w, theta = 30, 20_000, tensor([3.0, 2.0]), tensor([100.0, -150.0])
    u = torch.linalg.qr(torch.randn(visible, 2, generator=generator, dtype=torch.float64)).Q
    v = torch.linalg.qr(torch.randn(hidden, 2, generator=generator, dtype=torch.float64)).Q
    rows = torch.bernoulli(torch.full((40, visible), 0.7, dtype=torch.float64), generator=generator) * 2 - 1
    modes = spectra.Spectrum(60 * w, u.T, v.T)
    found = spectra.empirical_term(modes, rows, theta)
    means = torch.tanh(rows @ (u * 60 * w) @ v.T + v @ theta)
    direct = (rows @ u).T @ (means @ v) / len(rows)
    torch.testing.assert_close(found, direct, rtol=0.02, atol=0.02 * direct.abs().max().item())
    for other in (None, -theta):  # the field and its sign have an effect
        assert (spectra.empirical_term(modes, rows, other) - found).abs().max() > 0.1 * found.abs().max()


def test_without_strength_the_empirical_term_is_the_covariance():
    generator = torch.Generator().manual_seed(1)
    modes = svd(1e-4 * torch.randn(6, 4, generator=generator, dtype=torch.float64))
    rows = torch.randint(0, 2, (30, 6), generator=generator).double() * 2 - 1
    s = modes.project(rows)
    torch.testing.assert_close(spectra.empirical_term(modes, rows), s.T @ s / 30 * modes.values, rtol=1e-6, atol=0)


# -- the linear machine ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["linear_rbm"])
def test_golden_equilibria(case):
    theory = spectra.LinearTheory(case["data_var"], case["sv2"], case["sh2"])
    expected = tensor(case["w"])
    torch.testing.assert_close(theory.equilibrium(case["Nh"]), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(theory.rates(expected), torch.zeros_like(expected), rtol=0, atol=1e-12)
    long = theory.evolve(torch.full_like(expected, 1e-2), torch.tensor([0.0, 3000.0]))
    torch.testing.assert_close(long[1], expected, rtol=0, atol=1e-5)
    assert theory.unstable == sum(s > case["sv2"] for s in case["data_var"])


def gaussian(precision: float, weight: torch.Tensor) -> hm.RBM:
    rbm = hm.RBM(units.Gaussian(len(weight), precision=precision), units.Gaussian(weight.shape[1])).double()
    with torch.no_grad():
        rbm.coupling.weight.copy_(weight)
    return rbm


@pytest.mark.slow
def test_rates_and_likelihood_are_those_of_a_gaussian_machine():
    """For aligned modes, compare with the gradient of a machine with exact samples, and with its likelihood."""
    theory = spectra.LinearTheory([4.0, 2.0, 1.0, 0.5], visible_variance=1.25)
    w = tensor([0.5, 0.3, 0.2])
    weight = torch.zeros(4, 3, dtype=torch.float64)
    weight[:3] = torch.diag(w)
    rbm = gaussian(0.8, weight)
    generator = torch.Generator().manual_seed(0)
    covariance = torch.linalg.inv(0.8 * torch.eye(4, dtype=torch.float64) - weight @ weight.T)
    root = torch.linalg.cholesky(covariance)
    draws = torch.randn(200_000, 4, generator=generator, dtype=torch.float64)
    draws = torch.cat([draws, -draws])
    data = draws * theory.variances.sqrt()
    found = spectra.drive(rbm, data, draws @ root.T).rates
    torch.testing.assert_close(found, theory.rates(w), rtol=0, atol=0.02)
    log_p = torch.distributions.MultivariateNormal(torch.zeros(4, dtype=torch.float64), covariance).log_prob(data)
    assert theory.log_likelihood(w).item() == pytest.approx(log_p.mean().item(), abs=0.02)


def test_modes_appear_one_after_the_other_and_each_raises_the_likelihood():
    theory = spectra.LinearTheory([5.0, 3.0, 2.0, 0.5])
    times = torch.linspace(0, 40, 200, dtype=torch.float64)
    path = theory.evolve(torch.full((4,), 1e-4), times)
    half = [int((path[:, k] > theory.equilibrium(4)[k] / 2).nonzero()[0]) for k in range(3)]
    assert half == sorted(half) and len(set(half)) == 3
    assert (path[:, 3].diff() <= 0).all() and path[-1, 3] < 1e-8
    assert (theory.log_likelihood(path).diff() >= -1e-12).all()


def test_wrong_input():
    theory = spectra.LinearTheory([2.0, 1.0])
    with pytest.raises(InvalidOption, match="not negative"):
        spectra.LinearTheory([1.0, -1.0])
    with pytest.raises(InvalidOption, match="positive variances"):
        spectra.LinearTheory([1.0], visible_variance=0.0)
    for start, times, words in (
        ([0.1, 0.1, 0.1], [1.0], "at most 2"),
        ([1.0], [1.0], "ln Z diverges"),
        ([0.1], [2.0, 1.0], "increasing"),
        ([0.1], [], "increasing"),
    ):
        with pytest.raises(InvalidData, match=words):
            theory.evolve(torch.tensor(start), torch.tensor(times))
