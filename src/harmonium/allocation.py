"""Limits on the size of tensors: while a machine is built from a file, and before memory runs out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .errors import InvalidData, OutOfMemory

#: elements that a file may always declare, 4 MB in float32
FREE_ELEMENTS = 2**20
_FACTORIES = (
    *(torch.empty, torch.zeros, torch.ones, torch.full, torch.eye, torch.rand, torch.randn, torch.randint),
    *(torch.arange, torch.linspace, torch.logspace, torch.randperm),
)


class _Limit(TorchFunctionMode):
    """Raise for every result with more than ``most`` elements; sizes of new tensors are checked before allocation."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        if func in _FACTORIES:
            generator = {"generator": None} if "generator" in options else {}
            self._check(func(*args, **{**options, **generator, "device": "meta"}))
        result = func(*args, **options)
        self._check(result)
        return result

    def _check(self, result: Any) -> None:
        if isinstance(result, Tensor) and result.numel() > self.most:
            raise InvalidData(
                f"expected at most {self.most:,} numbers, as in the file, found a description of {result.numel():,}"
            )


@contextmanager
def limited(elements: int) -> Iterator[None]:
    """Raise :class:`InvalidData` in the block, before memory is used, for a tensor of more than ``elements`` numbers.

    About a million are always allowed.

    >>> with limited(10):
    ...     torch.zeros(2**40)
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidData: expected at most 1,048,576 numbers, as in the file, found a description of 1,099,...
    """
    with _Limit(max(elements, FREE_ELEMENTS)):
        yield


def available_memory() -> int | None:
    """Return the bytes of memory that are free for new data; None if the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(what: str, needed: float, instead: str) -> None:
    """Raise :class:`OutOfMemory` if ``needed`` bytes are more than there are; ``instead`` names the alternative.

    >>> check_memory("pairs", 1e18, "use fewer units")
    Traceback (most recent call last):
    ...
    harmonium.errors.OutOfMemory: pairs: needs 931,322,574.6 GB of memory, found ... GB; use fewer units
    """
    free = available_memory()
    if free is not None and needed > free:
        raise OutOfMemory(f"{what}: needs {needed / 2**30:,.1f} GB of memory, found {free / 2**30:,.1f} GB; {instead}")
