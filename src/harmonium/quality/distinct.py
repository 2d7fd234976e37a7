"""Equal rows: repeated samples, and samples that are copies of data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..estimates import Estimate
from ..noise import Seed
from .inputs import ArrayLike, alike, drawn, random
from .significance import above


@dataclass(frozen=True)
class Novelty:
    """Fractions of distinct and of copied rows, for the samples and for the data.

    ``distinct`` and ``distinct_data`` are the fractions of distinct rows among equal numbers of samples and data.
    ``copied`` and ``copied_data`` are the fractions of samples and of data rows that equal a reference row. The
    reference rows are the training data if given; otherwise one half of the data, and ``copied_data`` is that of the
    other half.
    """

    distinct: Estimate
    distinct_data: Estimate
    copied: Estimate
    copied_data: Estimate

    @property
    def repetitive(self) -> bool:
        """Whether the samples have more repeated rows than the data."""
        return above(self.distinct_data - self.distinct, 0.0)

    @property
    def copying(self) -> bool:
        """Whether samples equal reference rows more often than new data do."""
        return above(self.copied - self.copied_data, 0.0)


@torch.no_grad()
def novelty(samples: ArrayLike, data: ArrayLike, *, train: ArrayLike | None = None, seed: Seed = None) -> Novelty:
    """Count repeated samples and samples that are copies of ``train`` (of ``data`` if None); all are (n, *shape).

    Standard errors are binomial, which overestimates those of the fractions of distinct rows.

    >>> data = torch.rand(400, 5, generator=torch.Generator().manual_seed(0))
    >>> found = novelty(data[:200], data)
    >>> found.distinct.value, found.copied.value > 0.3, found.copied_data.value, found.copying
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
    """Integer codes (n,) of the rows of each set; rows of any sets have the same code if and only if they are equal."""
    kind = torch.float64 if all(x.dtype == torch.float64 for x in sets) else torch.float32  # the less precise type
    flat = torch.cat([x.flatten(1).to(kind) for x in sets]) + 0.0  # no negative zeros: rows are compared as bytes
    array = np.ascontiguousarray(flat.cpu().numpy())
    _, inverse = np.unique(array.view(np.dtype((np.void, array.strides[0]))).ravel(), return_inverse=True)
    return list(torch.from_numpy(inverse.ravel()).split([len(x) for x in sets]))


def _found(x: Tensor, reference: Tensor) -> int:
    """Number of rows that equal a reference row."""
    mine, theirs = codes(x, reference)
    return int(torch.isin(mine, theirs).sum())


def _share(k: int, n: int) -> Estimate:
    return Estimate(k / n, math.sqrt(k * (n - k) / n) / n)
