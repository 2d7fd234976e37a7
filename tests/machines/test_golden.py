"""Exact sums against independently computed values."""

from __future__ import annotations

import pytest
import torch
from golden_machines import BINARY, BINARY_IDS, F64, GOLDEN, binary, digits, rbm, tensor

import harmonium as hm
from harmonium import units
from harmonium.couplings import Dense
from harmonium.machines import enumeration

every_binary = pytest.mark.parametrize("case", BINARY, ids=BINARY_IDS)


@every_binary
def test_log_partition(case):
    machine = binary(case)
    assert machine.log_partition() == pytest.approx(case["lnZ"], abs=1e-12)
    for parity in (0, 1):
        assert enumeration.log_partition(machine, parity) == pytest.approx(case["lnZ"], abs=1e-11)


@every_binary
def test_moments(case):
    (visible, hidden), (correlation,) = enumeration.moments(binary(case))
    torch.testing.assert_close(visible["bias"], tensor(case["mean_v"]), rtol=0, atol=1e-12)
    torch.testing.assert_close(hidden["bias"], tensor(case["mean_h"]), rtol=0, atol=1e-12)
    torch.testing.assert_close(correlation, tensor(case["corr_vh"]), rtol=0, atol=1e-12)


@every_binary
def test_single_precision(case):
    """ln Z is summed in float64 whatever the machine's dtype: the only error is rounding of the parameters."""
    machine = binary(case).float()
    rounded = enumeration.log_partition(binary(case).float().double())
    assert machine.log_partition() == rounded
    assert machine.log_partition() == pytest.approx(case["lnZ"], rel=1e-6)
    assert machine.dtype == torch.float32
    (visible, _), _ = enumeration.moments(machine)
    torch.testing.assert_close(visible["bias"].double(), tensor(case["mean_v"]), rtol=0, atol=2e-6)


