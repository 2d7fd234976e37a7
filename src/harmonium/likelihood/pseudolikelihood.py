"""Pseudo-log-likelihood: the log-probability of each visible unit given all others (Besag 1975)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .. import noise
from ..checks import whole
from ..errors import InvalidOption, NotEnumerable
from ..machines import RBM, BoltzmannMachine
from ..machines.chain import ArrayLike
from ..machines.kernel import log_weight
from ..noise import Seed
from ..units import Unit

_ELEMENTS = 2**17  # entries of states, weights and fields at once; more do not fit into the cache of a core
MOST_STATES = 4096  # states per site; each one costs the evaluation of a free energy


@torch.no_grad()
def pseudo(rbm: RBM, v: ArrayLike, *, sites: int | None = None, seed: Seed = None) -> Tensor:
    """Compute Σ_i ln p(v_i | v_-i) for each row: (batch, *visible) -> (batch,).

    The result is a *sum* over the visible units (sites), in nats: divide by ``rbm.visible.sites`` to compare layers of
    different size. With ``sites``, only so many random sites of each row are evaluated and their sum is scaled, which
    is an unbiased estimate. Over all rows, every site is evaluated equally often, as far as possible.

    Args:
        rbm: machine whose visible units have finitely many states; they may be of several types.
        v: rows (batch, *visible).
        sites: number of sites of each row; by default all.
        seed: seed of the choice of sites.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Bernoulli(4), hm.units.Bernoulli(2))
    >>> pseudo(rbm, torch.zeros(1, 4)) / torch.tensor(0.5).log()
    tensor([4.])
    """
    if not isinstance(rbm, RBM):
        raise InvalidOption(f"machine: expected an RBM (two layers), found {type(rbm).__name__}")
    v = rbm.checked_states(v)
    blocks = _blocks(rbm.visible)
    conditional, total = _Conditional(rbm, v), rbm.visible.sites
    every = torch.arange(len(v), device=v.device)
    if sites is None:
        parts = (
            conditional(block, every, torch.full_like(every, site))
            for block in blocks
            for site in range(len(block.entries))
        )
        return torch.stack(list(parts)).sum(0)
    if whole("sites", sites) < 1:
        raise InvalidOption(f"sites: expected at least 1, found {sites}")
    n = min(sites, total)
    order = torch.randperm(total, generator=noise.generator(seed, v.device), device=v.device)
    found = torch.zeros(n, len(v), dtype=v.dtype, device=v.device)
    for k in range(n):
        site, first = order[(n * every + k) % total], 0
        for block in blocks:
            rows = torch.nonzero((site >= first) & (site < first + len(block.entries))).flatten()
            if len(rows):
                found[k, rows] = conditional(block, rows, site[rows] - first)
            first += len(block.entries)
    return found.sum(0) * (total / n)


class _Block(NamedTuple):
    """Sites with the same states: their entries (sites, d) in a flat row, and the states (states, d) of each."""

    entries: Tensor
    states: Tensor


def _blocks(unit: Unit) -> list[_Block]:
    """Return the sites of a layer, those of each of its parts in a block."""
    blocks, first = [], 0
    for part in unit.parts:
        states = _states(part)
        entries = torch.arange(first, first + part.size).view(part.sites, -1)
        blocks.append(_Block(entries, states.view(len(states), -1)))
        first += part.size
    return blocks


def _states(unit: Unit) -> Tensor:
    """Return the states of a site, (states,) or (states, size); raise if there are too many."""
    number = unit.cardinality  # of the whole layer; available without listing the states
    if number is None:
        raise NotEnumerable(
            "pseudo-likelihood expects visible units with finitely many states, "
            f"not {unit.name()} ({unit.support.description})"
        )
    digits = math.log10(number) / unit.sites
    if digits > math.log10(MOST_STATES) + 1e-9:
        raise NotEnumerable(
            f"pseudo-likelihood expects at most {MOST_STATES} states per unit, "
            f"found about 10^{digits:.1f} ({unit.name()})"
        )
    states = unit.support.states()
    assert states is not None, "a part with finitely many states can list them"
    return states


class _Conditional:
    """ln p(v_i | v_-i) of one site of each row. A changed site changes the hidden fields by a few rows of W only."""

    def __init__(self, rbm: RBM, v: Tensor) -> None:
        self.rbm, self.shape, self.flat = rbm, v.shape[1:], v.flatten(1)
        self.field = rbm.field(1, [v, None])
        shared = rbm.coupling.weight.numel() < rbm.visible.size * rbm.hidden.size  # whose dense matrix is large
        self.weight = None if shared else rbm.coupling.matrix()

    def __call__(self, block: _Block, rows: Tensor, site: Tensor) -> Tensor:
        """Return the log-probabilities (rows,) of one ``site`` (rows,) of a block for each of some ``rows``."""
        wide = self.flat.shape[1] + (1 + block.entries.shape[1]) * self.rbm.hidden.size
        pairs = zip(*(x.split(max(1, _ELEMENTS // wide)) for x in (rows, site)), strict=True)
        return torch.cat([self._of_few(block, *pair) for pair in pairs])

    def _of_few(self, block: _Block, rows: Tensor, site: Tensor) -> Tensor:
        entries, states, machine = block.entries.to(rows.device)[site], block.states.to(self.flat), self.rbm.at(rows)
        now = self.flat[rows[:, None], entries]
        log_p = torch.log_softmax(torch.stack([self._log_weight(machine, rows, entries, now, s) for s in states]), 0)
        distance = (states[:, None] - now).abs().sum(-1)
        return log_p[distance.argmin(0), torch.arange(len(rows), device=rows.device)]

    def _log_weight(
        self, machine: BoltzmannMachine, rows: Tensor, entries: Tensor, now: Tensor, state: Tensor
    ) -> Tensor:
        """Return ln of the weight of the rows with ``state`` (d,) at the entries (rows, d), which are ``now``."""
        changed = self.flat[rows]
        changed.scatter_(1, entries, state.expand_as(entries))
        known = {}
        if self.weight is not None:
            moved = torch.einsum("rq,rqm->rm", state - now, self.weight[entries])
            known[1] = self.field[rows] + moved.view(-1, *self.field.shape[1:])
        return log_weight(machine, [changed.view(-1, *self.shape), None], fields=known)
