"""Probabilities along the last dimension: fast for few states, and precise where they are small."""

from __future__ import annotations

import torch
from torch import Tensor

_SHORT = 16  # states; torch computes the softmax of fewer without vector instructions


def softmax(field: Tensor) -> Tensor:
    """The softmax along the last dimension. torch's own is many times slower on the CPU if this dimension is short.

    >>> softmax(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """
    if field.shape[-1] >= _SHORT or field.device.type != "cpu":
        return torch.softmax(field, -1)
    return torch.softmax(field.movedim(-1, 0).contiguous(), 0).movedim(0, -1).contiguous()


def sum_of_others(p: Tensor) -> Tensor:
    """1 - p for probabilities along the last dimension, as a sum of the others, so that small values are precise."""
    zero = torch.zeros_like(p[..., :1])
    before = torch.cat([zero, p[..., :-1].cumsum(-1)], -1)
    after = torch.cat([p[..., 1:].flip(-1).cumsum(-1).flip(-1), zero], -1)
    return before + after
