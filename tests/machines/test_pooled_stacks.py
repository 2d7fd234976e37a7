"""A layer with pooled states in a deep belief network: the machine above has the pooled states as its data."""

from __future__ import annotations

import math

import pytest
import torch

import harmonium as hm
from harmonium.likelihood.rows import sampled_bound
from harmonium.tasks import to_sequential
from harmonium.units import AtMostOne


@pytest.fixture
def network() -> hm.DeepBeliefNetwork:
    network = hm.DeepBeliefNetwork([hm.RBM(3, AtMostOne((2, 2))), hm.RBM(2, 2)]).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(generator=generator)
    return network


@torch.no_grad()
def exact(network: hm.DeepBeliefNetwork) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Visible states, ln p(v) and the variational bound, by enumeration."""
    bottom, top = network.machines
    v, h = bottom.visible.enumerate().double(), bottom.hidden.enumerate().double()
    log_prior = top.log_probability(h.sum(-1)) + bottom.hidden.log_unpool(h)
    assert torch.logsumexp(log_prior, 0).item() == pytest.approx(0.0, abs=1e-12)
    joint = -bottom.energy(v.repeat_interleave(len(h), 0), h.repeat(len(v), 1, 1)).view(len(v), len(h))
    p, q = joint - torch.logsumexp(joint, 0), joint - torch.logsumexp(joint, 1, keepdim=True)
    return v, torch.logsumexp(p + log_prior, 1), (q.exp() * (p - q + log_prior)).sum(1)


@pytest.mark.slow
def test_samples(network):
    states, log_p, _ = exact(network)
    drawn = network.sample(20_000, sweeps=50, seed=0)
    powers = 2 ** torch.arange(3)
    found = torch.bincount((drawn.long() * powers).sum(1), minlength=8)[(states.long() * powers).sum(1)] / len(drawn)
    error = (log_p.exp() * (1 - log_p.exp()) / len(drawn)).sqrt()
    assert ((found - log_p.exp()) / error).abs().max() < 4.5


def test_bound(network):
    states, log_p, bound = exact(network)
    draws = sampled_bound(network, states.repeat(4000, 1), torch.Generator().manual_seed(0)).view(4000, 8)
    found, error = draws.mean(0) - network.top.log_partition(), draws.std(0) / math.sqrt(4000)
    assert ((found - bound) / error).abs().max() < 4.5 and (bound < log_p).all()


@pytest.mark.slow
def test_features_and_networks(network):
    v = torch.eye(3, dtype=torch.float64)
    assert network.features(v, 1).shape == (3, 2) and network.reconstruct(v).shape == (3, 3)
    torch.testing.assert_close(to_sequential(network)(v), network.features(v))
    torch.testing.assert_close(to_sequential(network.machines[0])(v), network.machines[0].hidden_mean(v).sum(-1))
    hm.fit(network, v.repeat(20, 1), epochs=2, batch_size=20, progress=False, centered=False)


def test_sizes_are_those_of_the_pooled_states():
    with pytest.raises(hm.errors.InvalidOption, match="layer 1: expected 2 units"):
        hm.DeepBeliefNetwork([hm.RBM(3, AtMostOne((2, 2))), hm.RBM(4, 2)])
    with pytest.raises(hm.errors.InvalidOption, match="layer 1: expected spins"):
        hm.DeepBeliefNetwork([hm.RBM(3, AtMostOne((2, 2))), hm.RBM(hm.units.Spin(2), 2)])
