"""The likelihood from TAP solutions: average, log-sum-exp and reported problems."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.couplings import Dense
from harmonium.errors import InvalidData, InvalidOption
from harmonium.likelihood import rows as row_module
from harmonium.likelihood.rows import hidden_sums

F64 = torch.float64


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ferromagnet(weight: float = 0.4) -> hm.RBM:
    """Spins without fields: two solutions, one of which is the other with all signs changed."""
    return hm.RBM(units.Spin(8), units.Spin(7), Dense(8, 7, torch.full((8, 7), weight, dtype=F64)))


def weak(seed: int = 0, kind: type[units.Unit] = units.Bernoulli) -> hm.RBM:
    weight = 0.2 * torch.randn(8, 5, generator=generator(seed), dtype=F64)
    return hm.RBM(kind(8), kind(5), Dense(8, 5, weight))


def rows(machine: hm.BoltzmannMachine, n: int) -> Tensor:
    return machine.independent(n, generator(1))


def test_one_solution():
    machine = weak()
    data = rows(machine, 20)
    found = hm.likelihood.tap(machine, data)
    assert len(found.details["solutions"]) == 1
    assert (found.details["starts"], found.details["converged_starts"]) == (20, 20)
    assert found.trustworthy and found.details["spread"] == 0
    assert found.value == pytest.approx(machine.log_partition(), abs=1e-3)
    exact = hm.likelihood.exact(machine).log_likelihood(data).value
    assert found.log_likelihood(data).value == pytest.approx(exact, abs=1e-3)
    torch.testing.assert_close(
        found.log_likelihood(data).per_row, machine.log_probability(data, found.value).detach(), rtol=0, atol=1e-12
    )


def test_two_solutions_are_two_states():
    """The average over the two solutions lacks ln 2, their log-sum-exp does not."""
    machine = ferromagnet()
    exact = machine.log_partition()
    data = torch.cat([torch.ones(5, 8, dtype=F64), -torch.ones(3, 8, dtype=F64)])
    average = hm.likelihood.tap(machine, data)
    together = hm.likelihood.tap(machine, data, combine="log-sum-exp")
    assert len(average.details["solutions"]) == 2
    assert average.details["log_sum_exp"] == together.value
    assert together.value - average.value == pytest.approx(math.log(2), abs=1e-6)
    assert abs(together.value - exact) < 0.1
    assert exact - average.value > 0.5
    assert average.details["spread"] == pytest.approx(0, abs=1e-6)


def test_solutions_that_are_far_apart_in_free_energy():
    """The average of eq. (38) gives every solution the same weight, even rare ones; the spread shows it."""
    machine = ferromagnet(0.5)
    with torch.no_grad():
        machine.visible.bias.fill_(0.15)
    data = torch.cat([torch.ones(1, 8, dtype=F64), -torch.ones(1, 8, dtype=F64)])
    found = hm.likelihood.tap(machine, data)
    assert len(found.details["solutions"]) == 2
    assert found.details["spread"] > 1 and found.problems[0].startswith("the phases of the machine")
    assert abs(found.details["log_sum_exp"] - machine.log_partition()) < 0.1


def test_unstable_fixed_points_do_not_count():
    """Gaussian units with data at zero, an unstable point that only rounding errors leave."""
    hidden = units.Spin(7).double()
    machine = hm.RBM(units.Gaussian(8).double(), hidden, Dense(8, 7, torch.full((8, 7), 0.2, dtype=F64)))
    data = torch.zeros(3, 8, dtype=F64)
    alone = hm.likelihood.tap(machine, data)
    assert alone.details["converged_starts"] == 3
    assert (len(alone.details["solutions"]), len(alone.details["unstable"])) == (0, 1)
    assert math.isnan(alone.value) and not alone.trustworthy
    assert alone.problems[0].startswith("1 of 1 fixed points are unstable and not used")
    both = torch.cat([data, torch.ones(2, 8, dtype=F64), -torch.ones(1, 8, dtype=F64)])
    found = hm.likelihood.tap(machine, both, combine="log-sum-exp")
    assert (len(found.details["solutions"]), len(found.details["unstable"])) == (2, 1)
    assert found.problems[0].startswith("1 of 3 fixed points are unstable")
    expected = hm.likelihood.tap(machine, both[3:], combine="log-sum-exp")
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    assert expected.trustworthy


def test_what_has_not_converged_does_not_count():
    machine = weak()
    data = rows(machine, 6)
    found = hm.likelihood.tap(machine, data, tolerance=1e-24, max_iterations=3)
    assert found.details["converged_starts"] == 0
    assert math.isnan(found.value)
    assert math.isnan(found.log_likelihood(data).value)
    assert not found.trustworthy
    assert found.problems == ("only 0 of 6 starts converged", "there is no stable solution")


def test_convergence_is_no_verdict():
    """All starts find the same of two mirrored solutions: converged, and 0.7 nats too small."""
    found = hm.likelihood.tap(ferromagnet(), torch.ones(5, 8, dtype=F64), check=False)
    assert found.trustworthy and abs(found.value - ferromagnet().log_partition()) > 0.5
    assert found.interval == (-math.inf, math.inf)
    (problem,) = hm.likelihood.tap(ferromagnet(), torch.ones(5, 8, dtype=F64)).problems
    assert problem.startswith("the phases of the machine have a ln Z that is 0.")


def test_hidden_layers_that_do_not_converge(monkeypatch):
    """The likelihood of a row is unknown if the iteration of its hidden layers does not converge."""
    source = generator(1)
    links = [
        Dense(12, 8, 0.3 * torch.randn(12, 8, generator=source)),
        Dense(8, 6, 3 * torch.randn(8, 6, generator=source)),
    ]
    machine = hm.DeepBoltzmannMachine([units.Bernoulli(12), units.Bernoulli(8), units.Bernoulli(6)], links)
    with torch.no_grad():
        machine.layers[1].bias.copy_(-links[1].weight.sum(1) / 2)
        machine.layers[2].bias.copy_(-links[1].weight.sum(0) / 2 - 2)
    data = rows(machine, 60)
    assert math.isfinite(hm.likelihood.tap(machine, data).log_likelihood(data).value)
    monkeypatch.setattr(row_module, "sums_hidden", lambda *_: False)  # as for a larger machine
    found = hm.likelihood.tap(machine, data)
    assert math.isnan(found.log_likelihood(data).value)
    assert "the hidden layers do not converge" in "; ".join(found.problems)


def test_deep():
    source = generator(2)
    links = [Dense(5, 4, 0.3 * torch.randn(5, 4, generator=source)), Dense(4, 3, 0.3 * torch.randn(4, 3))]
    machine = hm.DeepBoltzmannMachine([units.Bernoulli(5), units.Spin(4), units.Bernoulli(3)], links).double()
    data = rows(machine, 7)
    found = hm.likelihood.tap(machine, data, tolerance=1e-20)
    everything = machine.visible.enumerate()
    assert found.log_likelihood(everything).per_row.exp().sum().item() == pytest.approx(1.0, abs=1e-2)
    expected = hidden_sums(machine, data).mean().item() - found.value
    assert found.log_likelihood(data).value == pytest.approx(expected, abs=1e-12)


def test_bad_arguments():
    machine = weak()
    with pytest.raises(InvalidOption, match="did you mean 'average'"):
        hm.likelihood.tap(machine, rows(machine, 2), combine="averag")
    with pytest.raises(InvalidData, match="at least one row"):
        hm.likelihood.tap(machine, rows(machine, 2)[:0])
    with pytest.raises(InvalidData):
        hm.likelihood.tap(machine, torch.full((2, 8), 0.5))
    documents = hm.RBM(units.Multinomial(4), units.Bernoulli(2))
    with pytest.raises(InvalidOption, match="total"):
        hm.likelihood.tap(documents, torch.ones(2, 4))
