"""Weights of the rows of a data set in which many sequences are similar."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harmonium.data.identity import equal_sites, one_hot_rows
from harmonium.errors import InvalidOption


def similarity_weights(rows: Any, alike: float = 0.8) -> Tensor:
    """Weight of each sequence: 1 divided by the number of similar sequences, (n,) in float64.

    Two sequences are similar if they agree at a fraction ``alike`` of the sites or more; a sequence is similar to
    itself. The sum of the weights is the *effective* number of sequences. Train with
    ``harmonium.Weighted(rows, weights)``.

    Args:
        rows: one-hot sequences (n, sites, letters), as returned by :func:`load`.
        alike: fraction of equal sites, above 0 and at most 1.

    >>> letters = torch.tensor([[0, 1, 2, 0, 1], [0, 1, 2, 0, 0], [2, 2, 0, 1, 1]])
    >>> similarity_weights(torch.nn.functional.one_hot(letters, 3)).tolist()
    [0.5, 0.5, 1.0]
    """
    sequences = one_hot_rows(rows)
    if not 0 < alike <= 1:
        raise InvalidOption(f"alike: expected a fraction above 0 and at most 1, found {alike!r}")
    sites, letters = sequences.shape[1:]
    codes, where, copies = sequences.argmax(-1).unique(dim=0, return_inverse=True, return_counts=True)
    distinct = torch.nn.functional.one_hot(codes, letters).to(torch.uint8)
    least = alike * sites - 1e-6
    number = torch.cat([(equal >= least).double() @ copies.double() for equal in equal_sites(distinct, distinct)])
    return 1 / number[where]
