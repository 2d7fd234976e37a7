"""Checks of the rows of samples and data, and helpers to draw subsets of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from .. import noise
from ..arrays import as_tensor, check_finite
from ..checks import whole
from ..errors import InvalidData, InvalidOption
from ..noise import Seed

ArrayLike = Any
GROUPS = 20  # groups of rows, whose spread gives the standard errors
FEWEST_ROWS = 2 * GROUPS
_LARGEST = 1e15  # squares and products of these values, summed over many rows, are finite in float32


def rows(x: ArrayLike, what: str, *, fewest: int = FEWEST_ROWS) -> Tensor:
    """Convert an array, tensor or list (n, *shape) to a tensor of finite floats with at least ``fewest`` rows.

    >>> rows([[0, 1], [1, 1]], "samples", fewest=2).dtype
    torch.float32
    """
    tensor = as_tensor(x, what).detach()
    if tensor.ndim < 2 or tensor.shape[1:].numel() == 0:
        raise InvalidData(
            f"{what}: expected real numbers of shape (n, ...), found {tuple(tensor.shape)} {tensor.dtype}"
        )
    if len(tensor) < fewest:
        raise InvalidData(f"{what}: expected at least {fewest} rows, found {len(tensor)}")
    tensor = tensor if tensor.dtype == torch.float64 else tensor.float()
    check_finite(tensor, what)
    largest = tensor.abs().max().item()
    if largest > _LARGEST:
        raise InvalidData(f"{what}: expected values up to {_LARGEST:g} in magnitude, found {largest:g}; rescale them")
    return tensor


def alike(samples: ArrayLike, data: ArrayLike, *, fewest: int = FEWEST_ROWS, name: str = "data") -> list[Tensor]:
    """Check samples and data with :func:`rows`; rows must have equal shapes. Returns both on the device of the data."""
    checked = [rows(samples, "samples", fewest=fewest), rows(data, name, fewest=fewest)]
    shapes = [tuple(x.shape[1:]) for x in checked]
    if shapes[0] != shapes[1]:
        raise InvalidData(f"samples and {name}: expected rows of one shape, found {shapes[0]} and {shapes[1]}")
    return [x.to(checked[1].device) for x in checked]


def one_hot_size(x: Tensor) -> int:
    """Number of states q if ``x`` is (n, ..., sites, q) and every site is a one-hot vector, else 1.

    >>> one_hot_size(torch.eye(3)[torch.tensor([[0, 1], [2, 2]])]), one_hot_size(torch.ones(2, 4, 4))
    (3, 1)
    """
    if x.ndim < 3 or x.shape[-1] < 2:
        return 1
    one_hot = bool(((x == 0) | (x == 1)).all()) and bool((x.sum(-1) == 1).all())
    return x.shape[-1] if one_hot else 1


def drawn(x: Tensor, n: int, generator: Generator | None) -> Tensor:
    """Draw ``n`` rows without replacement, in random order."""
    order = torch.randperm(len(x), generator=generator)[:n]
    return x[order.to(x.device)]


def centered(x: Tensor) -> Tensor:
    """Flatten the rows and subtract their mean, in the type of ``x``: (n, d) in float32."""
    flat = x.flatten(1)
    return (flat - flat.mean(0, dtype=torch.float64).to(flat.dtype)).float()


def count(name: str, value: int, least: int = 1) -> int:
    """Check that ``value`` is a whole number of at least ``least``."""
    if whole(name, value) < least:
        raise InvalidOption(f"{name}: expected at least {least}, found {value}")
    return int(value)


def random(seed: Seed) -> Generator | None:
    """Random generator on the CPU, so that a seed gives the same draws for data on any device."""
    return noise.generator(seed)
