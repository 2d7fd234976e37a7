"""Rows with missing values. Their missing entries are sampled given the observed ones while the machine is trained."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Generator, Tensor

from .. import noise
from ..arrays import as_tensor
from ..checks import whole
from ..errors import InvalidData, InvalidOption
from ..machines import BoltzmannMachine, Machine
from ..machines.given import check_whole_units
from ..noise import Seed
from .batches import Source, TensorSource
from .negative.base import as_rbm, complete
from .state import restored

_SWEEPS = 100  # to complete rows that are not trained on


class Incomplete(TensorSource):
    """Rows in which NaN means that a value is missing.

    The gradient of ln p(v_obs), the log-likelihood of the observed values, is that of complete rows averaged over the
    missing values given the observed ones. Each row therefore has a Markov chain of its missing values (data
    augmentation, Tanner & Wong 1987): it starts at values of the same units in other rows, and continues with
    ``sweeps`` Gibbs sweeps whenever the row is in a batch. The gradient is unbiased once the chains are in
    equilibrium. The phase ``Exact`` computes the average over the missing values exactly instead.

    Args:
        data: rows (n, *visible) with NaN for missing values. All components of a vector unit, such as a Potts unit,
            are missing together.
        sweeps: number of Gibbs sweeps of the missing values of a row before each update.
        seed: seed of the initial values.

    >>> rows = Incomplete(torch.tensor([[0.0, torch.nan], [1.0, 1.0]]))
    >>> rows.take(torch.arange(2), torch.empty(2, 2))
    tensor([[0., 1.],
            [1., 1.]])
    """

    def __init__(self, data: Any, *, sweeps: int = 1, seed: Seed = 0) -> None:
        if whole("sweeps", sweeps) < 1:
            raise InvalidOption(f"sweeps: expected at least 1, found {sweeps}")
        rows = as_tensor(data).detach()
        if rows.ndim < 2 or rows.numel() == 0 or not rows.is_floating_point():
            raise InvalidData(f"data: expected rows of real numbers, found {tuple(rows.shape)} of {rows.dtype}")
        self._missing, self.sweeps = torch.isnan(rows), sweeps
        self.complete = not bool(self._missing.any())
        super().__init__(_filled(rows, self._missing, noise.generator(seed)), rows.shape[1:])

    def missing(self, index: Tensor) -> Tensor | None:
        found = self._missing[index.to(self._missing.device)]
        return found if bool(found.any()) else None

    def keep(self, index: Tensor, rows: Tensor) -> None:
        self._rows[index.to(self._rows.device)] = rows.to(self._rows)

    def observed(self, index: Tensor) -> Tensor:
        """The rows with NaN for missing values: (len(index), *shape)."""
        return self._rows[index].masked_fill(self._missing[index], torch.nan)

    def check(self, machine: Machine) -> None:
        if bool(self._missing.any()):
            as_rbm(cast("BoltzmannMachine", machine), "training with missing values")
        for observed in (~self._missing).split(self.chunk_rows):
            check_whole_units(machine.visible, observed)

    def state_dict(self) -> dict[str, Any]:
        return {"missing": self._rows[self._missing]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        own = self._rows[self._missing]
        self._rows[self._missing] = restored(state["missing"], own).to(own.device)


def completed(
    source: Source,
    index: Tensor,
    machine: Machine,
    *,
    sweeps: int = _SWEEPS,
    generator: Generator | None = None,
) -> Tensor:
    """The rows ``index`` of any source as visible states; missing values are first sampled given the observed ones."""
    rows, missing = source.rows(index, machine), source.missing(index)
    if missing is not None:
        complete(machine, rows, missing.to(rows.device), sweeps, generator)
        source.keep(index, rows)
    return rows


def _filled(rows: Tensor, missing: Tensor, generator: Generator | None) -> Tensor:
    """A copy in which missing values are those of random other rows.

    Entries that are missing in the same rows, such as the components of a vector unit, come from the same row.
    """
    filled, flat = rows.clone().contiguous(), missing.flatten(1)
    values = filled.view(len(rows), -1)
    key = torch.rand(len(rows), dtype=torch.float64, generator=noise.generator(0))
    _, group = torch.unique(
        flat.to(torch.float64).T @ key, return_inverse=True
    )  # by the rows where entries are missing
    for k in range(int(group.max()) + 1):
        entries = torch.nonzero(group == k).flatten()
        wanted = torch.nonzero(flat[:, entries[0]]).flatten()
        if len(wanted) == 0:
            continue
        donors = torch.nonzero(~flat[:, entries[0]]).flatten()
        if len(donors) == 0:
            raise InvalidData(f"data: expected an observed value of every unit, found none in column {int(entries[0])}")
        chosen = donors[torch.randint(len(donors), (len(wanted),), generator=generator)]
        values[wanted[:, None], entries] = values[chosen[:, None], entries]
    return filled
