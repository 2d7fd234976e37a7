"""Positive parameters are stored as logarithms, so that every stored value is a valid one."""

from __future__ import annotations

import math

from torch import Tensor

from ..errors import InvalidOption
from .base import Value


def log_of_positive(name: str, value: Value) -> Value:
    """ln of a parameter that must be positive and finite.

    >>> log_of_positive("precision", 1.0)
    0.0
    """
    smallest = value.min().item() if isinstance(value, Tensor) else value
    if not smallest > 0:
        raise InvalidOption(f"{name}: expected positive values, found {smallest:g}")
    return value.log() if isinstance(value, Tensor) else math.log(value)
