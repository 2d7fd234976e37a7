"""Effects of all single mutations of a sequence, from differences of free energies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..arrays import as_tensor
from ..errors import InvalidData
from ..interactions.sites import Sites
from ..machines import RBM

_MOST_ELEMENTS = 2**24  # fields of hidden units computed at once


@torch.no_grad()
def mutations(rbm: RBM, sequence: Any) -> Tensor:
    """Compute ln p(mutant) - ln p(wild type) for all single mutations of a sequence: (sites, letters) in float64.

    ln Z cancels, so the difference of two free energies is exact (Tubiana et al. 2019). A mutation changes the fields
    of the hidden units by the difference of two rows of the weights; all mutants are computed together. The entry of
    the letter of the wild type is 0. Entries below 0 are mutations that the machine considers unfavorable.

    Args:
        rbm: an RBM whose visible units have finitely many states, such as one-hot units.
        sequence: visible state of the wild type: one-hot (sites, letters), or several sequences (n, sites, letters).

    Returns:
        The differences (sites, letters), or (n, sites, letters) for several sequences.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Potts((3, 4)), hm.units.Bernoulli(2))
    >>> rbm.initialize(weights="normal", scale=1.0, seed=0)
    >>> wild = torch.eye(4)[[0, 3, 2]]
    >>> table = mutations(rbm, wild)
    >>> mutant = torch.eye(4)[[0, 1, 2]]
    >>> change = rbm.free_energy(wild[None]) - rbm.free_energy(mutant[None])
    >>> bool((table[1, 1] - change).abs() < 1e-5)
    True
    """
    rows = as_tensor(sequence, "sequence")
    single = rows.shape == rbm.visible.shape
    states = rbm.checked_states(rows[None] if single else rows, "sequence")
    sites = Sites.of(rbm)
    letters = _letters(rbm, states)
    chunk = max(1, _MOST_ELEMENTS // (sites.states * sites.fields.shape[2]))
    tables = [_table(sites, row, chunk) for row in letters]
    return tables[0] if single else torch.stack(tables)


def _letters(rbm: RBM, states: Tensor) -> Tensor:
    """The number of the state of each site: (n, *visible) -> (n, sites)."""
    every = rbm.visible.support.states()
    if every is None:
        raise InvalidData(f"rbm: expected visible units with finitely many states, found {rbm.visible.name()}")
    values = states.reshape(len(states), rbm.visible.sites, 1, -1)
    return (values == every.to(states).reshape(1, 1, len(every), -1)).all(-1).int().argmax(-1)


def _table(sites: Sites, letters: Tensor, chunk: int) -> Tensor:
    """The differences for one sequence (sites,), computed for ``chunk`` sites at once."""
    every = torch.arange(sites.number, device=letters.device)
    own = sites.own - sites.own[every, letters].unsqueeze(1)
    steps = sites.fields - sites.fields[every, letters].unsqueeze(1)  # change of the fields, (sites, letters, hidden)
    base = sites.field(letters.unsqueeze(0))[0]
    before = sites.log_partition(base)
    changes = [(sites.log_partition(base + part) - before).sum(-1) for part in steps.split(chunk)]
    return (own + torch.cat(changes)).scatter_(1, letters.unsqueeze(1), 0.0)  # exact, without rounding
