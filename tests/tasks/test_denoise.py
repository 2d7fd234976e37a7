"""Posteriors compared with reference values, enumeration and quadrature; limits of the channels; errors."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.stats
import torch
from cases import F64, UNITS, generator, rbm
from oracle import joint
from task_helpers import BSC, binary, conditional, deep, gaussian_posterior, summed, tensor

import harmonium as hm
from harmonium import tasks, units
from harmonium.couplings import Dense
from harmonium.errors import HarmoniumError, InvalidData, InvalidOption, NotNormalizable
from harmonium.tasks import AdditiveGaussian, BinarySymmetric, Erasure, denoise, inference
from harmonium.tasks.denoising import evidence_of

CASES = {f"p={case['p']:g}": case for case in BSC["cases"]}
NOISY = tensor([BSC["y"]])
BITS = UNITS["bernoulli"]
STRICT = {"tolerance": 1e-26, "max_iterations": 5000}
#: Poisson units do not support TAP; multinomial units do not support mean field with evidence
TAP_UNITS = [name for name in UNITS if name not in ("poisson", "multinomial", "at-most-one")]


def prior_mean(machine: hm.RBM) -> torch.Tensor:
    states, log_p = machine.distribution()
    return log_p.exp() @ states


# -- the binary symmetric channel ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_field_has_the_sign_of_the_observation(case):
    evidence = evidence_of(binary(), NOISY, BinarySymmetric(case["p"]))
    assert evidence.A is None and evidence.known is None
    torch.testing.assert_close(evidence.B, tensor([case["D"]]), rtol=1e-14, atol=0)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_posterior_machine_is_exact(case):
    machine = binary()
    evidence = evidence_of(machine, NOISY, BinarySymmetric(case["p"]))
    found = summed(machine, evidence, BITS.nodes(machine.hidden))
    torch.testing.assert_close(found, tensor([case["posterior"]]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_mean_field_is_near_and_tap_nearer(case):
    machine, channel, exact = binary(), BinarySymmetric(case["p"]), tensor([case["posterior"]])
    results = [denoise(machine, NOISY, channel, method=method, **STRICT) for method in ("tap", "naive")]
    results.append(tasks.Pointwise(machine.visible).estimate(NOISY, channel))
    tap, naive, pointwise = ((found.means - exact).abs().max().item() for found in results)
    assert all(bool(found.converged.all()) for found in results)
    assert tap < naive / 4 and naive < pointwise


@pytest.mark.parametrize("method", ["tap", "naive"])
def test_the_error_falls_with_the_order_of_the_method(method):
    """Half the weights give 1/8 of the error for TAP (third order) and 1/4 for naive mean field (second order)."""
    errors = []
    for scale in (0.2, 0.1):
        machine, channel = binary(scale=scale), BinarySymmetric(0.3)
        exact = summed(machine, evidence_of(machine, NOISY, channel), BITS.nodes(machine.hidden))
        errors.append((denoise(machine, NOISY, channel, method=method, **STRICT).means - exact).norm().item())
    order = math.log2(errors[0] / errors[1])
    assert abs(order - {"tap": 3, "naive": 2}[method]) < 0.25


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gibbs_is_exact_within_its_error(case):
    found = denoise(binary(), NOISY, BinarySymmetric(case["p"]), method="gibbs", chains=64, sweeps=200, seed=0)
    assert bool(found.converged.all())
    assert ((found.means - tensor([case["posterior"]])).abs() < 4.5 * found.standard_error).all()
    spread = found.means * (1 - found.means)
    torch.testing.assert_close(found.variances, spread, rtol=1e-10, atol=1e-12)
    assert (found.standard_error < 0.02).all() and (found.standard_error[spread > 1e-3] > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("chains", [4, 16])
def test_errors_of_gibbs_in_standard_errors_have_student_s_distribution(chains):
    """The error is known from 2·chains numbers only, so a few of many entries are off by more than 5 of them."""
    machine = hm.RBM(30, 8).double()
    machine.initialize(scale=0.3, seed=0)
    channel = BinarySymmetric(0.2)
    noisy = channel.corrupt(torch.randint(2, (300, 30), generator=generator(0)).to(F64), seed=0)
    exact = denoise(machine, noisy, channel, method="exact").means
    found = denoise(machine, noisy, channel, method="gibbs", chains=chains, seed=1)
    score = ((found.means - exact) / found.standard_error).abs()
    for size in (2.0, 3.0, 5.0):
        share, expected = float((score > size).double().mean()), 2 * scipy.stats.t.sf(size, 2 * chains - 1)
        assert 0.5 * expected - 2e-4 < share < 2 * expected + 2e-4, (size, share, expected)


def test_spins_see_the_same_posterior():
    """With x = (1 + s)/2, equivalent binary and spin machines have the same posterior, for every method."""
    bits = binary()
    W, b, c = (x.detach() for x in (bits.coupling.matrix(), bits.visible.bias, bits.hidden.bias))
    visible = units.Spin(len(b), bias=b / 2 + W.sum(1) / 4)
    hidden = units.Spin(len(c), bias=c / 2 + W.sum(0) / 4)
    spins = hm.RBM(visible, hidden, Dense(len(b), len(c), W / 4))
    channel = BinarySymmetric(0.2, values=(-1, 1))
    one = summed(bits, evidence_of(bits, NOISY, BinarySymmetric(0.2)), BITS.nodes(bits.hidden))
    two = summed(spins, evidence_of(spins, 2 * NOISY - 1, channel), UNITS["spin"].nodes(spins.hidden))
    torch.testing.assert_close((1 + two) / 2, one, rtol=0, atol=1e-12)
    sampled = denoise(spins, 2 * NOISY - 1, channel, method="gibbs", chains=64, sweeps=200, seed=1)
    assert ((sampled.means - two).abs() < 4.5 * sampled.standard_error).all()


def test_it_is_the_machine_with_a_shifted_bias():
    machine, channel = binary(), BinarySymmetric(0.15)
    shifted = binary()
    with torch.no_grad():
        shifted.visible.bias += evidence_of(machine, NOISY, channel).B[0]
    start = tasks.Pointwise(machine.visible).estimate(NOISY, channel).means
    expected = hm.meanfield.tap(shifted, start=start, **STRICT)
    found = denoise(machine, NOISY, channel, method="tap", **STRICT)
    torch.testing.assert_close(found.means, expected.magnetizations[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(found.variances, expected.variances[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(found.free_energy, expected.free_energy, rtol=1e-12, atol=0)


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("method", ["tap", "naive", "gibbs"])
@pytest.mark.parametrize("build", [binary, deep], ids=["rbm", "deep"])
def test_without_noise_the_signal_comes_back_exactly(method, build):
    machine = build()
    signal = torch.randint(2, (6, machine.visible.size), generator=torch.Generator().manual_seed(0)).to(F64)
    found = denoise(machine, BinarySymmetric(0.0).corrupt(signal, seed=0), BinarySymmetric(0.0), method=method, seed=0)
    assert torch.equal(found.means, signal) and torch.equal(found.rounded, signal)
    assert bool(found.converged.all()) and not found.variances.any()


@pytest.mark.slow
def test_with_all_information_lost_the_prior_is_left():
    machine, channel = binary(), BinarySymmetric(0.5)
    other = 1 - NOISY
    found = denoise(machine, torch.cat([NOISY, other]), channel, method="tap", **STRICT)
    torch.testing.assert_close(found.means[0], found.means[1], rtol=0, atol=1e-13)  # no information in y
    prior = hm.meanfield.tap(machine, start=machine.visible.mean(torch.zeros_like(NOISY)).detach(), **STRICT)
    torch.testing.assert_close(found.means[:1], prior.magnetizations[0], rtol=0, atol=1e-12)
    sampled = denoise(machine, NOISY, channel, method="gibbs", chains=64, sweeps=200, seed=0)
    assert ((sampled.means - prior_mean(machine)).abs() < 4.5 * sampled.standard_error).all()


# -- the exact posterior, and mean field compared with it -----------------------------------------------------------


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_few_hidden_units_are_summed_out(case):
    found = denoise(binary(), NOISY, BinarySymmetric(case["p"]), chains=2000, seed=0)
    assert found.method == "exact" and bool(found.converged.all())
    exact = tensor([case["posterior"]])
    torch.testing.assert_close(found.means, exact, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.variances, exact * (1 - exact), rtol=0, atol=1e-12)
    assert ((found.draws.mean(1) - exact).abs() <= 4.5 * (exact * (1 - exact) / 2000).sqrt() + 1e-12).all()


def coupled(scale: float, hidden: int = 4) -> tuple[hm.RBM, torch.Tensor]:
    """A machine with strong random couplings, and noisy rows of it."""
    machine = hm.RBM(units.Bernoulli(8), units.Bernoulli(hidden)).double()
    source = torch.Generator().manual_seed(0)
    with torch.no_grad():
        machine.coupling.weight.copy_(scale * torch.randn(8, hidden, generator=source, dtype=F64))
        for layer in machine.layers:
            layer.bias.copy_(torch.randn(layer.bias.shape, generator=source, dtype=F64))
    rows = machine.sample(40, sweeps=50, seed=0, check_mixing=False)
    return machine, BinarySymmetric(0.15).corrupt(rows, seed=1)


def test_wrong_solutions_have_not_converged():
    machine, noisy = coupled(5.0)
    exact = denoise(machine, noisy, BinarySymmetric(0.15), method="exact").means
    with pytest.warns(hm.errors.Inaccurate, match="differ from the exact posterior by up to"):
        found = denoise(machine, noisy, BinarySymmetric(0.15), method="tap")
    wrong = (found.means - exact).abs().amax(1) > 0.1
    assert wrong.any() and found.converged.any() and not found.converged[wrong].any()
    assert wrong[~found.converged].all()


def test_chains_that_stay_in_a_part_of_the_posterior_have_not_converged():
    """Two opposite patterns, both equally near to the observation."""
    machine = hm.RBM(units.Bernoulli(8), units.Bernoulli(2)).double()
    with torch.no_grad():
        machine.coupling.weight.copy_(torch.tensor([[12.0, -12.0]] * 4 + [[-12.0, 12.0]] * 4))
    noisy = torch.tensor([[1.0, 1, 0, 0, 1, 1, 0, 0]], dtype=F64)
    options = {"method": "gibbs", "seed": 0, "sweeps": 20, "warm_up": 0}
    with pytest.warns(hm.errors.Inaccurate, match="use method='exact'"):
        found = denoise(machine, noisy, BinarySymmetric(0.45), start=torch.tensor([[1.0] * 4 + [0.0] * 4]), **options)
    assert not found.converged.any()


def test_some_rows_of_large_machines_are_compared_with_chains(monkeypatch):
    machine, noisy = coupled(5.0)
    exact = denoise(machine, noisy, BinarySymmetric(0.15), method="exact").means
    monkeypatch.setattr(inference, "_MOST_TERMS", 0)
    with pytest.warns(hm.errors.Inaccurate, match="of 16 checked rows differ from Gibbs sampling|of 1. checked rows"):
        found = denoise(machine, noisy, BinarySymmetric(0.15))
    assert found.method == "tap"
    lost = ~found.converged
    assert lost.any() and ((found.means - exact).abs().amax(1) > 0.05)[lost].all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert denoise(coupled(0.3)[0], noisy, BinarySymmetric(0.15)).converged.all()


# -- other channels, all units -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.fast_cases(4)
def test_gaussian_noise_on_every_unit(name):
    """ln Z and mean with evidence, and Gibbs sampling, compared with quadrature of the joint distribution."""
    case, sigma = rbm(name, "bernoulli", (2, 2)), 0.8
    machine = case.build()
    nodes = case.nodes(machine)
    signal = joint(machine, nodes).draw(3, generator(name))[0]
    noisy = AdditiveGaussian(sigma).corrupt(signal, seed=4)
    exact = gaussian_posterior(machine, nodes, noisy, sigma)
    evidence = evidence_of(machine, noisy, AdditiveGaussian(sigma))
    torch.testing.assert_close(summed(machine, evidence, nodes[1]), exact, rtol=1e-7, atol=1e-7)
    by_sum = denoise(machine, noisy, AdditiveGaussian(sigma), method="exact", chains=64, seed=1)
    torch.testing.assert_close(by_sum.means, exact, rtol=1e-7, atol=1e-7)
    machine.visible.check(by_sum.draws.flatten(0, 1))
    found = denoise(machine, noisy, AdditiveGaussian(sigma), method="gibbs", chains=64, sweeps=30, warm_up=10, seed=2)
    assert ((found.means - exact).abs() < 4.5 * found.standard_error + 1e-7).all()
    machine.visible.check(found.draws.flatten(0, 1))


@pytest.mark.parametrize(
    ("name", "method"), [*((name, "tap") for name in TAP_UNITS), ("poisson", "naive"), ("truncated-gaussian", "naive")]
)
@pytest.mark.fast_cases(4)
def test_mean_field_in_gaussian_noise_on_every_unit(name, method):
    """The error is of third order in the weights for TAP and of second for naive mean field, for all units."""
    errors = []
    case, sigma = rbm(name, "bernoulli", (2, 2)), 0.7
    for scale in (0.5, 0.25):
        machine = case.build()
        with torch.no_grad():
            machine.coupling.weight *= scale
        nodes = case.nodes(machine)
        noisy = joint(machine, nodes).draw(4, generator(name))[0] + 0.3
        exact = gaussian_posterior(machine, nodes, noisy, sigma)
        found = denoise(machine, noisy, AdditiveGaussian(sigma), method=method, **STRICT)
        assert bool(found.converged.all())
        errors.append((found.means - exact).norm().item())
    order = {"tap": 3, "naive": 2}[method]
    assert errors[1] < errors[0] / 2 ** (order - 0.7), f"errors {errors} do not fall as the power {order}"


def test_gaussian_units_in_gaussian_noise_are_a_machine_with_other_parameters():
    source = torch.Generator().manual_seed(0)
    W = 0.3 * torch.randn(4, 3, generator=source, dtype=F64)
    bias, y, sigma = torch.randn(4, generator=source, dtype=F64), torch.randn(1, 4, generator=source, dtype=F64), 0.6

    def build(bias, precision):
        visible = units.Gaussian(4, bias=bias, precision=precision)
        return hm.RBM(visible, units.Bernoulli(3, bias=torch.zeros(3, dtype=F64)), Dense(4, 3, W))

    machine = build(bias, torch.full((4,), 1.5, dtype=F64))
    twin = build(bias + y[0] / sigma**2, torch.full((4,), 1.5 + 1 / sigma**2, dtype=F64))
    found = denoise(machine, y, AdditiveGaussian(sigma), method="tap", **STRICT)
    expected = hm.meanfield.tap(twin, **STRICT)
    torch.testing.assert_close(found.means, expected.magnetizations[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(found.free_energy, expected.free_energy, rtol=1e-12, atol=0)


def test_gaussian_noise_at_its_ends():
    machine = binary()
    none = denoise(machine, NOISY, AdditiveGaussian(0.0))
    assert torch.equal(none.means, NOISY)
    much = denoise(machine, NOISY, AdditiveGaussian(1e8), **STRICT)
    torch.testing.assert_close(
        much.means, denoise(machine, NOISY, BinarySymmetric(0.5), **STRICT).means, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("method", ["tap", "gibbs"])
def test_deep_machines(method):
    machine = deep()
    nodes = [BITS.nodes(unit) for unit in machine.layers]
    noisy = tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    exact, flips = joint(machine, nodes), (noisy.unsqueeze(1) != nodes[0][0]).sum(-1)
    weight = torch.softmax(exact.marginal(0).log() + flips * math.log(0.2 / 0.8), 1)
    posterior = weight @ nodes[0][0]
    found = denoise(machine, noisy, BinarySymmetric(0.2), method=method, chains=64, sweeps=200, seed=3)
    pointwise = tasks.Pointwise(machine.visible).estimate(noisy, BinarySymmetric(0.2)).means
    error = (found.means - posterior).abs()
    if method == "gibbs":
        assert (error < 4.5 * found.standard_error).all()
    assert error.max() < (pointwise - posterior).abs().max() / 4


# -- batches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["tap", "naive"])
@pytest.mark.slow
def test_every_row_has_evidence_of_its_own(method):
    """Converged rows are removed from the batch; no row may use the evidence of another."""
    machine = binary(scale=2.0)
    noisy = torch.randint(2, (40, 7), generator=torch.Generator().manual_seed(0)).to(F64)
    channel, options = BinarySymmetric(0.35), {"method": method, "tolerance": 1e-20}
    together = denoise(machine, noisy, channel, **options)
    assert len(together.iterations.unique()) > 1, "all rows took as long: the test tests nothing"
    for row in range(len(noisy)):
        alone = denoise(machine, noisy[row : row + 1], channel, **options)
        assert alone.iterations.item() == together.iterations[row]
        torch.testing.assert_close(alone.means[0], together.means[row], rtol=0, atol=1e-12)


def test_chains_of_many_rows_go_in_pieces(monkeypatch):
    machine, options = binary(), {"method": "gibbs", "chains": 16, "sweeps": 200}
    monkeypatch.setattr(inference, "_MOST_ELEMENTS", 2 * 16 * 7 * 2)  # two rows at a time
    found = denoise(machine, NOISY.expand(5, -1), BinarySymmetric(0.3), seed=0, **options)
    assert found.means.shape == (5, 7) and found.draws.shape == (5, 16, 7)
    exact = tensor(CASES["p=0.3"]["posterior"])
    assert ((found.means - exact).abs() < 5 * found.standard_error).all()
    assert len(found.means.unique(dim=0)) == 5, "chains of different rows shared their noise"


def test_rows_that_are_lost_are_said_to_be_and_spoil_no_other():
    """A Gaussian layer with negative precision in TAP, except in rows where it is known."""
    visible = units.Gaussian(2, precision=tensor([0.5, 0.5]))
    machine = hm.RBM(visible, units.Bernoulli(3, bias=torch.zeros(3, dtype=F64)), Dense(2, 3, tensor([[2.0] * 3] * 2)))
    x = tensor([[0.1, -0.1], [math.nan, math.nan], [0.2, 0.0]])
    found = tasks.impute(machine, x, method="tap")
    assert found.converged.tolist() == [True, False, True]
    assert (
        torch.isnan(found.means[1]).all() and torch.isnan(found.free_energy[1]) and torch.isnan(found.rounded[1]).all()
    )
    assert torch.equal(found.means[[0, 2]], x[[0, 2]])


def test_what_is_given_up_is_not_called_converged():
    found = denoise(binary(scale=2.0), NOISY, BinarySymmetric(0.4), method="tap", tolerance=1e-20, max_iterations=3)
    assert not found.converged.any() and found.iterations.tolist() == [3]
    assert torch.isfinite(found.means).all() and torch.isnan(found.free_energy).all()
    short = denoise(binary(scale=3.0), NOISY, BinarySymmetric(0.5), method="gibbs", chains=2, sweeps=4, seed=0)
    assert not short.converged.any()


def test_starts():
    """With strong couplings the result depends on the start; a start can be the estimator from training data."""
    machine = hm.RBM(
        units.Spin(4, bias=torch.zeros(4, dtype=F64)),
        units.Spin(4, bias=torch.zeros(4, dtype=F64)),
        Dense(4, 4, torch.ones(4, 4, dtype=F64)),
    )
    noisy, channel = tensor([[1.0, -1.0, 1.0, -1.0]]), BinarySymmetric(0.5, values=(-1, 1))
    up, down = (denoise(machine, noisy, channel, method="tap", start=tensor([[s] * 4])).means for s in (0.5, -0.5))
    assert (up > 0.9).all() and torch.allclose(up, -down)
    layer = units.Spin(4, bias=torch.full((4,), -0.3, dtype=F64))
    assert torch.equal(denoise(machine, noisy, channel, method="tap", start=tasks.Pointwise(layer)).means, denoise(
        machine, noisy, channel, method="tap", start=layer.mean(torch.zeros_like(noisy)).detach()
    ).means)  # fmt: skip


def test_the_same_seed_the_same_result():
    machine, state = binary(), torch.get_rng_state()
    runs = [denoise(machine, NOISY, BinarySymmetric(0.3), method="gibbs", sweeps=20, seed=seed) for seed in (7, 7, 8)]
    assert torch.equal(runs[0].means, runs[1].means) and torch.equal(runs[0].draws, runs[1].draws)
    assert not torch.equal(runs[0].means, runs[2].means)
    given = denoise(
        machine, NOISY, BinarySymmetric(0.3), method="gibbs", sweeps=20, seed=torch.Generator().manual_seed(7)
    )
    assert torch.equal(given.means, runs[0].means)
    denoise(machine, NOISY, BinarySymmetric(0.3), method="tap")
    assert torch.equal(torch.get_rng_state(), state), "torch's own generator was used"


def test_the_machine_is_left_as_it_was():
    machine = binary()
    before = {name: value.clone() for name, value in machine.state_dict().items()}
    for method in ("tap", "naive", "gibbs"):
        denoise(machine, NOISY, BinarySymmetric(0.2), method=method, sweeps=10)
    assert all(torch.equal(value, before[name]) for name, value in machine.state_dict().items())
    assert all(p.grad is None for p in machine.parameters())


def test_hardly_any_noise():
    """The field is large but finite for every p above zero."""
    for p in (1e-12, 5e-324):
        found = denoise(binary(), NOISY, BinarySymmetric(p))
        torch.testing.assert_close(found.means, NOISY, rtol=0, atol=1e-9)
        assert bool(found.converged.all())


def test_single_precision_arrays():
    machine = binary().float()
    found = denoise(machine, np.array([BSC["y"]]), BinarySymmetric(0.1))
    assert found.means.dtype == torch.float32 and bool(found.converged.all())
    torch.testing.assert_close(
        found.means.double(), denoise(binary(), NOISY, BinarySymmetric(0.1)).means, rtol=0, atol=1e-3
    )


# -- errors ---------------------------------------------------------------------------------------------------------


def one(unit: units.Unit) -> hm.RBM:
    return hm.RBM(unit, units.Bernoulli(2))


REFUSED = {
    "shape": (one(units.Bernoulli(3)), torch.zeros(2, 4), BinarySymmetric(0.1), InvalidData, r"shape \(n, 3\)"),
    "no rows": (one(units.Bernoulli(3)), torch.zeros(0, 3), BinarySymmetric(0.1), InvalidData, "at least one row"),
    "gray": (one(units.Bernoulli(1)), [[0.5]], BinarySymmetric(0.1), InvalidData, "values 0 and 1, found 0.5"),
    "nan in bits": (one(units.Bernoulli(1)), [[math.nan]], BinarySymmetric(0.1), InvalidData, "found nan"),
    "nan in numbers": (one(units.Gaussian(1)), [[math.nan]], AdditiveGaussian(1.0), InvalidData, "expected finite"),
    "bits for spins": (one(units.Spin(1)), [[1.0]], BinarySymmetric(0.1), InvalidOption, "values 0 and 1, found spin"),
    "bits for reals": (one(units.Gaussian(1)), [[1.0]], BinarySymmetric(0.1), InvalidOption, "found gaussian"),
    "bits for one-hot": (one(units.Potts((1, 2))), [[[1.0, 0.0]]], BinarySymmetric(0.1), InvalidOption, "found potts"),
    "bits for a mixture": (
        one(units.Mixed(units.Bernoulli(1), units.Gaussian(1))), [[1.0, 1.0]], BinarySymmetric(0.1), InvalidOption,
        "found gaussian",
    ),
    "off the support": (one(units.Bernoulli(2)), [[2.0, math.nan]], Erasure(0.5), InvalidData, "expected binary"),
    "off the support, no noise": (one(units.ReLU(1)), [[-1.0]], AdditiveGaussian(0.0), InvalidData, "non-negative"),
    "too little noise": (one(units.Spin(1)), [[1.0]], AdditiveGaussian(1e-25), InvalidOption, "sigma: expected"),
    "tap of poisson": (one(units.Poisson(1)), [[1.0]], AdditiveGaussian(1.0), NotNormalizable, "A < 0"),
    "tap of counts": (
        one(units.Multinomial(3, total=2)), [[1.0, 1.0, 0.0]], AdditiveGaussian(1.0), InvalidOption, "method='gibbs'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    machine, noisy, channel, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        denoise(machine, noisy, channel, method="tap")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "tpa"}, "did you mean 'tap'"),
        ({"start": "random"}, "unknown start"),
        ({"start": torch.zeros(2, 7)}, "expected finite magnetizations of 1 rows, found 2"),
        ({"start": torch.full((1, 7), math.nan)}, "expected finite magnetizations"),
        ({"method": "tap", "max_iterations": 0}, "max_iterations: expected at least 1"),
        ({"method": "tap", "damping": 1.0}, "damping: expected"),
        ({"method": "gibbs", "chains": 0}, "chains: expected at least 1"),
        ({"method": "gibbs", "sweeps": 1}, "sweeps: expected at least 2"),
        ({"method": "gibbs", "warm_up": -1}, "warm_up: expected at least 0"),
        ({"method": "gibbs", "seed": -1}, "seed: expected"),
    ],
)
def test_refused_options(options, words):
    with pytest.raises(HarmoniumError, match=words):
        denoise(binary(), NOISY, BinarySymmetric(0.1), **options)


def test_a_prior_without_a_partition_function_is_refused():
    machine = hm.RBM(units.Gaussian(1), units.Gaussian(1), Dense(1, 1, torch.tensor([[2.0]])))
    for method in ("tap", "gibbs"):
        with pytest.raises(NotNormalizable):
            denoise(machine, [[0.3]], AdditiveGaussian(0.1), method=method)


def test_no_new_kind_of_unit():
    """A layer with evidence is not registered as a unit for files or the command line."""
    assert "observed" not in units.Unit.registry


def test_conditional_helper_agrees_with_the_posterior_machine():
    """Erasure for the machine of the reference values, by the two methods of the helpers."""
    machine, known = binary(), tensor([1, 0, 1, 1, 0, 0, 1]).bool()
    exact = conditional(machine, ["bernoulli", "bernoulli"], NOISY[0], known)
    evidence = evidence_of(machine, NOISY.masked_fill(~known, math.nan), Erasure(0.5))
    found = summed(machine, evidence, BITS.nodes(machine.hidden))
    torch.testing.assert_close(found[0], exact, rtol=0, atol=1e-12)
