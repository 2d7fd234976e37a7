"""Rows that are the same: repeats among samples, and samples that are copies of data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .inputs import ArrayLike, alike, drawn, random
from .measured import Measured


@dataclass(frozen=True)
class Novelty:
    """Shares of rows, each beside what the data themselves give on as many rows.

    ``distinct``: different rows among the samples, ``distinct_data`` among the data. ``copied``: samples that are equal
    to a reference row, ``copied_data``: rows of the data that are. The reference is the training data where they are
    given, else one half of the data, with which the other half is compared.
    """

    distinct: Measured
    distinct_data: Measured
    copied: Measured
    copied_data: Measured

    @property
    def repetitive(self) -> bool:
        """Whether samples repeat themselves more than data do."""
        return _gap(self.distinct_data, self.distinct).above(0.0)

    @property
    def copying(self) -> bool:
        """Whether more samples than new data are equal to reference rows."""
        return _gap(self.copied, self.copied_data).above(0.0)


@torch.no_grad()
def novelty(samples: ArrayLike, data: ArrayLike, *, train: ArrayLike | None = None, seed: int | None = None) -> Novelty:
    """How many samples repeat each other or are copies of ``train`` (without it: of ``data``), all (n, *shape).

    Errors are binomial, which for the distinct ones errs to the large side.

    >>> data = torch.rand(400, 5, generator=torch.Generator().manual_seed(0))
    >>> found = novelty(data[:200], data)
    >>> found.distinct.estimate, found.copied.estimate > 0.3, found.copied_data.estimate, found.copying
    (1.0, True, 0.0, True)
    """
    samples, data = alike(samples, data)
    generator = random(seed)
    samples, data = (drawn(x, len(x), generator) for x in (samples, data))
    if train is None:
        half = len(data) // 2
        reference, unseen = data[:half], data[half:]
    else:
        reference, unseen = alike(samples, train, name="train")[1].to(data.device), data
    n = min(len(samples), len(data))
    shares = [_share(len(codes(x[:n])[0].unique()), n) for x in (samples, data)]
    copies = [_share(_found(x, reference), len(x)) for x in (samples, unseen)]
    return Novelty(*shares, *copies)


def codes(*sets: Tensor) -> list[Tensor]:
    """A number for each row (n,), the same for equal rows of all the sets."""
    kind = torch.float64 if all(x.dtype == torch.float64 for x in sets) else torch.float32  # what all can tell apart
    flat = torch.cat([x.flatten(1).to(kind) for x in sets]) + 0.0  # no negative zeros: rows are compared as bytes
    array = np.ascontiguousarray(flat.cpu().numpy())
    _, inverse = np.unique(array.view(np.dtype((np.void, array.strides[0]))).ravel(), return_inverse=True)
    return list(torch.from_numpy(inverse.ravel()).split([len(x) for x in sets]))


def _found(x: Tensor, reference: Tensor) -> int:
    """How many rows are among the reference rows."""
    mine, theirs = codes(x, reference)
    return int(torch.isin(mine, theirs).sum())


def _share(k: int, n: int) -> Measured:
    return Measured(k / n, math.sqrt(k * (n - k) / n) / n)


def _gap(a: Measured, b: Measured) -> Measured:
    """The difference a - b."""
    return Measured(a.estimate - b.estimate, math.hypot(a.standard_error, b.standard_error))
