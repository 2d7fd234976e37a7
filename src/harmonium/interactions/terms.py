"""Sparse storage of interactions: for each order, increasing tuples (m, order) and their values (m,)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Term = tuple[Tensor, Tensor]
Terms = dict[int, Term]


def merged(terms: Sequence[Term]) -> Term:
    """Merge terms of one order, adding the values of equal tuples.

    >>> merged([(torch.tensor([[0, 1]]), torch.tensor([1.0])), (torch.tensor([[0, 1]]), torch.tensor([2.0]))])
    (tensor([[0, 1]]), tensor([3.]))
    """
    tuples = torch.cat([tuples for tuples, _ in terms])
    values = torch.cat([values for _, values in terms])
    unique, where = tuples.unique(dim=0, return_inverse=True)
    return unique, values.new_zeros(len(unique)).index_add_(0, where, values)
