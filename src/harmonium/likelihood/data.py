"""Check the data of a likelihood; compute their mean free energy or a bound of it."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from .. import meanfield
from ..errors import InvalidOption
from ..machines import RBM, BoltzmannMachine, enumeration
from ..machines.chain import ArrayLike
from ..machines.kernel import log_weight
from ..units.base import per_row
from ..units.support import Counts

_CHUNK = 4096
_ELEMENTS = 2**22  # rows times hidden states at once


def checked(machine: BoltzmannMachine, data: ArrayLike) -> tuple[RBM, Tensor]:
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
def mean_free_energy_or_bound(machine: BoltzmannMachine, data: ArrayLike) -> tuple[float, bool]:
    """Return the mean free energy ⟨F(v)⟩ of ``data`` (n, *visible), and whether it is only an upper bound.

    It is exact for an RBM, and for a deep machine if the hidden states of every row can be summed.
    """
    rows = machine.checked_states(data)
    if sums_hidden(machine, len(rows)):
        return hidden_sums(machine, rows).mean().item(), False
    return mean_free_energy_bound(machine, rows), not isinstance(machine, RBM)


def sums_hidden(machine: BoltzmannMachine, rows: int) -> bool:
    """Return whether the hidden layers of a deep machine have few enough states for a sum over them for each row."""
    if isinstance(machine, RBM):
        return False
    most = min(enumeration.EXACT_STATES_PER_ROW, enumeration.MAX_STATES // max(1, rows))
    return enumeration.enumerable(_hidden_part(machine), most)


@torch.no_grad()
def hidden_sums(machine: BoltzmannMachine, rows: Tensor) -> Tensor:
    """Return the exact free energy F(v) = -ln Σ_h p*(v, h) of every row of a small deep machine: (n,) in float64.

    >>> import harmonium as hm
    >>> deep = hm.DeepBoltzmannMachine([hm.units.Bernoulli(3), hm.units.Bernoulli(2), hm.units.Bernoulli(1)])
    >>> hidden_sums(deep, torch.zeros(1, 3))  # zero weights: -3 ln 2
    tensor([-2.0794], dtype=torch.float64)
    """
    double = copy.deepcopy(machine).double()
    rows, hidden = rows.double(), _hidden_part(double)
    up = double.couplings[0].up(rows)
    total = torch.full((len(rows),), -math.inf, dtype=torch.float64, device=rows.device)
    for state, parity in enumeration.states(hidden):
        total = torch.logaddexp(total, _summed_over(hidden, state, parity, up))
    return -total - per_row(double.visible.log_weight(rows))


def _summed_over(hidden: BoltzmannMachine, state: list[Tensor | None], parity: int, up: Tensor) -> Tensor:
    """Return ln Σ e^{-E} over some states of the hidden layers of one parity, for every field ``up`` on the first."""
    first = state[0]
    if first is None:  # the first hidden layer is summed out with the field from both of its neighbors
        field = hidden.field(0, state)
        each = (log_weight(hidden, state, summed=0, dtype=torch.float64, fields={0: field + one}) for one in up)
        return torch.stack([torch.logsumexp(values, 0) for values in each])
    own = log_weight(hidden, state, summed=1 - parity, dtype=torch.float64)
    parts = up.flatten(1).split(max(1, _ELEMENTS // len(own)))
    return torch.cat([torch.logsumexp(part @ first.flatten(1).T + own, 1) for part in parts])


def _hidden_part(machine: BoltzmannMachine) -> BoltzmannMachine:
    """Return the hidden layers of a deep machine as a machine of their own."""
    return BoltzmannMachine(*copy.deepcopy((list(machine.layers[1:]), list(machine.couplings[1:]))))


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