@pytest.mark.parametrize("case", [c for c in BINARY if "test_v" in c], ids=[i for i in BINARY_IDS if i[:2] == "01"])
def test_free_energy_and_probability(case):
    machine, v = binary(case), tensor(case["test_v"])
    torch.testing.assert_close(machine.free_energy(v), tensor(case["free_energy"]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(machine.log_probability(v), tensor(case["logP"]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(machine.log_probability(v, case["lnZ"]), tensor(case["logP"]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [c for c in BINARY if "logP_all" in c], ids=["01-4x3", "01-6x5", "pm1-6x5"])
def test_distribution(case):
    states, log_p = binary(case).distribution()
    n = len(case["b"])
    assert states.shape == (2**n, n)
    bits = torch.tensor([[k >> i & 1 for i in range(n)] for k in range(2**n)], dtype=F64)
    assert torch.equal(states, bits if case["kind"] == "01" else 2 * bits - 1)
    torch.testing.assert_close(log_p, tensor(case["logP_all"]), rtol=0, atol=1e-12)
    assert log_p.exp().sum().item() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("case", GOLDEN["rbm_real_visible"], ids=lambda case: case["visible"])
def test_real_visible_units(case):
    n, bias, precision = len(case["U"]), tensor(case["U"]), tensor(case["V"])
    bounds = {"low": case["alpha"], "high": case["omega"]}
    visible = {
        "gaussian": lambda: units.Gaussian(n, bias=bias, precision=precision),
        "trunc_gauss": lambda: units.TruncatedGaussian(n, bias=bias, precision=precision, **bounds),
        "trunc_gauss_bernoulli": lambda: units.TruncatedGaussBernoulli(
            n, bias=bias, precision=precision, rho=tensor(case["rho"]), **bounds
        ),
    }[case["visible"]]()
    machine = rbm(visible, units.Bernoulli(len(case["c"]), bias=tensor(case["c"])), case["W"])
    assert machine.log_partition() == pytest.approx(case["lnZ"], abs=1e-11)
    (below, above), (correlation,) = enumeration.moments(machine)
    torch.testing.assert_close(below["bias"], tensor(case["mean_v"]), rtol=0, atol=1e-11)
    torch.testing.assert_close(above["bias"], tensor(case["mean_h"]), rtol=0, atol=1e-11)
    torch.testing.assert_close(correlation, tensor(case["corr_vh"]), rtol=0, atol=1e-11)


ACTIVATIONS = {"linear": units.Gaussian, "relu": units.ReLU, "step": units.Bernoulli, "exponential": units.Poisson}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("entry", GOLDEN["nbody"], ids=lambda entry: f"{len(entry['W'])}x{len(entry['W'][0])}")
def test_marginals_of_the_interaction_models(entry, activation):
    case = entry["act"][activation]
    hidden = ACTIVATIONS[activation](len(entry["c"]), bias=-tensor(entry["c"]))  # c is a threshold
    machine = rbm(units.Bernoulli(len(case["b"]), bias=tensor(case["b"])), hidden, entry["W"])
    _, log_p = machine.distribution()
    torch.testing.assert_close(log_p, tensor(case["logP"]), rtol=1e-11, atol=1e-11)
    uncoupled = hidden.log_partition(torch.zeros(hidden.shape, dtype=F64)).sum().item()
    assert machine.log_partition() - uncoupled == pytest.approx(case["lnZprime"], rel=1e-12)


@pytest.mark.parametrize("case", GOLDEN["fig2"], ids=["one-triple", "signs"])
def test_three_body_machines(case):
    hidden = units.Poisson(len(case["c"]), bias=-tensor(case["c"]))
    machine = rbm(units.Bernoulli(len(case["b"]), bias=tensor(case["b"])), hidden, case["W"])
    _, log_p = machine.distribution()
    torch.testing.assert_close(log_p, tensor(case["logP"]), rtol=1e-11, atol=1e-11)


def deep() -> hm.DeepBoltzmannMachine:
    case = GOLDEN["dbm"]
    layers = [units.Bernoulli(len(case[name]), bias=tensor(case[name])) for name in ("b0", "b1", "b2")]
    return hm.DeepBoltzmannMachine(layers, [Dense(5, 4, tensor(case["W1"])), Dense(4, 3, tensor(case["W2"]))])


def test_deep():
    case, machine = GOLDEN["dbm"], deep()
    for parity in (None, 0, 1):
        assert enumeration.log_partition(machine, parity) == pytest.approx(case["lnZ_exact"], abs=1e-12)
    layers, _ = enumeration.moments(machine)
    means = torch.cat([layer["bias"] for layer in layers])
    torch.testing.assert_close(means, tensor(case["mean_exact"]), rtol=0, atol=1e-12)


def test_deep_clamped():
    """Given the visible layer, the other layers are a machine with the fields of x added to its lowest biases."""
    case, machine = GOLDEN["dbm"], deep()
    x = tensor(case["x"])
    with torch.no_grad():
        first = units.Bernoulli(4, bias=machine.layers[1].bias + machine.couplings[0].up(x[None])[0])
        rest = hm.RBM(first, machine.layers[2], machine.couplings[1])
        own = machine.visible.log_weight(x).sum().item()
    clamped = rest.log_partition()
    assert clamped == pytest.approx(case["lnZ_clamped_exact"], abs=1e-12)
    assert own + clamped - machine.log_partition() == pytest.approx(case["logP_exact"], abs=1e-12)
    (below, above), _ = enumeration.moments(rest)
    means = torch.cat([below["bias"], above["bias"]])
    torch.testing.assert_close(means, tensor(case["mean_clamped_exact"]), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_trained_on_digits():
    machine, log_z = digits()
    assert log_z == pytest.approx(215.138406, abs=5e-7)
    assert machine.log_partition() == pytest.approx(log_z, abs=1e-9)
    assert machine.float().log_partition() == pytest.approx(log_z, abs=1e-4)


def test_contrastive_loss():
    """The loss to minimize is minus the published one, and its gradient is minus that of contrastive divergence."""
    case = GOLDEN["contrastive"]
    visible, hidden = (units.Bernoulli(len(case[name]), bias=tensor(case[name])) for name in "ab")
    machine = rbm(visible, hidden, case["W"])
    v, other = tensor(case["v"]), tensor(case["v_prime"])
    loss = len(v) * hm.losses.contrastive(machine, v, other)
    loss.backward()
    assert loss.item() == pytest.approx(-case["L_eq4"], abs=1e-12)
    for parameter, name in ((machine.coupling.weight, "W"), (visible.bias, "a"), (hidden.bias, "b")):
        torch.testing.assert_close(-parameter.grad, tensor(case["grad_L_eq4"][name]), rtol=0, atol=1e-12)
    levels = units.Multinary(len(case["b"]), levels=4, scale=0.5, form="integral", bias=tensor(case["b"]))
    machine = rbm(visible, levels, case["W"])
    loss = len(v) * hm.losses.contrastive(machine, v, other)
    loss.backward()
    assert loss.item() == pytest.approx(-case["multinary"]["L_eq6"], abs=1e-12)
    torch.testing.assert_close(-machine.coupling.weight.grad, tensor(case["multinary"]["grad_W"]), rtol=0, atol=1e-12)
