"""Enumeration of the states of a layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import NotEnumerable

if TYPE_CHECKING:
    from .base import Unit


def cardinality(unit: Unit) -> int | None:
    """The number of states of the layer; ``None`` if infinite."""
    numbers = [(part.support.number, part.sites) for part in unit.parts]
    return None if any(n is None for n, _ in numbers) else math.prod((n or 0) ** sites for n, sites in numbers)


def states(unit: Unit, index: Tensor | None = None) -> Tensor:
    """The states with the given indices (default: all), the first unit of the layer varying fastest: (n, *shape)."""
    total = cardinality(unit)
    if total is None:
        raise NotEnumerable(f"{unit.name()} units have infinitely many states")
    index = torch.arange(total) if index is None else index
    columns = []
    for part in unit.parts:
        values = part.support.states()
        assert values is not None
        values = values.to(part.bias)
        digits = torch.empty(len(index), part.sites, dtype=torch.int64)
        for site in range(part.sites):
            digits[:, site] = index % len(values)
            index = index // len(values)
        columns.append(values[digits.to(values.device)].reshape(len(digits), *part.shape))
    return unit.join(columns)
