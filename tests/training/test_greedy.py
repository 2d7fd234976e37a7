"""Layer-by-layer pretraining of deep machines, and joint training afterwards."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm


@pytest.fixture(scope="module")
def data() -> torch.Tensor:
    return hm.data.load("digits", binarize="threshold")[:500]


def rate(value: float):
    return lambda parameters: torch.optim.SGD(parameters, lr=value)


def deep() -> hm.DeepBoltzmannMachine:
    return hm.DeepBoltzmannMachine([hm.units.Bernoulli(64), hm.units.Bernoulli(12), hm.units.Bernoulli(6)])


def test_the_first_layer_is_that_of_an_rbm(data):
    machine, rbm = deep(), hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(12))
    results = hm.pretrain(machine, data, epochs=2, seed=3, progress=False)
    hm.fit(rbm, data, epochs=2, seed=3, progress=False)
    assert len(results) == 2
    assert torch.equal(machine.couplings[0].weight, rbm.coupling.weight)
    assert torch.equal(machine.visible.bias, rbm.visible.bias)
    assert torch.equal(machine.layers[1].bias, rbm.hidden.bias)


def test_the_second_learns_the_hidden_states_of_the_first(data):
    """Its weights reproduce the correlations of the layer below better than zero weights."""
    machine = deep()
    hm.pretrain(machine, data, epochs=60, progress=False, batch_size=50, optimizer=rate(0.3))
    top = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(6))
    hidden = machine.layers[1].sample(machine.couplings[0].up(data), generator=torch.Generator().manual_seed(0))
    top.initialize(hidden, scale=0.0)
    alone = hm.likelihood.exact(top).log_likelihood(hidden)
    with torch.no_grad():
        top.coupling.weight.copy_(machine.couplings[1].weight)
        top.hidden.bias.copy_(machine.layers[2].bias)
    hm.fit(
        top, hidden, epochs=5, seed=0, progress=False, optimizer=rate(0.3)
    )  # its lower biases are not part of the deep machine
    assert hm.likelihood.exact(top).log_likelihood(hidden) > alone


@pytest.mark.slow
def test_joint_training_goes_on_from_there_and_improves_the_exact_likelihood(data):
    machine = deep()
    hm.pretrain(machine, data, epochs=3, progress=False)
    before = exact(machine, data)
    hm.fit(
        machine, data, negative=hm.MeanField(5), epochs=20, batch_size=50, seed=0, progress=False,
        optimizer=rate(0.3),
    )  # fmt: skip
    assert exact(machine, data) > before + 1


@torch.no_grad()
def exact(machine: hm.DeepBoltzmannMachine, data: torch.Tensor) -> float:
    """⟨ln p(v)⟩, with an explicit sum over the 2⁶ states of the top layer."""
    top = machine.layers[2].enumerate(torch.arange(2**6)).to(data.dtype)
    above = machine.couplings[1].down(top)  # (64, 12)
    fields = machine.couplings[0].up(data)  # (n, 12)
    middle = machine.layers[1].log_partition(fields[:, None] + above[None]).sum(-1)
    top_weight = (machine.layers[2].bias * top).sum(-1)
    joint = torch.logsumexp((middle + top_weight).double(), 1) + (data @ machine.visible.bias).double()
    return joint.mean().item() - machine.log_partition()
