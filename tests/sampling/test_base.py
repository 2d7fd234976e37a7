"""What a path begins at: resolved from data, a machine or nothing, and drawn from exactly where that can be."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.machines import enumeration
from harmonium.sampling.base import base_log_partition, base_machine, base_states, has_couplings
from harmonium.sampling.path import fitted, free, independent, matched, uncoupled


def machine(scale=1.0):
    rbm = hm.RBM(hm.units.Bernoulli(5), hm.units.Spin(3)).double()
    rbm.initialize(scale=scale, seed=0)
    rbm.visible.shift_bias(torch.linspace(-1, 1, 5, dtype=torch.float64))
    return rbm


DATA = torch.tensor([[0.0, 1, 1, 0, 1], [1.0, 1, 0, 0, 1]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("base", "near", "expected"),
    [
        (None, False, lambda rbm, g: free(rbm)),
        (DATA, False, lambda rbm, g: independent(rbm, DATA)),
        (None, True, lambda rbm, g: fitted(rbm, g)),
        (DATA.numpy(), True, lambda rbm, g: matched(rbm, DATA, g)),
    ],
)
def test_rules(base, near, expected):
    rbm = machine()
    found = base_machine(rbm, base, near=near, generator=torch.Generator().manual_seed(3))
    known = expected(rbm, torch.Generator().manual_seed(3))
    for name, value in known.state_dict().items():
        assert torch.equal(found.state_dict()[name], value)
    assert not has_couplings(found)
    assert base_log_partition(found) == pytest.approx(found.log_partition())


def test_a_machine_is_its_own_base():
    rbm, other = machine(), machine(2.0)
    assert base_machine(rbm, other) is other and has_couplings(other)
    assert base_log_partition(other) == other.log_partition()
    assert base_machine(rbm, uncoupled(other), coupled=False).visible.bias.equal(other.visible.bias)
    with pytest.raises(hm.errors.InvalidOption, match="without couplings"):
        base_machine(rbm, other, coupled=False)


def two_wells():
    """All units off or, with three quarters of the mass, all on: Gibbs sweeps never cross."""
    rbm = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(3)).double()
    with torch.no_grad():
        rbm.coupling.weight.fill_(30.0)
        rbm.visible.bias.fill_(-45.0)
        rbm.hidden.bias.fill_(-180.0 + 0.366)
    return rbm


@pytest.mark.slow
def test_coupled_bases_that_can_be_enumerated_are_drawn_from_exactly(monkeypatch):
    rbm = two_wells()
    states, log_p = rbm.distribution()
    share = log_p.exp()[states.mean(1) > 0.5].sum().item()
    assert 0.6 < share < 0.9
    visible, hidden = base_states(rbm, 4000, torch.Generator().manual_seed(0))
    assert visible.shape == (4000, 12) and hidden.shape == (4000, 3)
    assert abs((visible.mean(1) > 0.5).double().mean().item() - share) < 4 * (share * (1 - share) / 4000) ** 0.5
    monkeypatch.setattr(enumeration, "EXACT_STATES", 2)  # what follows for larger machines is not exact
    visible, _ = base_states(rbm, 4000, torch.Generator().manual_seed(0))
    assert abs((visible.mean(1) > 0.5).double().mean().item() - share) > 0.1


def test_annealing_from_a_coupled_base():
    base = two_wells()
    rbm = hm.sampling.Path(base, uncoupled(base)).machine(1.0)
    rbm.visible.shift_bias(torch.full((12,), 0.3, dtype=torch.float64))
    estimate = hm.likelihood.ais(rbm, runs=2000, betas=50, base=base, seed=0)
    assert estimate.value == pytest.approx(rbm.log_partition(), abs=4 * estimate.standard_error)


def test_draws_in_the_type_of_the_machine():
    rbm = machine().float()
    assert all(x.dtype == torch.float32 for x in enumeration.draws(rbm, 3))
    assert all(x.dtype == torch.float32 for x in base_states(rbm, 3))
