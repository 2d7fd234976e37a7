"""Rows with random access by index."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from ...machines import Machine

#: rows of the visible layer and of the context, for a machine with a context
Pair = tuple[Tensor, Tensor]
#: values of a plan (:class:`harmonium.training.Plan`) by name, each with a reason
Defaults = Mapping[str, tuple[Any, str]]
CHECK_ELEMENTS = 2**18  # elements per chunk; chunks that fit into the cache are checked fastest


class Source:
    """Dataset with random access by row index. Rows keep their data type and are converted batch by batch.

    If each row has a context (:class:`Conditional`), then rows, buffers for them and their means are pairs: the visible
    part (n, *shape) and the context (n, *context).
    """

    #: largest number of rows that are used to initialize a machine
    initial_rows = 5_000
    #: whether the rows have valid values by construction, so that they need no check
    valid = False
    #: whether the rows are in a file that can change during training, so that the values of each batch are checked
    volatile = False
    #: number of Gibbs sweeps of missing values before each update
    sweeps = 1
    #: whether no value is missing in any row
    complete = True
    #: the batch size of a DataLoader of the rows
    batch_size: int | None = None
    #: the shape of the context of a row; ``None`` for rows without one
    context: tuple[int, ...] | None = None

    def __init__(self, rows: Any, shape: tuple[int, ...]) -> None:
        self._rows, self.shape = rows, tuple(shape)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, index: Tensor, out: Any, generator: Generator | None = None) -> Any:
        """Write the rows ``index`` into ``out`` (len(index), *shape); ``generator`` is used for random rows."""
        raise NotImplementedError

    def begin(self, epoch: int) -> None:
        """Prepare for the rows of an epoch of training, counted from 1."""

    def rows(self, index: Tensor, machine: Machine) -> Any:
        """Return the rows ``index`` as visible states of the machine."""
        return self.take(index, self.empty(len(index), machine))

    def empty(self, rows: int, machine: Machine) -> Any:
        """Return memory for visible states of the machine (rows, *shape), or a pair with that for contexts."""
        shapes = [self.shape] if self.context is None else [self.shape, self.context]
        out = tuple(torch.empty(rows, *shape, dtype=machine.dtype, device=machine.device) for shape in shapes)
        return out[0] if self.context is None else out

    def missing(self, index: Tensor) -> Tensor | None:
        """Return a mask (len(index), *shape) of the missing values of the rows; None if there are none."""
        return None

    def keep(self, index: Tensor, rows: Tensor) -> None:
        """Store new values of the missing entries of the rows ``index``."""

    def check(self, machine: Machine) -> None:
        """Raise if the machine cannot be trained on these rows, apart from their values."""

    def defaults(self) -> Defaults:
        """Return the values of a plan that this kind of data needs, each with the reason."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resume."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state returned by :meth:`state_dict`."""

    @torch.no_grad()
    def mean(self, machine: Machine) -> Any:
        """Return the mean of all rows, (*shape) in float64."""
        total: list[Any] = [0.0, 0.0]
        for chunk in self.chunks(machine):
            for k, part in enumerate([chunk] if self.context is None else chunk):
                total[k] = total[k] + part.sum(0, dtype=torch.float64)
        means = [part / len(self) for part in total]
        return means[0] if self.context is None else tuple(means)

    def distinct(self, machine: Machine) -> int:
        """Return the number of distinct rows.

        >>> from harmonium import RBM
        >>> from harmonium.training.batches import as_rows
        >>> as_rows(torch.eye(3).repeat(4, 1)).distinct(RBM(3, 2))
        3
        """
        keys = []
        for chunk in self.chunks(machine):
            parts = [chunk] if self.context is None else chunk
            keys.append(_keys(torch.cat([part.flatten(1) for part in parts], 1)))
        return len(torch.cat(keys).unique())

    def chunks(self, machine: Machine, size: int | None = None) -> Iterator[Any]:
        """Yield all rows in order, in chunks of ``size`` rows, by default as many as fit into memory."""
        size = self.chunk_rows if size is None else size
        for start in range(0, len(self), size):
            yield self.span(start, min(start + size, len(self)), machine)

    @property
    def chunk_rows(self) -> int:
        """The number of rows of a chunk."""
        elements = math.prod(self.shape) + (0 if self.context is None else math.prod(self.context))
        return max(1, CHECK_ELEMENTS // max(1, elements))

    def span(self, start: int, stop: int, machine: Machine) -> Any:
        """Return the rows from ``start`` to ``stop`` as visible states of the machine."""
        return self.rows(torch.arange(start, stop), machine)

    def every(self, machine: Machine) -> Iterator[Any]:
        """Yield all rows that :meth:`take` can return, in chunks, for checks of the data."""
        return self.chunks(machine)


def _keys(rows: Tensor) -> Tensor:
    """Return a hash of each row (n, sites): equal rows have the same, and different ones almost never."""
    bits = (rows.float() + 0.0).contiguous().view(torch.int32).long()  # -0.0 + 0.0 is 0.0
    factors = torch.randint(2**62, (rows.shape[1],), generator=Generator().manual_seed(0)).to(rows.device)
    return (bits * factors).sum(1)  # modulo 2^64


def visible_part(rows: Any) -> Tensor:
    """Return the visible part of rows or of their mean, which are a pair if there are contexts."""
    return rows[0] if isinstance(rows, tuple) else rows
