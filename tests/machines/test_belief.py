"""Deep belief networks: stacks that fit together, means up and down, and samples from the exact distribution."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import units
from harmonium.couplings import Conv2d


def random(network: hm.DeepBeliefNetwork, seed: int = 0, scale: float = 1.0) -> hm.DeepBeliefNetwork:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0.0, scale, generator=generator)
    return network


def small(inputs: str = "samples") -> hm.DeepBeliefNetwork:
    return random(hm.DeepBeliefNetwork.of([4, 3, 2], inputs=inputs).double())


def exact(network: hm.DeepBeliefNetwork) -> tuple[torch.Tensor, torch.Tensor]:
    """Every visible state of a network of two machines and ln p(v), by a sum over the states of the middle layer."""
    bottom, top = network.machines
    middle, log_p = top.distribution()
    v = bottom.visible.enumerate().double()
    joint = -bottom.energy(v.repeat_interleave(len(middle), 0), middle.repeat(len(v), 1)).view(len(v), len(middle))
    return v, torch.logsumexp(joint - torch.logsumexp(joint, 0) + log_p, 1)


@pytest.mark.slow
def test_samples_follow_the_exact_distribution():
    network = small()
    states, log_p = exact(network)
    assert torch.logsumexp(log_p, 0).item() == pytest.approx(0.0, abs=1e-12)
    drawn = network.sample(20_000, sweeps=60, seed=1)
    index = (drawn.long() * 2 ** torch.arange(4)).sum(1)
    order = (states.long() * 2 ** torch.arange(4)).sum(1)
    found = torch.bincount(index, minlength=16)[order] / len(drawn)
    error = (log_p.exp() * (1 - log_p.exp()) / len(drawn)).sqrt()
    assert ((found - log_p.exp()) / error).abs().max() < 4.5


def test_means_at_the_bottom_are_the_means_of_the_samples():
    network = small()
    states, log_p = exact(network)
    gray = network.sample(20_000, sweeps=60, seed=2, means=True)
    assert not torch.equal(gray, gray.round())
    assert (gray.mean(0) - log_p.exp() @ states).abs().max() < 0.01


def test_a_start_is_passed_up():
    network = random(hm.DeepBeliefNetwork.of([4, 3, 2]), scale=30.0)  # nearly deterministic
    v = torch.tensor([[0.0, 1, 1, 0]])
    hidden = network.machines[0].hidden_mean(v).round()
    expected = network.machines[0].visible_mean(hidden).round()
    torch.testing.assert_close(network.sample(start=v, sweeps=0, means=True, check_mixing=False).round(), expected)
    assert len(network.sample(3, start=v, sweeps=2, seed=0, check_mixing=False)) == 3


def test_one_machine_is_an_rbm():
    network = random(hm.DeepBeliefNetwork.of([3, 2]).double())
    rbm, v = network.machines[0], torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(network.features(v), rbm.hidden_mean(v))
    torch.testing.assert_close(network.reconstruct(v), rbm.reconstruct(v))
    drawn = network.sample(5000, sweeps=50, seed=0, means=True)
    states, log_p = rbm.distribution()
    assert (drawn.mean(0) - log_p.exp() @ states).abs().max() < 0.03


def test_features_and_reconstructions_are_chains_of_means():
    network = small()
    first, second = network.machines
    v = torch.tensor([[0.0, 1, 1, 0], [1, 1, 0, 1]])
    one = first.hidden_mean(v)
    two = second.hidden_mean(one)
    torch.testing.assert_close(network.features(v), two)
    torch.testing.assert_close(network.features(v, 1), one)
    torch.testing.assert_close(network.features(v, 0), v.double())
    torch.testing.assert_close(network.reconstruct(v), first.visible_mean(second.visible_mean(two)))
    torch.testing.assert_close(network.reconstruct(v, 1), first.visible_mean(one))
    torch.testing.assert_close(network.reconstruct(v, 0), v.double())


def test_a_convolution_below_a_dense_layer(tmp_path):
    shape = Conv2d.output_shape((1, 6, 6), 4, kernel=3, stride=1)
    lower = hm.RBM(units.Bernoulli((1, 6, 6)), units.Bernoulli(shape), Conv2d((1, 6, 6), shape, kernel=3))
    network = random(hm.DeepBeliefNetwork([lower, hm.RBM(64, 5)], inputs="means"))
    v = torch.ones(2, 1, 6, 6)
    assert network.features(v).shape == (2, 5) and network.features(v, 1).shape == (2, 4, 4, 4)
    assert network.reconstruct(v).shape == network.sample(2, sweeps=1, seed=0, check_mixing=False).shape == v.shape
    hm.save(network, tmp_path / "network.safetensors")
    again = hm.load(tmp_path / "network.safetensors")
    assert isinstance(again, hm.DeepBeliefNetwork) and again.inputs == "means"
    assert torch.equal(again.features(v), network.features(v))
    assert again.config() == network.config()


def test_the_parts():
    network = hm.DeepBeliefNetwork.of([5, units.Spin(4), 3]).double()
    assert [unit.size for unit in network.layers] == [5, 4, 3] and network.depth == 3
    assert network.machines[1].visible is not network.machines[0].hidden  # each has its own bias
    assert network.machines[1].visible.name() == "spin"
    assert network.visible.size == 5 and network.top is network.machines[1] and len(network.couplings) == 2
    assert network.dtype == torch.float64 and network.device.type == "cpu"
    assert network.as_states([[0, 0, 1, 1]], 1).dtype == torch.float64


@pytest.mark.parametrize(
    ("inputs", "values"), [("samples", [0.0, 1.0]), ("means", None)], ids=["samples", "means"]
)  # fmt: skip
def test_inputs_of_every_machine(inputs, values):
    network = small(inputs)
    v = torch.tensor([[0.0, 1, 1, 0]]).double().repeat(4000, 1)
    (first, low), (second, high) = network.stacked(v, generator=torch.Generator().manual_seed(0))
    assert (first, second) == tuple(network.machines) and low is v
    mean = first.hidden_mean(v)
    assert (high.mean(0) - mean[0]).abs().max() < 0.03
    assert high.unique().tolist() == values if values else torch.equal(high, mean)


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ([hm.RBM(4, 3), hm.RBM(2, 2)], "layer 1: expected 3 units"),
        ([hm.RBM(4, 3), hm.RBM(3, 2), hm.RBM(1000, 2)], "layer 2: expected 2 units"),
        ([hm.RBM(4, units.ReLU(3)), hm.RBM(3, 2)], "layer 1: expected binary values .* found non-negative numbers"),
        ([hm.RBM(4, units.Spin(3)), hm.RBM(3, 2)], "found spins"),
        ([hm.RBM(4, units.Gaussian(3)), hm.RBM(units.ReLU(3), 2)], "found real numbers"),
        ([hm.RBM(4, 3), hm.RBM(units.Potts((1, 3)), 2)], "expected one-hot vectors of 3 states"),
        ([hm.RBM(4, units.Potts((2, 3))), hm.RBM(units.Potts((3, 2)), 2)], "expected one-hot vectors of 2 states"),
        ([hm.RBM(4, units.Poisson(3)), hm.RBM(units.Binomial(3, trials=5), 2)], "expected integers from 0 to 5"),
        ([hm.RBM(4, 3), hm.RBM(units.Mixed(units.Bernoulli(1), units.Spin(2)), 2)], "for the spin units"),
        ([], "one or more RBMs"),
        ([4, 3], "DeepBeliefNetwork.of"),
    ],
)
def test_stacks_that_do_not_fit(machines, message):
    with pytest.raises(hm.errors.InvalidOption, match=message):
        hm.DeepBeliefNetwork(machines)


@pytest.mark.parametrize(
    ("hidden", "visible"),
    [
        (units.Bernoulli(6), units.Gaussian((2, 3))),
        (units.Bernoulli(6), units.Binomial(6, trials=3)),
        (units.Bernoulli(6), units.Multinary(6, levels=255)),
        (units.Potts((2, 3)), units.Bernoulli(6)),
        (units.Potts((2, 3)), units.Potts((2, 3))),
        (units.ReLU(6), units.Gaussian(6)),
        (units.Poisson(6), units.ReLU(6)),
        (units.Poisson(6), units.Poisson(6)),
        (units.Mixed(units.Bernoulli(3), units.Potts((1, 3))), units.Bernoulli(6)),
        (units.Potts((2, 3)), units.Multinomial(3)),
    ],
)
def test_stacks_that_fit(hidden, visible):
    if hidden.size == visible.size:
        assert len(hm.DeepBeliefNetwork([hm.RBM(4, hidden), hm.RBM(visible, 2)]).machines) == 2
    assert all(visible.support.includes(part.support) for part in hidden.parts)


def test_errors():
    rbm = hm.RBM(3, 3)
    with pytest.raises(hm.errors.InvalidOption, match="same part twice"):
        hm.DeepBeliefNetwork([rbm, rbm])
    with pytest.raises(hm.errors.InvalidOption, match=r"unknown inputs 'sample'.*did you mean 'samples'"):
        hm.DeepBeliefNetwork.of([3, 2], inputs="sample")
    with pytest.raises(hm.errors.InvalidOption, match="two or more layers"):
        hm.DeepBeliefNetwork.of([3])
    with pytest.raises(hm.errors.InvalidOption, match=r"layer 2: expected a coupling of the shapes \(\(2,\), \(4,\)\)"):
        hm.DeepBeliefNetwork.of([3, 2, 4], [hm.couplings.Dense(3, 2), hm.couplings.Dense(5, 4)])
    with pytest.raises(hm.errors.InvalidOption, match="couplings: expected 2 for 3 layers, found 1"):
        hm.DeepBeliefNetwork.of([3, 2, 2], [hm.couplings.Dense(3, 2)])
    network = hm.DeepBeliefNetwork.of([3, 2, 2])
    with pytest.raises(AttributeError, match=r"use network\.machines\[k\]\.free_energy"):
        network.free_energy(torch.zeros(1, 3))
    with pytest.raises(hm.errors.InvalidOption, match="layer: expected a number from 0 to 2, found 3"):
        network.features(torch.zeros(1, 3), 3)
    with pytest.raises(hm.errors.InvalidData, match=r"expected shape \(n, 3\)"):
        network.features(torch.zeros(1, 4))
