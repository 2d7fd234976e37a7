"""The variational bound of deep belief networks, compared with enumeration."""

from __future__ import annotations

import math

import pytest
import torch

import harmonium as hm
from harmonium import units
from harmonium.likelihood.rows import sampled_bound


def random(network: hm.DeepBeliefNetwork, seed: int = 0, scale: float = 1.0) -> hm.DeepBeliefNetwork:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.double().parameters():
            parameter.normal_(0.0, scale, generator=generator)
    return network


def conditionals(rbm: hm.RBM, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """ln p(x|y) and ln q(y|x) of all pairs of states, (x, y), from the energies alone."""
    joint = -rbm.energy(x.repeat_interleave(len(y), 0), y.repeat(len(x), *(1 for _ in y.shape[1:]))).view(
        len(x), len(y)
    )
    return joint - torch.logsumexp(joint, 0), joint - torch.logsumexp(joint, 1, keepdim=True)


def exact(network: hm.DeepBeliefNetwork) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Every visible state, ln p(v) and the variational bound, by sums over all states of all hidden layers."""
    top = network.machines[-1]
    states, log_p = top.distribution()
    bound = log_p.clone()  # for each state of the layer: the expectation of what is above
    for rbm in reversed(network.machines[:-1]):
        x = rbm.visible.enumerate().double()
        p, q = conditionals(rbm, x, states)
        log_p = torch.logsumexp(p + log_p, 1)
        bound = (q.exp() * (p - q + bound)).sum(1)  # includes the entropy of q
        states = x
    return states, log_p, bound


CASES = {
    "two": lambda: hm.DeepBeliefNetwork.of([4, 3, 2]),
    "three": lambda: hm.DeepBeliefNetwork.of([4, 3, 3, 2]),
    "mixed units": lambda: hm.DeepBeliefNetwork(
        [hm.RBM(units.Spin(3), units.Potts((2, 3))), hm.RBM(units.Bernoulli(6), units.Spin(2))]
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_samples_of_the_bound_have_the_mean_of_the_enumeration(case):
    network = random(CASES[case]())
    if case == "mixed units":  # its middle layers have other states: enumerate those that the lower one can take
        states, log_p, bound = exact_of_subset(network)
    else:
        states, log_p, bound = exact(network)
        assert torch.logsumexp(log_p, 0).item() == pytest.approx(0.0, abs=1e-12)
    assert (bound < log_p + 1e-12).all() and (bound < log_p - 1e-3).any()
    generator = torch.Generator().manual_seed(0)
    repeated = states.repeat(4000, *(1 for _ in states.shape[1:]))
    draws = sampled_bound(network, repeated, generator).view(4000, len(states))
    found = draws.mean(0) - network.top.log_partition()
    error = draws.std(0) / math.sqrt(len(draws))
    assert ((found - bound) / error).abs().max() < 4.5


def exact_of_subset(network: hm.DeepBeliefNetwork) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As ``exact`` for two machines whose middle layer has fewer states below than above."""
    bottom, top = network.machines
    middle = bottom.hidden.enumerate().double()
    log_p = top.log_probability(middle.flatten(1))
    states = bottom.visible.enumerate().double()
    p, q = conditionals(bottom, states, middle)
    return states, torch.logsumexp(p + log_p, 1), (q.exp() * (p - q + log_p)).sum(1)


def tied(lower: hm.RBM) -> hm.DeepBeliefNetwork:
    """A network of a machine and its transpose."""
    upper = hm.RBM(lower.hidden.size, lower.visible.size).double()
    with torch.no_grad():
        upper.weight.copy_(lower.weight.T)
        upper.visible.bias.copy_(lower.hidden.bias)
        upper.hidden.bias.copy_(lower.visible.bias)
    return hm.DeepBeliefNetwork([lower, upper])


def test_the_bound_is_exact_if_the_second_machine_is_the_transpose_of_the_first():
    """The prior of the top machine is then the marginal of the first machine, and q is the exact posterior."""
    network = tied(random(hm.DeepBeliefNetwork.of([4, 3])).machines[0])
    states, log_p, bound = exact(network)
    torch.testing.assert_close(log_p, network.machines[0].log_probability(states), rtol=0, atol=1e-12)
    torch.testing.assert_close(bound, log_p, rtol=0, atol=1e-12)
    sampled = sampled_bound(network, states) - network.top.log_partition()  # the same for every sample
    torch.testing.assert_close(sampled, log_p, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
def test_transposed_pretraining_starts_there():
    network = random(hm.DeepBeliefNetwork.of([6, 4, 6, 5]))
    last = network.machines[2].weight.clone()
    rows = network.sample(50, sweeps=20, seed=0, check_mixing=False)
    still = {"optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.0), "progress": False}
    hm.pretrain(network, rows, epochs=1, transposed=True, **still)
    assert torch.equal(network.machines[2].weight, last)  # 6 – 5 units: not the transpose of 4 – 6
    network = hm.DeepBeliefNetwork(list(network.machines[:2]))
    found = hm.likelihood.estimate(network, rows, runs=10, betas=20, sampling_sweeps=10)
    expected = hm.likelihood.exact(network.machines[0]).log_likelihood(rows).value
    assert found.bound and found.details["row_errors"].max() < 1e-10
    found = hm.likelihood.exact(network, rows)
    assert found.bound and found.value == pytest.approx(expected, abs=1e-10)


@pytest.mark.slow
def test_both_sides_hold_the_bound():
    network = random(hm.DeepBeliefNetwork.of([5, 4, 3]), 3)
    states, log_p, bound = exact(network)
    rows = states[torch.multinomial(log_p.exp(), 300, replacement=True, generator=torch.Generator().manual_seed(0))]
    index = (rows @ 2.0 ** torch.arange(5).double()).long()
    order = (states @ 2.0 ** torch.arange(5).double()).long()
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    truth, likelihood = bound[place[index]].mean().item(), log_p[place[index]].mean().item()
    log_z = hm.likelihood.estimate(network, runs=50, betas=200, sampling_sweeps=30)
    found = log_z.log_likelihood(rows, runs=30, seed=0)
    assert found.bound and found.trustworthy and found.log_partition is log_z
    low, high = found.interval
    assert low < truth < high < low + 0.6 and truth < likelihood
    low, high = hm.likelihood.exact(network).log_likelihood(rows, runs=30, seed=0).interval
    assert low < truth < high < low + 0.1
    based = hm.likelihood.estimate(network, rows, base=rows, runs=20, betas=100, sampling_sweeps=20).log_partition
    assert based.details["forward"].value == pytest.approx(network.top.log_partition(), abs=0.2)


@pytest.mark.slow
def test_one_machine_has_an_exact_free_energy():
    network = random(hm.DeepBeliefNetwork.of([4, 3]))
    rows = torch.eye(4).double()
    found = hm.likelihood.exact(network, rows)
    assert not found.bound and found.interval == (found.value, found.value)
    assert found.value == pytest.approx(hm.likelihood.exact(network.machines[0], rows).value, abs=1e-10)


def test_errors():
    network = random(hm.DeepBeliefNetwork.of([4, 3, 2]))
    assert hm.likelihood.exact(network).log_likelihood(torch.eye(4), runs=1).interval == (-math.inf, math.inf)
    with pytest.raises(hm.errors.InvalidData, match="binary values"):
        hm.likelihood.estimate(network, torch.full((1, 4), 0.5))
