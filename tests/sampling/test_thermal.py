"""Energy and specific heat at several temperatures agree with derivatives of the exact ln Z."""

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidOption
from harmonium.sampling import Path, temperature_sweep

BETAS = [0.0, 0.4, 0.8, 1.2, 1.6]


def machine_of(visible, hidden, scale=0.7):
    machine = hm.RBM(visible, hidden).double()
    machine.initialize(scale=scale, seed=0)
    for unit, seed in zip(machine.layers, (1, 2), strict=True):
        unit.shift_bias(torch.randn(unit.bias.shape, generator=torch.Generator().manual_seed(seed)).double())
    return machine


def exact(machine, beta, step=1e-3):
    """-∂ ln Z and β² ∂² ln Z by finite differences."""
    low, here, high = (Path(machine).machine(beta + k * step).log_partition() for k in (-1, 0, 1))
    return -(high - low) / (2 * step), beta**2 * (high - 2 * here + low) / step**2


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(
    ("visible", "hidden"),
    [
        (hm.units.Bernoulli(6), hm.units.Bernoulli(3)),
        (hm.units.Spin(6), hm.units.Gaussian(2)),  # the precision of the Gaussian units does not change with β
        (hm.units.Potts((3, 4)), hm.units.Spin(2)),
    ],
    ids=["bernoulli", "gaussian", "potts"],
)
def test_energy_and_specific_heat(visible, hidden):
    machine = machine_of(visible, hidden, scale=0.4)
    found = temperature_sweep(machine, BETAS, n=400, sweeps=100, seed=0)
    for k, beta in enumerate(BETAS):
        energy, heat = exact(machine, beta)
        assert abs(found.energy[k] - energy) < 4.5 * found.energy_error[k]
        assert abs(found.specific_heat[k] - heat) < 4.5 * found.specific_heat_error[k] + 1e-12
    assert (found.energy_error < 0.1).all() and (found.specific_heat_error < 0.1 * (1 + found.specific_heat)).all()


@pytest.mark.slow
def test_states_at_every_temperature():
    machine = machine_of(hm.units.Bernoulli(5), hm.units.Bernoulli(2))
    found = temperature_sweep(machine, BETAS, n=2000, sweeps=30, seed=1)
    assert found.samples.shape == (5, 2000, 5) and found.acceptance.shape == (4,)
    for k, beta in enumerate(BETAS):
        states, log_p = Path(machine).machine(beta).distribution()
        mean = (log_p.exp()[:, None] * states).sum(0)
        assert (found.samples[k].mean(0) - mean).abs().max() < 4.5 * 0.5 / 2000**0.5
    assert "β = " in repr(found) and "replicas 2000" in repr(found)


def test_the_same_seed_and_start():
    machine = machine_of(hm.units.Bernoulli(5), hm.units.Bernoulli(2))
    rows = torch.ones(3, 5)
    first, second = (temperature_sweep(machine, n=6, sweeps=4, start=rows, seed=3) for _ in range(2))
    assert torch.equal(first.samples, second.samples) and torch.equal(first.energy, second.energy)
    assert len(first.betas) == 21


def test_wrong_temperatures():
    machine = hm.RBM(4, 2)
    with pytest.raises(InvalidOption, match="two or more increasing values, found"):
        temperature_sweep(machine, [1.0, 0.5])
    with pytest.raises(InvalidOption, match="n ≥ 2"):
        temperature_sweep(machine, n=1)
    with pytest.raises(InvalidOption, match="the last one 1"):
        hm.sampling.parallel_tempering(machine, 4, betas=[0.0, 0.5])


def test_a_temperature_at_which_the_partition_function_diverges():
    machine = hm.RBM(hm.units.Gaussian(3), hm.units.Gaussian(2))
    with torch.no_grad():
        machine.coupling.weight.copy_(torch.eye(3)[:, :2] * 0.8)
    temperature_sweep(machine, [0.0, 1.0], n=2, sweeps=2, seed=0)
    with pytest.raises(hm.errors.NotNormalizable):
        temperature_sweep(machine, [0.0, 1.5], n=2, sweeps=2, seed=0)
