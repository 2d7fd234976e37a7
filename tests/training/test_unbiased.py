"""Contrastive divergence by coupled chains: the mean of its gradient is the gradient of the likelihood."""

from __future__ import annotations

import pytest
import torch
from training_helpers import step

import harmonium as hm
from harmonium.errors import InvalidOption
from harmonium.testing import check_negative_phase
from harmonium.units import Bernoulli, Categories, Gaussian, Poisson, Potts, Spin

LAYERS = {
    "bernoulli": lambda: (Bernoulli(5), Bernoulli(3)),
    "spin": lambda: (Spin(4), Spin(3)),
    "potts": lambda: (Potts((3, 3)), Bernoulli(3)),
    "categories": lambda: (Categories((2, 3)), Bernoulli(3)),
    "gaussian hidden": lambda: (Bernoulli(4), Gaussian(2)),
    "poisson hidden": lambda: (Bernoulli(4), Poisson(2)),
}


def machine_of(name: str, scale: float = 0.8) -> hm.RBM:
    rbm = hm.RBM(*LAYERS[name]()).double()
    rbm.initialize(weights="normal", scale=scale, seed=3)
    return rbm


@torch.no_grad()
def gradients(phase: hm.training.NegativePhase, rbm: hm.RBM, rows: torch.Tensor, seed: int) -> dict[str, torch.Tensor]:
    step(phase, rbm, rows, torch.Generator().manual_seed(seed))
    return {name: p.grad.clone() for name, p in rbm.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", LAYERS)
def test_no_bias(name, k):
    """The rows are far from the distribution of the machine, so that CD is biased."""
    rbm = machine_of(name, scale=0.3 if "hidden" in name else 0.8)
    rows = rbm.visible.enumerate(torch.zeros(4000, dtype=torch.long)).double()
    exact = gradients(hm.Exact(), rbm, rows, 0)
    few = [gradients(hm.UnbiasedCD(k, limit=2000), rbm, rows, seed) for seed in range(10)]
    for key, expected in exact.items():
        found = torch.stack([one[key] for one in few])
        error = found.std(0) / len(few) ** 0.5
        assert ((found.mean(0) - expected).abs() < 6 * error + 1e-3).all(), key
    biased = gradients(hm.CD(1), rbm, rows, 0)
    assert any((biased[key] - exact[key]).abs().max() > 0.02 for key in exact)


def test_contract():
    phase = hm.UnbiasedCD(2)
    check_negative_phase(phase)
    assert hm.Plan(negative="unbiased-cd:2,limit=50").negative == hm.UnbiasedCD(2, limit=50)


def test_pairs_that_do_not_meet_are_counted():
    rbm = hm.RBM(Bernoulli(6), Bernoulli(6))
    rbm.initialize(weights="normal", scale=3.0, seed=0)
    phase, rows = hm.UnbiasedCD(1, limit=1), (torch.rand(200, 6) < 0.5).float()
    _, state = step(phase, rbm, rows, torch.Generator().manual_seed(0))
    assert 0 < state["cut_off"] <= 200


def test_wrong_use():
    with pytest.raises(InvalidOption, match="expected 1 ≤ k ≤ limit, found k=5, limit=2"):
        hm.UnbiasedCD(5, limit=2)
    with pytest.raises(InvalidOption, match="expected visible units with finitely many states, found gaussian units"):
        hm.fit(hm.RBM(Gaussian(3), 2), torch.randn(20, 3), negative="unbiased-cd:1", epochs=1, progress=False)
