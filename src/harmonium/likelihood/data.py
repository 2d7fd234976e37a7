"""The data whose likelihood is asked for: checked in one place, and their mean free energy."""

from __future__ import annotations

import torch

from ..errors import InvalidData, InvalidOption
from ..machines import RBM, BoltzmannMachine
from ..machines.chain import ArrayLike

_CHUNK = 4096


def checked(machine: BoltzmannMachine, data: ArrayLike) -> tuple[RBM, torch.Tensor]:
    """The machine, known to be an RBM, and the data (n, *visible) as its states: at least one, all in the support."""
    if not isinstance(machine, RBM):
        raise InvalidOption(f"a log-likelihood expects an RBM (two layers), found {type(machine).__name__}")
    rows = machine.as_states(data)
    if len(rows) == 0:
        raise InvalidData("data: expected at least one row, found none")
    machine.visible.check(rows)
    return machine, rows


@torch.no_grad()
def mean_free_energy(machine: BoltzmannMachine, data: ArrayLike) -> float:
    """⟨F(v)⟩ over the rows of ``data`` (n, *visible), so that the mean log-likelihood is -⟨F⟩ - ln Z.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    >>> round(mean_free_energy(rbm, torch.zeros(5, 3)), 6)
    -1.386294
    """
    rbm, rows = checked(machine, data)
    return sum(rbm.free_energy(chunk).double().sum().item() for chunk in rows.split(_CHUNK)) / len(rows)
