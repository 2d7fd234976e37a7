"""Parallel tempering crosses barriers that Gibbs sampling does not, and the diagnostics show it."""

import math

import pytest
import torch

import harmonium as hm
from harmonium.sampling import Path, choose_betas, integrated_autocorrelation_time


def two_wells():
    """A machine with all units off or all on: Gibbs sweeps never cross between the two."""
    machine = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(3)).double()
    with torch.no_grad():
        machine.coupling.weight.fill_(3.0)
        machine.visible.bias.fill_(-4.5)
        machine.hidden.bias.fill_(-17.6)
    return machine


def share_on(v):
    return (v.mean(1) > 0.5).double().mean().item()


@pytest.mark.slow
def test_both_wells_in_the_right_proportion():
    machine = two_wells()
    states, log_p = machine.distribution()
    exact = log_p.exp()[states.mean(1) > 0.5].sum().item()
    assert 0.6 < exact < 0.9  # both modes have substantial mass
    assert share_on(machine.sample(500, sweeps=200, seed=0)) == 0.0  # stuck in the initial mode
    result = hm.sampling.parallel_tempering(machine, 1000, sweeps=150, seed=1)
    error = math.sqrt(exact * (1 - exact) / 1000)
    assert abs(share_on(result.samples) - exact) < 4.5 * error
    assert result.round_trips > 1000
    assert result.acceptance.min() > 0.3


@pytest.mark.slow
def test_a_ladder_of_checkpoints():
    machine = two_wells()
    path = Path(machine)
    machines = [path.machine(beta) for beta in choose_betas(path, generator=torch.Generator().manual_seed(0))]
    states, log_p = machine.distribution()
    exact = log_p.exp()[states.mean(1) > 0.5].sum().item()
    result = hm.sampling.trajectory_tempering(machines, 1000, sweeps=150, seed=2)
    assert abs(share_on(result.samples) - exact) < 4.5 * math.sqrt(exact * (1 - exact) / 1000)


@pytest.mark.slow
def test_chosen_rungs_accept_alike():
    path = Path(two_wells())
    betas = choose_betas(path, rungs=7, generator=torch.Generator().manual_seed(3))
    assert len(betas) == 7 and betas[0] == 0.0 and betas[-1] == 1.0
    result = hm.sampling.parallel_tempering(two_wells(), 300, sweeps=100, betas=betas, seed=4)
    assert result.acceptance.max() - result.acceptance.min() < 0.15


@pytest.mark.slow
def test_same_seed_same_samples():
    machine = hm.RBM(12, 3)
    torch.nn.init.normal_(machine.weight, generator=torch.Generator().manual_seed(0))
    first, second = (hm.sampling.parallel_tempering(machine, 20, sweeps=30, betas=8, seed=9).samples for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.slow
def test_autocorrelation_time_of_a_known_process():
    g = torch.Generator().manual_seed(0)
    rho = 0.8
    x = torch.zeros(20000, 8, dtype=torch.float64)
    for t in range(1, len(x)):
        x[t] = rho * x[t - 1] + math.sqrt(1 - rho**2) * torch.randn(8, generator=g, dtype=torch.float64)
    assert integrated_autocorrelation_time(x[100:]) == pytest.approx(0.5 + rho / (1 - rho), rel=0.08)


def test_chains_that_stay_apart_never_settle():
    wells = torch.tensor([0.0, 1.0]).repeat(20).expand(500, 40)
    noise = 0.01 * torch.randn(500, 40, generator=torch.Generator().manual_seed(0))
    assert integrated_autocorrelation_time(wells + noise) == math.inf


@pytest.mark.parametrize("side", ["visible", "hidden"])
@pytest.mark.parametrize("kind", ["path", "machines"])
@pytest.mark.fast_cases(1)
def test_a_layer_of_one_vector_unit(side, kind):
    vector, other = hm.units.Multinomial(3, total=4), hm.units.Bernoulli(3)
    machine = hm.RBM(*((vector, other) if side == "visible" else (other, vector))).double()
    machine.initialize(scale=0.8, seed=0)
    states, log_p = machine.distribution()
    if kind == "path":
        result = hm.sampling.parallel_tempering(machine, 4000, sweeps=20, betas=[0.0, 0.5, 1.0], seed=1)
    else:
        rungs = [Path(machine).machine(beta) for beta in (0.0, 0.5, 1.0)]
        result = hm.sampling.trajectory_tempering(rungs, 4000, sweeps=20, seed=1)
    p = log_p.exp()
    mean = p @ states
    error = (p @ (states - mean).square()).sqrt() / math.sqrt(4000)
    assert ((result.samples.mean(0) - mean).abs() < 4.5 * error).all()


@pytest.mark.slow
def test_starting_states_are_cycled():
    machine = two_wells()
    start = torch.zeros(7, 12)
    start[3] = 1.0  # one chain in seven starts in the other well, which Gibbs sweeps never leave
    run = hm.sampling.parallel_tempering(machine, 50, sweeps=0, betas=3, start=start, seed=0)
    assert torch.equal(run.samples, start.double()[torch.arange(50) % 7])
    run = hm.sampling.parallel_tempering(machine, sweeps=0, betas=3, start=start.numpy(), seed=0)
    assert run.samples.shape == (7, 12)


@pytest.mark.slow
def test_base_as_an_array():
    data = two_wells().sample(20, sweeps=5, seed=0)
    first, second = (
        hm.sampling.parallel_tempering(two_wells(), 5, sweeps=3, betas=3, base=base, seed=0).samples
        for base in (data, data.numpy())
    )
    assert torch.equal(first, second)


@pytest.mark.slow
def test_bad_starts_are_refused():
    machine = two_wells()
    for bad, message in ((torch.full((2, 12), 0.5), "start: expected binary"), (torch.zeros(0, 12), "at least one")):
        with pytest.raises(hm.errors.InvalidData, match=message):
            hm.sampling.parallel_tempering(machine, 5, sweeps=1, betas=3, start=bad)
    with pytest.raises(hm.errors.InvalidOption, match="n ≥ 1"):
        hm.sampling.parallel_tempering(machine, 0, sweeps=1, betas=3)
    with pytest.raises(hm.errors.InvalidOption, match="two or more machines"):
        hm.sampling.trajectory_tempering([])


def test_bad_ladders_are_refused():
    machine = two_wells()
    with pytest.raises(hm.errors.InvalidOption, match="increasing"):
        hm.sampling.parallel_tempering(machine, 2, sweeps=1, betas=[0.0, 0.5, 0.4, 1.0])
    with pytest.raises(hm.errors.InvalidOption, match="two or more"):
        hm.sampling.parallel_tempering(machine, 2, sweeps=1, betas=1)
    other = hm.RBM(hm.units.Bernoulli(11), hm.units.Bernoulli(3)).double()
    with pytest.raises(hm.errors.InvalidOption, match="same units"):
        hm.sampling.trajectory_tempering([other, machine], 2, sweeps=1)
