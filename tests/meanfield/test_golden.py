"""Fixed points, free energies and gradients against independently computed values."""

from __future__ import annotations

import pytest
import torch
from golden_meanfield import BINARY, BINARY_IDS, CONVERGED, F64, GOLDEN, REAL, binary, deep, real_visible, tensor

import harmonium as hm
from harmonium import meanfield
from harmonium.meanfield import Solutions

every_binary = pytest.mark.parametrize("case", BINARY, ids=BINARY_IDS)

METHODS = {
    "tap": meanfield.tap,
    "nmf": meanfield.naive,
    "adatap": meanfield.adatap,
    "rbp": meanfield.bp,
    "bp": lambda machine, **options: meanfield.bp(machine, messages="exact", **options),
}


def check(found: Solutions, log_z: float, magnetizations: list[float]) -> None:
    assert found.converged.tolist() == [True]
    assert -found.free_energy.item() == pytest.approx(log_z, abs=1e-10)
    together = torch.cat([layer[0] for layer in found.magnetizations])
    torch.testing.assert_close(together[-len(magnetizations) :], tensor(magnetizations), rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@every_binary
@pytest.mark.fast_cases(10)
def test_binary(case, method):
    known = case[method]
    magnetizations = known["m"] if "m" in known else known["av"] + known["ah"]
    check(METHODS[method](binary(case), **CONVERGED), known["lnZ"], magnetizations)


@pytest.mark.fast_cases(2)
@every_binary
def test_adaptive_fields(case):
    """Here the field of a unit does not include its bias."""
    found = meanfield.adatap(binary(case), **CONVERGED)
    A, B = (torch.cat([x[0] for x in part]) for part in (found.A, found.B))
    torch.testing.assert_close(A, tensor(case["adatap"]["A1"]), rtol=0, atol=1e-9)
    torch.testing.assert_close(B + tensor(case["b"] + case["c"]), tensor(case["adatap"]["B1"]), rtol=0, atol=1e-9)


@every_binary
def test_gradient(case):
    machine = binary(case)
    found = meanfield.tap(machine, **CONVERGED)
    meanfield.free_energy(machine, found).sum().backward()
    torch.testing.assert_close(-machine.coupling.weight.grad, tensor(case["tap"]["dlnZ_dW"]), rtol=0, atol=1e-10)
    for unit, name in ((machine.visible, "av"), (machine.hidden, "ah")):
        torch.testing.assert_close(-unit.bias.grad, tensor(case["tap"][name]), rtol=0, atol=1e-10)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("case", REAL, ids=[case["visible"] for case in REAL])
def test_real_visible(case):
    found = meanfield.tap(real_visible(case), **CONVERGED)
    check(found, case["tap"]["lnZ"], case["tap"]["av"] + case["tap"]["ah"])
    torch.testing.assert_close(found.variances[0][0], tensor(case["tap"]["cv"]), rtol=0, atol=1e-10)


def test_deep():
    case = GOLDEN["dbm"]
    check(meanfield.tap(deep(), **CONVERGED), case["lnZ_tap"], case["a_free"])


def test_deep_clamped():
    """The free energy of given visible states includes their base weight, which the golden value does not."""
    case, machine = GOLDEN["dbm"], deep()
    x = tensor([case["x"]])
    own = machine.visible.log_weight(x).sum().item()
    found = meanfield.tap(machine, clamped=x, **CONVERGED)
    check(found, case["lnZ_clamped_tap"] + own, case["a_clamped"])
    assert torch.equal(found.magnetizations[0], x)


def test_deep_gradient():
    case, machine = GOLDEN["dbm"], deep()
    clamped = meanfield.tap(machine, clamped=tensor([case["x"]]), **CONVERGED)
    free = meanfield.tap(machine, **CONVERGED)
    log_likelihood = meanfield.free_energy(machine, free) - meanfield.free_energy(machine, clamped)
    log_likelihood.sum().backward()
    named = {"W1": machine.couplings[0].weight, "W2": machine.couplings[1].weight}
    named |= {f"b{k}": unit.bias for k, unit in enumerate(machine.layers)}
    for name, parameter in named.items():
        torch.testing.assert_close(parameter.grad, tensor(case["grad_tap"][name]), rtol=0, atol=1e-9, msg=name)


@every_binary
def test_single_precision(case):
    machine = binary(case).float()
    found = meanfield.tap(machine, tolerance=1e-12)
    assert found.free_energy.dtype == torch.float32
    assert bool(found.converged.all())
    assert -found.free_energy.item() == pytest.approx(case["tap"]["lnZ"], rel=2e-6)


def test_types():
    machine = hm.RBM(hm.units.Bernoulli(3), hm.units.Spin(2)).to(F64)
    for solve in METHODS.values():
        assert solve(machine).free_energy.dtype == F64
