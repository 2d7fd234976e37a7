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


@pytest.mark.slow
def test_the_first_layer_is_that_of_an_rbm(data):
    machine, rbm = deep(), hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(12))
    results = hm.pretrain(machine, data, epochs=2, seed=3, progress=False)
    hm.fit(rbm, data, epochs=2, seed=3, progress=False)
    assert len(results) == 2
    assert torch.equal(machine.couplings[0].weight, rbm.coupling.weight)
    assert torch.equal(machine.visible.bias, rbm.visible.bias)
    assert torch.equal(machine.layers[1].bias, rbm.hidden.bias)


@pytest.mark.slow
def test_the_second_learns_the_hidden_states_of_the_first(data):
    """Its weights reproduce the correlations of the layer below better than zero weights."""
    machine = deep()
    hm.pretrain(machine, data, epochs=60, progress=False, batch_size=50, optimizer=rate(0.3))
    top = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(6))
    hidden = machine.layers[1].sample(machine.couplings[0].up(data), generator=torch.Generator().manual_seed(0))
    top.initialize(hidden, scale=0.0)
    alone = hm.likelihood.exact(top).log_likelihood(hidden).value
    with torch.no_grad():
        top.coupling.weight.copy_(machine.couplings[1].weight)
        top.hidden.bias.copy_(machine.layers[2].bias)
    hm.fit(
        top, hidden, epochs=5, seed=0, progress=False, optimizer=rate(0.3)
    )  # its lower biases are not part of the deep machine
    assert hm.likelihood.exact(top).log_likelihood(hidden).value > alone


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


def test_a_new_layer_leaves_the_distribution_and_is_learned(data):
    """Unchanged without new weights, nearly so with small ones; the likelihood then rises above that of the RBM."""
    rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(12))
    hm.fit(rbm, data, epochs=20, seed=0, progress=False)
    start = rbm.log_probability(data).mean().item()
    before = rbm.coupling.weight.detach().clone()
    top = hm.units.Bernoulli(6)
    same, near = (hm.deepen(rbm, top, data, scale=scale, seed=1) for scale in (0.0, 0.05))
    assert exact(same, data) == pytest.approx(start, abs=1e-4)
    assert 0 < abs(exact(near, data) - start) < 0.05
    assert not torch.equal(near.layers[1].bias, rbm.hidden.bias) and not top.bias.any()
    hm.fit(
        near, data, negative=hm.DeepPCD(1, iterations=1, positive="gibbs"), epochs=20, batch_size=50, seed=0,
        progress=False, optimizer=rate(0.1),
    )  # fmt: skip
    assert exact(near, data) > start + 0.3
    assert torch.equal(rbm.coupling.weight, before)
    with pytest.raises(hm.errors.InvalidOption, match="layer: expected units"):
        hm.deepen(rbm, 0, data)


@pytest.mark.slow
def test_a_new_layer_on_a_deep_machine(data):
    machine = deep()
    hm.pretrain(machine, data, epochs=2, progress=False)
    grown = hm.deepen(machine, 5, data, scale=0.0)
    assert [unit.size for unit in grown.layers] == [64, 12, 6, 5]
    assert not grown.couplings[2].weight.any()  # so the visible layer keeps its distribution
    kept = grown.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in machine.state_dict().items())


HIDDEN = {
    "bernoulli": lambda: hm.units.Bernoulli(5),
    "spin": lambda: hm.units.Spin(5),
    "gaussian": lambda: hm.units.Gaussian(5),
    "binomial": lambda: hm.units.Binomial(5, trials=3),
    "relu": lambda: hm.units.ReLU(5),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_more_hidden_units_leave_the_distribution(name):
    rbm = hm.RBM(hm.units.Potts((3, 3)), HIDDEN[name]())
    rbm.initialize(weights="normal", scale=0.3, seed=0)
    rbm.hidden.shift_bias(torch.linspace(-0.3, 0.2, 5))
    states = rbm.visible.enumerate()
    same, near = (hm.widen(rbm, 3, scale=scale) for scale in (0.0, 0.02))
    assert near.hidden.shape == (8,) and rbm.hidden.shape == (5,)
    torch.testing.assert_close(same.log_probability(states), rbm.log_probability(states))
    change = (near.log_probability(states) - rbm.log_probability(states)).abs().max()
    assert 0 < change < 0.02
    assert torch.equal(near.coupling.weight[:, :5], rbm.coupling.weight)


def test_more_hidden_units_are_learned(data):
    rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(6))
    hm.fit(rbm, data, negative="pcd:1", epochs=20, seed=0, progress=False)
    wide = hm.widen(rbm, 6)
    hm.fit(wide, data, negative="pcd:1", epochs=20, seed=0, progress=False)
    assert wide.log_probability(data).mean() > rbm.log_probability(data).mean() + 0.5
    with pytest.raises(hm.errors.InvalidOption, match="widen: expected an RBM with a dense coupling"):
        hm.widen(hm.DeepBoltzmannMachine([4, 3, 2]), 1)
    with pytest.raises(hm.errors.InvalidOption, match="hidden: expected at least 1, found 0"):
        hm.widen(rbm, 0)


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
