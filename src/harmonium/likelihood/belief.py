"""The variational bound of a deep belief network."""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from ..errors import InvalidOption
from ..machines import DeepBeliefNetwork

_CHUNK = 4096


@torch.no_grad()
def sampled_free_energy(network: DeepBeliefNetwork, v: Tensor, generator: Generator | None = None) -> Tensor:
    """Return one sample of the variational free energy of each row: (n, *visible) -> (n,).

    The bound is ln p(v) ≥ ⟨ln p(v|h_1) + … + ln p*(h_{L-1})⟩ - ln Z + H(q), with hidden states from the recognition
    distribution q(h_1|v) q(h_2|h_1) … and p*/Z the marginal distribution of the top machine (Hinton et al. 2006;
    Salakhutdinov & Murray 2008). Machine k has both conditional distributions, and with its free energies F_k of
    visible and F̃_k of hidden states

        ln p_k(x|y) - ln q_k(y|x) = F̃_k(y) - F_k(x).

    The bound is therefore -⟨F⟩ - ln Z with F = F_1(v) - F̃_1(h_1) + F_2(h_1) - … + F_L(h_{L-1}), for any units. If
    machine 2 is the transpose of machine 1, F_2 = F̃_1 and the bound is the exact log-likelihood of machine 1. Hidden
    units that are pooled contribute -ln r(h) to F, where r(h) is the probability of h given its pooled state.

    >>> network = DeepBeliefNetwork.of([3, 2, 4])
    >>> sampled_free_energy(network, torch.zeros(2, 3))  # zero weights: -2 ln 2 + 3 ln 2 - 4 ln 2
    tensor([-2.0794, -2.0794], dtype=torch.float64)
    """
    total = torch.zeros(len(v), dtype=torch.float64, device=network.device)
    for k, machine in enumerate(network.machines):
        total += machine.free_energy(v, check=False).double()
        if k + 1 < len(network.machines):
            h = machine.sample_hidden(v, seed=generator)
            total -= (machine.hidden_free_energy(h) + machine.hidden.log_unpool(h)).double()
            v = network.upward(k, h)
    return total


def mean_free_energy(
    network: DeepBeliefNetwork, data: Tensor, n_samples: int, generator: Generator | None = None
) -> tuple[float, float]:
    """Return the mean variational free energy of ``data`` (n, *visible) and its standard error from sampling.

    The error is that of the hidden states, for these rows; ``n_samples`` independent samples are used for each row.
    """
    if n_samples < 2:
        raise InvalidOption(f"n_samples: expected at least 2 samples of the hidden layers, found {n_samples}")
    total, variance = 0.0, 0.0
    for part in data.split(_CHUNK):
        draws = torch.stack([sampled_free_energy(network, part, generator) for _ in range(n_samples)])
        total += draws.mean(0).sum().item()
        variance += draws.var(0).sum().item() / n_samples
    return total / len(data), math.sqrt(variance) / len(data)
