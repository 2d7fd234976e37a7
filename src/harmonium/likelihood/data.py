"""Check the data of a likelihood; compute their mean free energy or a bound of it."""

from __future__ import annotations

import torch

from .. import meanfield
from ..errors import InvalidOption
from ..machines import RBM, BoltzmannMachine
from ..machines.chain import ArrayLike
from ..units.support import Counts

_CHUNK = 4096


def checked(machine: BoltzmannMachine, data: ArrayLike) -> tuple[RBM, torch.Tensor]:
    """Check that the machine is an RBM and that ``data`` (n, *visible) has rows in its support; return both."""
    if not isinstance(machine, RBM):
        raise InvalidOption(f"machine: a log-likelihood expects an RBM (two layers), found {type(machine).__name__}")
    return machine, machine.checked_states(data)


def replicated_softmax(machine: BoltzmannMachine) -> RBM:
    """Return the machine if it is an RBM with one layer of multinomial units, else raise ``InvalidOption``."""
    if not isinstance(machine, RBM) or not isinstance(machine.visible.support, Counts) or machine.visible.sites != 1:
        found = " – ".join(unit.name() for unit in machine.layers)
        raise InvalidOption(f"machine: expected an RBM whose visible layer is one multinomial unit, found {found}")
    return machine


@torch.no_grad()
def mean_free_energy(machine: BoltzmannMachine, data: ArrayLike) -> float:
    """Return the mean free energy ⟨F(v)⟩ of ``data`` (n, *visible); the mean log-likelihood is -⟨F⟩ - ln Z.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> round(mean_free_energy(rbm, torch.zeros(5, 3)), 6)
    -1.386294
    """
    rbm, rows = checked(machine, data)
    return sum(rbm.free_energy(chunk, check=False).double().sum().item() for chunk in rows.split(_CHUNK)) / len(rows)


@torch.no_grad()
def mean_free_energy_bound(machine: BoltzmannMachine, data: ArrayLike) -> float:
    """Return the mean free energy ⟨F(v)⟩ of ``data`` (n, *visible) for an RBM, an upper bound of it for a deep machine.

    The bound is the free energy of naive mean field of the hidden layers, which is valid even without convergence.
    With ln Z it gives a lower bound of the log-likelihood.

    >>> import harmonium as hm
    >>> deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(3), hm.units.Bernoulli(2), hm.units.Bernoulli(1)])
    >>> round(mean_free_energy_bound(deep, torch.zeros(5, 3)), 6)  # zero weights: -3 ln 2
    -2.079442
    """
    if isinstance(machine, RBM):
        return mean_free_energy(machine, data)
    rows = machine.checked_states(data)
    total = 0.0
    for part in rows.split(_CHUNK):
        total += meanfield.hidden_given(machine, part).free_energy.double().sum().item()
    return total / len(rows)
