"""Test data: samples of small machines from their exact distribution."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

import harmonium as hm


def generator(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def machine(visible: hm.units.Unit, hidden: int = 4, seed: int = 0) -> hm.RBM:
    rbm = hm.RBM(visible, hm.units.Bernoulli(hidden))
    rbm.initialize(weights="normal", scale=1.0, seed=seed)
    return rbm.double()


def draws(rbm: hm.RBM, n: int, seed: int) -> Tensor:
    """Independent states of the machine, drawn from the enumerated distribution."""
    states, log_p = rbm.distribution()
    return states[torch.multinomial(log_p.exp(), n, replacement=True, generator=generator(seed))]


def shuffled(x: Tensor, seed: int) -> Tensor:
    """Permute each column independently: keeps the single-site frequencies and removes all correlations."""
    flat = x.flatten(1)
    columns = [column[torch.randperm(len(x), generator=generator(seed + k))] for k, column in enumerate(flat.T)]
    return torch.stack(columns, 1).reshape(x.shape)
