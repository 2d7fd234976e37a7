"""Overlaps of pairs of states, such as independent samples at one temperature."""

from __future__ import annotations

import torch
from torch import Tensor

from .inputs import ArrayLike, alike, rows


@torch.no_grad()
def overlaps(samples: ArrayLike, others: ArrayLike | None = None, *, centered: bool = True) -> Tensor:
    """Compute the overlap q of every pair of rows.

    A centered overlap is the correlation of two rows after the mean of each unit (over all given rows) is subtracted: 1
    for equal rows, and about 0 for independent ones. Otherwise q = Σ x_i y_i / N, the overlap of spins.

    Args:
        samples: states (n, *shape).
        others: states (m, *shape) to compare with; by default the samples with each other.
        centered: whether the mean is subtracted.

    Returns:
        (n(n - 1)/2,) overlaps of different samples, or (n, m) overlaps with ``others``.

    >>> overlaps([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], centered=False).tolist()
    [0.0, -1.0, 0.0]
    """
    if others is None:
        left = rows(samples, "samples", fewest=2).flatten(1)
        right = left
    else:
        left, right = (x.flatten(1) for x in alike(samples, others, fewest=1, name="others"))
    if centered:
        mean = torch.cat([left] if others is None else [left, right]).mean(0)
        left, right = (_unit(x - mean) for x in (left, right))
        found = left @ right.T
    else:
        found = left @ right.T / left.shape[1]
    if others is not None:
        return found
    first, second = torch.triu_indices(len(found), len(found), offset=1, device=found.device)
    return found[first, second]


def _unit(x: Tensor) -> Tensor:
    """Rows of length 1; a row of zeros stays zero."""
    return x / x.norm(dim=1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
