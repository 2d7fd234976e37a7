"""The hidden layers of a machine given visible states: means, by mean field in a deep Boltzmann machine."""

from __future__ import annotations

import torch
from torch import Tensor

from ..machines import RBM, BoltzmannMachine, DeepBeliefNetwork, Machine
from ..machines.chain import ArrayLike
from .chain import naive
from .solutions import Solutions

_ITERATIONS = 30  # undamped; none of them raises the free energy
_CHUNK = 4096


@torch.no_grad()
def hidden_given(machine: BoltzmannMachine, v: ArrayLike) -> Solutions:
    """Return naive mean field of the hidden layers given visible states ``v`` (n, *visible).

    Its free energy is an upper bound of F(v), also before convergence. For an RBM it is exact.

    >>> import torch, harmonium as hm
    >>> deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(3), hm.units.Bernoulli(2), hm.units.Bernoulli(1)])
    >>> [x.shape[1] for x in hidden_given(deep, torch.zeros(5, 3)).magnetizations]
    [3, 2, 1]
    """
    rows = machine.as_states(v)
    parts = [naive(machine, clamped=part, damping=0.0, iterations=_ITERATIONS) for part in rows.split(_CHUNK)]
    return Solutions.join(parts)


@torch.no_grad()
def hidden_means(machine: Machine, v: ArrayLike) -> list[Tensor]:
    """Return the means of every hidden layer given visible states ``v`` (n, *visible), from the first one up.

    Exact for an RBM, by mean field for a deep Boltzmann machine, and layer by layer for a deep belief network.

    >>> import torch, harmonium as hm
    >>> hidden_means(hm.RBM(3, 2), torch.zeros(1, 3))
    [tensor([[0.5000, 0.5000]])]
    """
    if isinstance(machine, DeepBeliefNetwork):
        return [machine.features(v, layer) for layer in range(1, machine.depth)]
    return [machine.hidden_mean(v)] if isinstance(machine, RBM) else hidden_given(machine, v).magnetizations[1:]


@torch.no_grad()
def reconstruct(machine: Machine, v: ArrayLike) -> Tensor:
    """Return the means of the visible layer given the means of the hidden layers given ``v``: (n, *visible).

    For an RBM and a deep belief network this is their method ``reconstruct``.

    >>> import torch, harmonium as hm
    >>> deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(3), hm.units.Bernoulli(2), hm.units.Bernoulli(1)])
    >>> reconstruct(deep, torch.zeros(1, 3))
    tensor([[0.5000, 0.5000, 0.5000]])
    """
    if isinstance(machine, (RBM, DeepBeliefNetwork)):
        return machine.reconstruct(v)
    rows = machine.as_states(v)
    return machine.visible.conserving(rows).mean(machine.couplings[0].down(hidden_means(machine, rows)[0]))
