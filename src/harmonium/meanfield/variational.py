"""The free energy of solutions as a differentiable function of the machine's parameters."""

from __future__ import annotations

from torch import Tensor

from ..machines import BoltzmannMachine
from . import adaptive, chain, messages
from .solutions import Solutions


def free_energy(machine: BoltzmannMachine, solutions: Solutions) -> Tensor:
    """-ln Z of each solution, the solution held fixed: (n,), differentiable in the parameters.

    The free energies of naive mean field, TAP, adaptive TAP and BP with exact messages are stationary at their fixed
    points, so that this derivative is the whole one: for TAP, eqs. (39)-(41). That of relaxed BP is not, and its
    derivative takes account of how the messages move.

    >>> import torch, harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> free_energy(rbm, hm.meanfield.tap(rbm)).sum().backward()
    >>> rbm.visible.bias.grad  # minus the magnetizations
    tensor([-0.5000, -0.5000, -0.5000])
    """
    s = solutions
    machine = machine.conserving(s.magnetizations[0])
    if s.messages:
        return messages.free_energy(machine, s)
    state = s.magnetizations, s.variances, s.B, s.A
    if s.method == "adatap":
        return adaptive.free_energy(machine, *state)
    return chain.free_energy(machine, *state, second_order=s.method == "tap", clamped=s.clamped)
