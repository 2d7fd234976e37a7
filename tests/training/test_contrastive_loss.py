"""The contrastive loss in a torch program: its gradient is that of contrastive divergence, and it learns."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.errors import InvalidOption

F64 = torch.float64


def machine(seed: int = 0) -> hm.RBM:
    rbm = hm.RBM(units.Bernoulli(6), units.Bernoulli(4)).double()
    rbm.initialize(seed=seed, scale=0.3)
    return rbm


def correlated(n: int = 400) -> Tensor:
    """Two clusters, all ones or all zeros, with one unit in ten flipped."""
    source = torch.Generator().manual_seed(0)
    rows = torch.randint(2, (n, 1), generator=source).to(F64).expand(n, 6)
    return (rows - (torch.rand(n, 6, generator=source) < 0.1).to(F64)).abs()


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("method", ["cd", "reconstruction"])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_the_exact_likelihood_rises(optimizer: type[torch.optim.Optimizer], method: str) -> None:
    rbm, data = machine(), correlated()
    learner = optimizer(rbm.parameters(), lr=0.1 if optimizer is torch.optim.SGD else 0.01)
    source = torch.Generator().manual_seed(1)
    before = rbm.log_probability(data).mean().item()
    for _ in range(200):
        learner.zero_grad()
        hm.losses.contrastive(rbm, data, method=method, seed=source).backward()
        learner.step()
    independent = data.mean(0)
    entropy = -(independent * independent.log() + (1 - independent) * (1 - independent).log()).sum().item()
    after = rbm.log_probability(data).mean().item()
    assert after > max(before, -entropy) + 0.5, (before, after, -entropy)  # better than independent units


def test_the_printed_sign_lowers_the_likelihood() -> None:
    """Minus this loss, the published one, is to be maximized."""
    rbm, data = machine(), correlated()
    learner = torch.optim.SGD(rbm.parameters(), lr=0.1)
    before = rbm.log_probability(data).mean().item()
    for _ in range(50):
        learner.zero_grad()
        (-hm.losses.contrastive(rbm, data, seed=0)).backward()
        learner.step()
    assert rbm.log_probability(data).mean().item() < before - 1.0


@pytest.mark.parametrize("method", ["cd", "reconstruction"])
def test_data_are_differentiable_and_the_model_is_not(method: str) -> None:
    """The gradient of the data is that of the free energy at the data alone."""
    rbm = machine()
    v = correlated(20).requires_grad_()
    (found,) = torch.autograd.grad(hm.losses.contrastive(rbm, v, method=method, seed=0), v)
    (expected,) = torch.autograd.grad(rbm.free_energy(v).mean(), v)
    assert torch.equal(found, expected)
    other = (1 - v.detach()).requires_grad_()
    loss = hm.losses.contrastive(rbm, v.detach(), other)
    assert torch.autograd.grad(loss, other, allow_unused=True) == (None,)


def test_given_states_and_sweeps() -> None:
    rbm, data = machine(), correlated(50)
    source = torch.Generator().manual_seed(3)
    v = data
    for _ in range(3):
        v = rbm.sample_visible(rbm.sample_hidden(v, seed=source), seed=source)
    expected = rbm.free_energy(data).mean() - rbm.free_energy(v).mean()
    assert torch.equal(hm.losses.contrastive(rbm, data, k=3, seed=3), expected)
    assert torch.equal(hm.losses.contrastive(rbm, data, v), expected)
    again = rbm.reconstruct(rbm.reconstruct(data)).detach()
    expected = rbm.free_energy(data).mean() - rbm.free_energy(again, check=False).mean()
    assert torch.equal(hm.losses.contrastive(rbm, data, k=2, method="reconstruction"), expected)


def test_documents_keep_their_lengths() -> None:
    rbm = hm.RBM(units.Multinomial(4), units.Bernoulli(2)).double()
    rbm.initialize(seed=0, scale=0.5)
    rows = torch.tensor([[3.0, 0, 0, 1], [0, 9, 0, 0]], dtype=F64)
    assert torch.isfinite(hm.losses.contrastive(rbm, rows, k=5, seed=0))


def test_invalid_arguments() -> None:
    rbm, data = machine(), correlated(5)
    with pytest.raises(InvalidOption, match="k: expected at least 1, found 0"):
        hm.losses.contrastive(rbm, data, k=0)
    with pytest.raises(InvalidOption, match="method of the contrastive loss 'gibbs'"):
        hm.losses.contrastive(rbm, data, method="gibbs")
