"""Langevin and Gibbs–Langevin moves leave p(v) invariant; without the Metropolis step their bias is the known one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidOption
from harmonium.machines import enumeration

F64 = torch.float64
CHAINS = 20_000


def machine() -> hm.RBM:
    weight = torch.tensor([[1.0, -0.5], [0.7, 2.0], [3.0, 1.0]], dtype=F64)
    precision = torch.tensor([0.5, 2.0, 9.0], dtype=F64)
    visible = units.Gaussian(3, bias=torch.tensor([0.3, 0.0, -1.0], dtype=F64), precision=precision)
    return hm.RBM(visible, units.Bernoulli(2, bias=-0.5), hm.couplings.Dense(3, 2, weight)).double()


def draws(rbm: hm.RBM, seed: int = 0) -> Tensor:
    return enumeration.draws(rbm, CHAINS, torch.Generator().manual_seed(seed))[0]


def deviations(rbm: hm.RBM, samples: Tensor) -> float:
    """The largest deviation of a mean of F, v, v² and v_i v_j from that of exact draws, in standard errors."""

    def features(x: Tensor) -> Tensor:
        return torch.cat([rbm.free_energy(x).detach()[:, None], x, (x[:, :, None] * x[:, None, :]).flatten(1)], 1)

    found, exact = features(samples), features(draws(rbm, 1))
    error = ((found.var(0) + exact.var(0)) / CHAINS).sqrt()
    return ((found.mean(0) - exact.mean(0)).abs() / error).max().item()


SAMPLERS = {
    "langevin": lambda rbm, start, **options: hm.sampling.langevin(rbm, start=start, steps=30, seed=2, **options),
    "gibbs-langevin": lambda rbm, start, **options: hm.sampling.gibbs_langevin(
        rbm, start=start, sweeps=10, steps=3, seed=2, **options
    ),
}


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("step_size", [0.1, 0.6, 1.5])
@pytest.mark.parametrize("name", SAMPLERS)
def test_stationarity(name: str, step_size: float) -> None:
    rbm = machine()
    found = SAMPLERS[name](rbm, draws(rbm), step_size=step_size)
    assert deviations(rbm, found.samples) < 4.5
    assert 0.1 < found.acceptance < 1.0
    assert (found.samples - draws(rbm)).abs().max() > 1.0  # the chains have moved


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_check_detects_the_bias_without_metropolis_steps(name: str) -> None:
    rbm = machine()
    found = SAMPLERS[name](rbm, draws(rbm), step_size=0.6, adjusted=False)
    assert deviations(rbm, found.samples) > 20 and found.acceptance == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_the_bias_without_couplings(name: str) -> None:
    """The variance is 1/(1 - ε/2) times too large."""
    rbm = machine()
    torch.nn.init.zeros_(rbm.weight)
    samples = SAMPLERS[name](rbm, draws(rbm), step_size=0.5, adjusted=False).samples
    expected = 1 / (0.75 * rbm.visible.precision.detach())
    torch.testing.assert_close(samples.var(0), expected, rtol=6 * (2 / CHAINS) ** 0.5, atol=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("negative", ["langevin:5", "gibbs-langevin:1,steps=3"])
def test_training_increases_the_exact_likelihood(negative: str) -> None:
    source = torch.Generator().manual_seed(0)
    cause = (torch.rand(500, 1, generator=source) < 0.5).double()
    data = 2 * cause + 0.5 * torch.randn(500, 3, generator=source, dtype=F64)
    rbm = hm.RBM(units.Gaussian(3), 1).double()
    rbm.initialize(data, seed=0)
    before = rbm.log_probability(data).mean().item()
    hm.fit(rbm, data, negative=negative, epochs=60, batch_size=50, seed=0, progress=False)
    assert rbm.log_probability(data).mean().item() > before + 1.0  # a single cause explains 1.7 nats


def test_errors() -> None:
    rbm = machine()
    with pytest.raises(InvalidOption, match="expected real-valued visible units such as gaussian, found bernoulli"):
        hm.sampling.langevin(hm.RBM(3, 2), 5)
    with pytest.raises(InvalidOption, match="found relu"):
        hm.sampling.gibbs_langevin(hm.RBM(units.ReLU(3), 2), 5)
    with pytest.raises(InvalidOption, match="expected an RBM, found DeepBoltzmannMachine"):
        hm.sampling.langevin(hm.DeepBoltzmannMachine([units.Gaussian(3), 2, 2]), 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="step_size > 0, found 1 and -1"):
        hm.GibbsLangevin(steps=1, step_size=-1.0)
    with pytest.raises(InvalidOption, match="at least one sweep or step"):
        hm.sampling.langevin(rbm, 5, steps=0)
    with pytest.raises(InvalidOption, match="Langevin: expected real-valued"):
        hm.fit(hm.RBM(3, 2), torch.zeros(10, 3), negative=hm.Langevin(2), epochs=1, progress=False)
