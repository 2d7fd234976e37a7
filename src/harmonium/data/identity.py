"""Numbers of equal sites of sequences, and nearest neighbors by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from harmonium.arrays import as_tensor
from harmonium.errors import InvalidData

_CHUNK = 1000
_ROUNDING = 1e-3  # of a sum of probabilities, also in bfloat16


def one_hot_rows(rows: Any, what: str = "rows") -> Tensor:
    """Convert to a tensor of one-hot sequences (n, sites, letters); raise if it is not."""
    sequences = as_tensor(rows, what)
    if sequences.ndim != 3 or not bool((sequences.sum(-1) == 1).all()):
        raise InvalidData(f"{what}: expected one-hot sequences (n, sites, letters), found {tuple(sequences.shape)}")
    return sequences


def letter_probabilities(states: Any, what: str) -> Tensor:
    """Convert to a tensor of probabilities of letters (n, sites, letters), one-hot or not; raise if it is not."""
    rows = as_tensor(states, what)
    if rows.ndim != 3:
        raise InvalidData(f"{what}: expected the shape (n, sites, letters), found {tuple(rows.shape)}")
    wrong = ((rows.double().sum(-1) - 1).abs() <= _ROUNDING).logical_not() | (rows < 0).any(-1)
    if bool(wrong.any()):
        row, site = wrong.nonzero()[0].tolist()
        raise InvalidData(
            f"{what}: expected one-hot values or probabilities with the sum 1 at each site, found the sum "
            f"{rows[row, site].double().sum().item():g} in row {row}, site {site}"
        )
    return rows


def equal_sites(sequences: Tensor, others: Tensor) -> Iterator[Tensor]:
    """Yield the numbers of equal sites of one-hot sequences (n, …) and others (m, …), in chunks of rows (≤ 1000, m)."""
    columns = others.flatten(1).float().T
    for part in sequences.split(_CHUNK):
        yield part.flatten(1).float() @ columns


def nearest_sequences(states: Any, rows: Any) -> tuple[Tensor, Tensor]:
    """Find the nearest neighbor of each sequence: its row number (n,), and the identity (n,), the share of equal sites.

    A gap is equal to a gap. Of several nearest neighbors the first is returned.

    Args:
        states: one-hot sequences (n, sites, letters), such as samples of a machine.
        rows: one-hot sequences (m, sites, letters) to search.

    >>> rows = torch.nn.functional.one_hot(torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]]), 3)
    >>> nearest_sequences(torch.nn.functional.one_hot(torch.tensor([[2, 2, 1, 1]]), 3), rows)
    (tensor([1]), tensor([0.7500], dtype=torch.float64))
    """
    sequences, others = one_hot_rows(states, "states"), one_hot_rows(rows)
    if sequences.shape[1:] != others.shape[1:]:
        raise InvalidData(
            f"states: expected sequences of shape {tuple(others.shape[1:])} as in rows, "
            f"found {tuple(sequences.shape[1:])}"
        )
    sequences = sequences.to(others.device)
    index, equal = [], []
    for counts in equal_sites(sequences, others):
        index.append(counts.argmax(1))
        equal.append(counts.amax(1))
    return torch.cat(index), torch.cat(equal).double() / others.shape[1]
