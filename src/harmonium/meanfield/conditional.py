"""Mean field of the hidden layers of a machine given visible states."""

from __future__ import annotations

import torch
from torch import Tensor

from ..machines import BoltzmannMachine
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
def reconstruct(machine: BoltzmannMachine, v: ArrayLike) -> Tensor:
    """Return ⟨v⟩ given the mean-field means of the first hidden layer given ``v``: (n, *visible).

    For an RBM this is ``rbm.reconstruct(v)``.

    >>> import torch, harmonium as hm
    >>> deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(3), hm.units.Bernoulli(2), hm.units.Bernoulli(1)])
    >>> reconstruct(deep, torch.zeros(1, 3))
    tensor([[0.5000, 0.5000, 0.5000]])
    """
    rows = machine.as_states(v)
    hidden = hidden_given(machine, rows).magnetizations[1]
    return machine.visible.conserving(rows).mean(machine.couplings[0].down(hidden))
