"""Tuples of interacting units: all tuples, random tuples, and a check of tuples given by the user."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .. import noise
from ..allocation import check_memory
from ..arrays import as_tensor
from ..checks import whole
from ..errors import InvalidOption, NotEnumerable
from ..noise import Seed

MAX_TUPLES = 2**27


def check_order(order: int, n: int) -> int:
    """Check that ``order`` is a whole number from 1 to ``n`` and return it as an int."""
    order = whole("order", order)
    if not 1 <= order <= n:
        raise InvalidOption(f"order: expected 1 to {n}, the number of visible units, found {order}")
    return order


def all_tuples(n: int, order: int) -> Tensor:
    """All increasing tuples of ``order`` indices below ``n``, in lexicographic order: (n choose order, order).

    >>> all_tuples(3, 2)
    tensor([[0, 1],
            [0, 2],
            [1, 2]])
    """
    order = check_order(order, n)
    if math.comb(n, order) > MAX_TUPLES:
        raise NotEnumerable(
            f"order: {math.comb(n, order):,} interactions of order {order} between {n} units are too many to list. "
            "Pass indices, for example from random_tuples(…)"
        )
    size = 8 * 4 * order * math.comb(n, order)  # the list and its parts while it is made
    check_memory(f"interactions of order {order} of {n} units", size, "pass indices, for example from random_tuples(…)")
    found = torch.arange(n).unsqueeze(1)
    for _ in range(order - 1):  # each tuple is extended by every larger index
        last = found[:, -1]
        more = n - 1 - last
        rows = torch.arange(len(found)).repeat_interleave(more)
        start = (more.cumsum(0) - more).repeat_interleave(more)
        following = last[rows] + 1 + torch.arange(len(rows)) - start
        found = torch.cat([found[rows], following.unsqueeze(1)], 1)
    return found


def random_tuples(n: int, order: int, n_tuples: int, *, seed: Seed = None) -> Tensor:
    """Draw ``n_tuples`` different increasing tuples of ``order`` indices below ``n``, uniformly: (n_tuples, order).

    Returns all tuples if there are at most ``n_tuples``.

    >>> random_tuples(784, 3, 1000, seed=0).shape
    torch.Size([1000, 3])
    """
    order, n_tuples = check_order(order, n), whole("n_tuples", n_tuples)
    if n_tuples < 1:
        raise InvalidOption(f"n_tuples: expected at least one tuple, found {n_tuples}")
    if math.comb(n, order) <= 2 * n_tuples:
        every = all_tuples(n, order)
        generator = noise.generator(seed)
        chosen = torch.randperm(len(every), generator=generator)[:n_tuples]
        return every[chosen.sort().values]
    generator = noise.generator(seed)
    found = torch.empty(0, order, dtype=torch.int64)
    while len(found) < n_tuples:
        drawn = torch.randint(n, (2 * n_tuples, order), generator=generator).sort(1).values
        drawn = drawn[(drawn[:, 1:] > drawn[:, :-1]).all(1)]
        found = torch.cat([found, drawn]).unique(dim=0)
    chosen = torch.randperm(len(found), generator=generator)[:n_tuples]
    return found[chosen.sort().values]


def check_tuples(indices: Any, n: int, order: int) -> Tensor:
    """Check ``indices`` and return them as an int64 tensor (n_tuples, order); the units of a tuple must differ."""
    tuples = as_tensor(indices, "indices")
    if tuples.is_floating_point() or tuples.is_complex() or tuples.dtype == torch.bool:
        raise InvalidOption(f"indices: expected whole numbers, found {tuples.dtype}")
    if tuples.ndim != 2 or tuples.shape[1] != order:
        raise InvalidOption(f"indices: expected shape (n, {order}) for order {order}, found {tuple(tuples.shape)}")
    tuples = tuples.to(device="cpu", dtype=torch.int64)
    outside = (tuples < 0) | (tuples >= n)
    if bool(outside.any()):
        raise InvalidOption(f"indices: expected 0 to {n - 1}, found {tuples[outside][0].item()}")
    ordered = tuples.sort(1).values
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    if bool(repeated.any()):
        raise InvalidOption(f"indices: expected different units in each tuple, found {tuples[repeated][0].tolist()}")
    return tuples
