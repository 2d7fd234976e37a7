"""Rows with weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from ...arrays import as_tensor
from ...errors import InvalidData
from ...machines import Machine
from .conversion import as_rows
from .source import Defaults, Source

_GOLDEN = (math.sqrt(5) - 1) / 2


class Weighted(Source):
    """Rows of any data, used in proportion to ``weights`` (n,). An epoch has n rows, as without weights.

    Use it for nearly identical sequences, unbalanced classes or rows with multiplicities. Rows may have missing values
    (:class:`Incomplete`). The cumulative weight is divided into n equal parts, and row k of an epoch is the one at a
    point of part k. The point is the same in all parts and moves by the golden section from epoch to epoch, so that
    the number of times that a row is used differs from its weight by less than three in a thousand epochs. Outside of
    training (initialization, metrics) the point is the middle.

    The rows of a batch count equally in its gradient. If every row were used once in an epoch and multiplied by its
    weight instead, the variance of the gradient of a batch would be larger by the factor n Σw²/(Σw)².

    >>> rows = Weighted(torch.eye(3), [1.0, 1.0, 0.0])
    >>> rows.take(torch.arange(3), torch.empty(3, 3), torch.Generator().manual_seed(0)).sum(0)[2]
    tensor(0.)
    """

    def __init__(self, data: Any, weights: Any) -> None:
        self._inner = as_rows(data, "data")
        super().__init__(self._inner._rows, self._inner.shape)
        self.context, self.volatile = self._inner.context, self._inner.volatile
        self.complete = self._inner.complete
        given = as_tensor(weights, "weights").detach().cpu()
        if given.shape != (len(self),):
            raise InvalidData(f"weights: expected shape ({len(self)},), one weight per row, found {tuple(given.shape)}")
        total = given.double().cumsum(0)
        if not len(given) or not bool((given >= 0).all()) or not 0 < total[-1].item() < math.inf:
            raise InvalidData("weights: expected finite non-negative numbers with a positive sum")
        self._reached = total / total[-1]
        self._last = int(given.nonzero()[-1])  # rounding must not select a later row
        self._point = 0.5
        self._taken: tuple[Tensor | None, Tensor] = None, torch.empty(0)  # the last index of `take`, and its rows

    def begin(self, epoch: int) -> None:
        self._point = (0.5 + epoch * _GOLDEN) % 1
        self._inner.begin(epoch)

    def take(self, index: Tensor, out: Any, generator: Generator | None = None) -> Any:
        device = (out if self.context is None else out[0]).device
        self._reached = self._reached.to(device)
        place = (index.to(device).double() + (0.5 if generator is None else self._point)) / len(self)
        rows = torch.searchsorted(self._reached, place, right=True).clamp_(max=self._last)
        self._taken = index, rows
        return self._inner.take(rows, out, generator)

    def missing(self, index: Tensor) -> Tensor | None:
        return self._inner.missing(self._rows_of(index))

    def keep(self, index: Tensor, rows: Tensor) -> None:
        self._inner.keep(self._rows_of(index), rows)

    def _rows_of(self, index: Tensor) -> Tensor:
        """Return the rows that the last call of :meth:`take`, which had this index, has selected."""
        assert self._taken[0] is index, "missing and keep follow take, with the same index"
        return self._taken[1]

    def distinct(self, machine: Machine) -> int:
        return self._inner.distinct(machine)

    @property
    def sweeps(self) -> int:  # type: ignore[override]
        return self._inner.sweeps

    def check(self, machine: Machine) -> None:
        self._inner.check(machine)

    def defaults(self) -> Defaults:
        return self._inner.defaults()

    def state_dict(self) -> dict[str, Any]:
        return self._inner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._inner.load_state_dict(state)

    def every(self, machine: Machine) -> Iterator[Any]:
        return self._inner.every(machine)
