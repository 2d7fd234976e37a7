"""The exact likelihood."""

from __future__ import annotations

import math

import pytest
import torch
from golden_machines import BINARY, BINARY_IDS, binary, digits, tensor

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidData, NotEnumerable, NotNormalizable
from harmonium.likelihood import exact


@pytest.mark.parametrize("case", BINARY, ids=BINARY_IDS)
def test_value(case):
    result = exact(binary(case))
    assert result.value == pytest.approx(case["lnZ"], abs=1e-12)
    assert result.interval == (result.value, result.value)
    assert result.trustworthy


@pytest.mark.parametrize("case", [c for c in BINARY if "test_v" in c], ids=[i for i in BINARY_IDS if i[:2] == "01"])
def test_log_likelihood(case):
    expected = tensor(case["logP"]).mean().item()
    result = exact(binary(case))
    rows = case["test_v"]
    v = tensor(rows)
    for data in (v, v.float(), v.bool(), v.numpy(), rows):
        assert result.log_likelihood(data).value == pytest.approx(expected, abs=1e-11)
    many = tensor(rows).repeat(3000, 1)  # more than a chunk
    assert result.log_likelihood(many).value == pytest.approx(expected, abs=1e-11)


def test_likelihoods_of_all_states_sum_to_one():
    machine = binary(BINARY[0])
    states = machine.visible.enumerate()
    total = math.fsum(math.exp(exact(machine).log_likelihood(v[None]).value) for v in states)
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
def test_in_single_precision():
    machine, log_z = digits()
    v = (torch.arange(784) % 3 == 0).double()[None]
    double = exact(machine).log_likelihood(v).value
    assert double == pytest.approx(-machine.free_energy(v).item() - log_z, abs=1e-8)
    assert exact(machine.float()).log_likelihood(v).value == pytest.approx(double, abs=1e-3)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (torch.zeros(0, 4), "at least one row"),
        (torch.full((2, 4), 0.5), "expected binary values"),
        (torch.full((2, 4), torch.nan), "expected finite"),
        (torch.zeros(2, 5), "expected shape"),
    ],
)
def test_data_that_is_refused(rows, message):
    with pytest.raises(InvalidData, match=message):
        exact(binary(BINARY[0])).log_likelihood(rows)


def test_machines_that_are_refused():
    with pytest.raises(NotEnumerable):
        exact(hm.RBM(units.Bernoulli(40), units.Bernoulli(40)))
    with pytest.raises(NotEnumerable):
        exact(hm.RBM(units.Gaussian(2), units.ReLU(2)))
    machine = hm.RBM(units.Poisson(1), units.Poisson(1))
    torch.nn.init.constant_(machine.coupling.weight, 0.1)
    with pytest.raises(NotNormalizable):
        exact(machine)
    deep = hm.DeepBoltzmannMachine([units.Bernoulli(2), units.Bernoulli(2), units.Bernoulli(2)])
    assert exact(deep).value == pytest.approx(6 * torch.tensor(2.0, dtype=torch.float64).log().item())
    found = exact(deep).log_likelihood(torch.zeros(1, 2))
    assert found.value == pytest.approx(-2 * math.log(2)) and not found.bound
