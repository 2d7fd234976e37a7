"""Rows of arrays and sparse matrices, converted to dense states in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from ..errors import InvalidData
from ..training import Redrawn
from ..training.batches import Source

FLOATS = (np.float64, np.float32)
_CHUNK = 1000  # rows of a sparse matrix that are converted to a dense array at a time


class SparseRows(Source):
    """Rows of a sparse matrix, converted to dense states one batch at a time."""

    def __init__(self, matrix: Any, shape: tuple[int, ...], states: Any, *, redrawn: bool) -> None:
        self._matrix, self._states, self._redrawn = matrix, states, redrawn
        super().__init__(range(matrix.shape[0]), shape)

    def take(self, index: Tensor, out: Tensor, generator: torch.Generator | None = None) -> Tensor:
        states = self._states(dense(self._matrix[index.cpu().numpy()])).to(out)
        if not self._redrawn:
            return out.copy_(states)
        return Redrawn(states).take(torch.arange(len(states)), out, generator)


def dense(rows: Any) -> np.ndarray:
    """Return rows of an array or a sparse matrix as a dense array."""
    return np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows)


def chunks(X: Any) -> Iterator[np.ndarray]:
    """Yield dense rows, a thousand at a time."""
    for first in range(0, X.shape[0], _CHUNK):
        yield dense(X[first : first + _CHUNK])


def by_row(X: Any, function: Any) -> np.ndarray:
    """Apply a function of tensors to dense chunks of rows; a single row (n_features,) gives a single result."""
    if not sparse.issparse(X) and np.ndim(X) == 1:
        return by_row(np.asarray(X)[None], function)[0]
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if X.ndim != 2:
        raise InvalidData(f"X: expected rows (n_samples, n_features), found shape {X.shape}")
    X = X.tocsr() if sparse.issparse(X) else X
    return torch.cat([function(torch.from_numpy(rows)) for rows in chunks(X)]).numpy()
