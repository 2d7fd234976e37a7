"""The free energy of solutions as a differentiable function of the parameters."""

from __future__ import annotations

from torch import Tensor

from ..machines import BoltzmannMachine
from . import adaptive, chain, messages
from .solutions import Solutions


def free_energy(machine: BoltzmannMachine, solutions: Solutions) -> Tensor:
    """Return the estimate of -ln Z of each fixed solution, (n,), differentiable in the parameters.

    The free energies of naive mean field, TAP, adaptive TAP and BP with exact messages are stationary at their fixed
    points, so the derivative at fixed solutions is the total derivative; for TAP see Tramel et al. (2018), eqs.
    (39)-(41). The free energy of relaxed BP is not stationary; its derivative includes the change of the messages.

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
