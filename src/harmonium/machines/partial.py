"""Exact sums over the missing visible units and the hidden layer of an RBM, given its observed visible units.

ln p*(v_obs, h) = -U(v_obs) + v_obs·(Wh) + Σ_missing ln Z_i((Wh)_i) - U(h), where p(v_obs) = Σ_h p*(v_obs, h) / Z.
Missing units are summed out in closed form, any number of them: only the hidden layer is enumerated.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import NotEnumerable
from ..units import Unit
from ..units.base import per_row
from .enumeration import enumerable
from .given import check_whole_units

if TYPE_CHECKING:
    from .rbm import RBM

_CHUNK_ELEMENTS = 2**22


@dataclass(frozen=True)
class PartialRows:
    """Rows (n, *visible) of which the units in ``mask`` (n, *visible) are observed; others have the value zero."""

    values: Tensor
    mask: Tensor

    @staticmethod
    def of(rows: Tensor, layer: Unit, mask: Tensor | None = None) -> PartialRows:
        """The rows, with the observed units given by ``mask``, by default those that are not NaN."""
        mask = ~torch.isnan(rows) if mask is None else mask
        check_whole_units(layer, mask)
        return PartialRows(torch.where(mask, rows, 0.0), mask)

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, index: Tensor | slice) -> PartialRows:
        """The selected rows."""
        return PartialRows(self.values[index], self.mask[index])

    def fill(self, x: Tensor) -> Tensor:
        """States ``x`` (n, *visible) with the observed units set to their values."""
        return torch.where(self.mask, self.values, x)

    def log_weight(self, layer: Unit) -> Tensor:
        """Σ -U(v) over the observed units of each row: (n,)."""
        each = layer.log_weight(self.values).reshape(len(self), -1)
        return torch.where(observed_sites(layer, self.mask), each, 0.0).sum(1)


def observed_sites(layer: Unit, mask: Tensor) -> Tensor:
    """Which units are observed, from a mask of their entries: (n, *shape) -> (n, sites).

    >>> from harmonium.units import Potts
    >>> observed_sites(Potts((2, 2)), torch.tensor([[[True, True], [False, False]]]))
    tensor([[ True, False]])
    """
    pieces = zip(layer.parts, layer.split(mask), strict=True)
    sites = [piece.all(-1) if part.event_shape else piece for part, piece in pieces]
    return torch.cat([site.reshape(len(mask), -1) for site in sites], 1)


def check_enumerable(rbm: RBM) -> None:
    """Raise :class:`NotEnumerable` unless the hidden layer has at most 2^20 states."""
    if not enumerable(rbm, parity=1):
        number = rbm.hidden.cardinality
        found = "infinitely many" if number is None else f"{number:.3g}"
        raise NotEnumerable(f"exact sum: expected at most 2^20 states of the hidden layer, found {found}")


def log_marginal(rbm: RBM, rows: PartialRows) -> Tensor:
    """ln p*(v_obs) = ln p(v_obs) + ln Z of every row, exact and differentiable: (n,) in the dtype of the machine.

    >>> from harmonium import RBM
    >>> from harmonium.units import Bernoulli
    >>> rows = PartialRows.of(torch.tensor([[1.0, torch.nan, torch.nan]]), Bernoulli(3))
    >>> log_marginal(RBM(Bernoulli(3), Bernoulli(1)), rows).item() / torch.tensor(2.0).log().item()  # 2³ states
    3.0
    """
    check_enumerable(rbm)
    return torch.logsumexp(torch.stack([torch.logsumexp(log_p, 1) for _, log_p in _joint(rbm, rows)]), 0)


@dataclass(frozen=True)
class PartialMoments:
    """Conditional moments given the observed units; those of the visible layer are NaN-free for all units.

    ``log_marginal`` (n,) is ln p*(v_obs); ``visible`` and ``variance`` (n, *visible) are the conditional mean and
    variance of the visible units, with observed units unchanged and of variance 0; ``hidden`` (n, *hidden) is the
    mean of h.
    """

    log_marginal: Tensor
    visible: Tensor
    variance: Tensor
    hidden: Tensor


@torch.no_grad()
def moments(rbm: RBM, rows: PartialRows) -> PartialMoments:
    """Exact conditional moments of both layers given the observed units, computed in float64."""
    double = rbm if rbm.dtype == torch.float64 else copy.deepcopy(rbm).double()
    exact = PartialRows(rows.values.double(), rows.mask)
    total = log_marginal(double, exact)
    first = torch.zeros_like(exact.values).flatten(1)
    second = torch.zeros_like(first)
    hidden = torch.zeros(len(rows), rbm.hidden.size, dtype=torch.float64, device=rbm.device)
    for h, log_p in _joint(double, exact):
        p, field = (log_p - total[:, None]).exp(), double.coupling.down(h)
        mean = double.visible.mean(field).flatten(1)
        first += p @ mean
        second += p @ (double.visible.variance(field).flatten(1) + mean.square())
        hidden += p @ h.flatten(1)
    spread = (second - first.square()).clamp_min(0.0).view(exact.values.shape).masked_fill(rows.mask, 0.0)
    mean = exact.fill(first.view(exact.values.shape))
    return PartialMoments(
        total, mean.to(rows.values), spread.to(rows.values), hidden.view(-1, *rbm.hidden.shape).to(rows.values)
    )


@torch.no_grad()
def draws(rbm: RBM, rows: PartialRows, n: int, generator: torch.Generator | None = None) -> Tensor:
    """Exact conditional draws of complete rows: (n rows, n, *visible)."""
    double = rbm if rbm.dtype == torch.float64 else copy.deepcopy(rbm).double()
    exact = PartialRows(rows.values.double(), rows.mask)
    best = torch.full((len(rows), n), -torch.inf, dtype=torch.float64, device=rbm.device)
    chosen = torch.zeros(len(rows), n, *rbm.hidden.shape, dtype=torch.float64, device=rbm.device)
    for h, log_p in _joint(double, exact):  # the largest of ln p + Gumbel noise over all states
        for k in range(n):
            noise = torch.empty_like(log_p).exponential_(generator=generator).log_()
            value, at = (log_p - noise).max(1)
            better = value > best[:, k]
            best[:, k] = torch.where(better, value, best[:, k])
            chosen[better, k] = h[at[better]]
    visible = rbm.visible.sample(rbm.coupling.down(chosen.flatten(0, 1).to(rbm.dtype)), generator=generator)
    return torch.where(rows.mask[:, None], rows.values[:, None], visible.unflatten(0, (len(rows), n)))


def _joint(rbm: RBM, rows: PartialRows) -> Iterator[tuple[Tensor, Tensor]]:
    """Every hidden state, a chunk at a time, with ln p*(v_obs, h): (chunk, *hidden) and (n, chunk)."""
    layer, states = rbm.visible, rbm.hidden.cardinality or 0
    missing = (~observed_sites(layer, rows.mask)).to(rows.values.dtype)
    own = rows.log_weight(layer)[:, None]
    chunk = max(1, min(states, _CHUNK_ELEMENTS // max(len(rows), layer.size)))
    for index in torch.arange(states).split(chunk):
        h = rbm.hidden.enumerate(index).to(rows.values)
        field = rbm.coupling.down(h)
        summed = layer.log_partition(field).reshape(len(h), -1)
        known = rows.values.flatten(1) @ field.flatten(1).T
        yield h, own + known + missing @ summed.T + per_row(rbm.hidden.log_weight(h))
