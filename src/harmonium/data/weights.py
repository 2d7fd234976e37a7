"""How much each row of a data set counts, where some are near copies of others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harmonium.errors import InvalidData, InvalidOption

_CHUNK = 1000


def similarity_weights(rows: Any, alike: float = 0.8) -> Tensor:
    """1 over the number of sequences that agree at ``alike`` of the sites or more, itself among them: (n,), float64.

    Of one-hot rows (n, sites, letters), as :func:`load` gives aligned sequences. Their sum is the *effective* number
    of sequences. Train with ``harmonium.Weighted(rows, weights)``.

    >>> letters = torch.tensor([[0, 1, 2, 0, 1], [0, 1, 2, 0, 0], [2, 2, 0, 1, 1]])
    >>> similarity_weights(torch.nn.functional.one_hot(letters, 3)).tolist()
    [0.5, 0.5, 1.0]
    """
    sequences = torch.as_tensor(rows)
    if sequences.ndim != 3 or not bool((sequences.sum(-1) == 1).all()):
        raise InvalidData(f"rows: expected one-hot sequences (n, sites, letters), found {tuple(sequences.shape)}")
    if not 0 < alike <= 1:
        raise InvalidOption(f"alike: expected a share from above 0 to 1, found {alike!r}")
    sites, letters = sequences.shape[1:]
    codes, where, copies = sequences.argmax(-1).unique(dim=0, return_inverse=True, return_counts=True)
    distinct = torch.nn.functional.one_hot(codes, letters).flatten(1).float()
    least = alike * sites - 1e-6
    number = torch.cat([(part @ distinct.T >= least).double() @ copies.double() for part in distinct.split(_CHUNK)])
    return 1 / number[where]
