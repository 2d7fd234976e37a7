"""Positive parameters are stored as logarithms, so that every stored value is a valid one."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InvalidOption
from .base import Value


def log_of_positive(name: str, value: Value) -> Tensor:
    """ln of a parameter that must be positive and finite.

    >>> log_of_positive("precision", 1.0)
    tensor(0.)
    """
    value = torch.as_tensor(value)
    if not bool((value > 0).all()):
        raise InvalidOption(f"{name}: expected positive values, found {value.min().item():g}")
    return value.log()
