"""Training with several processes (``torchrun``): own shard of the data and own chains each, averaged gradients."""

from __future__ import annotations

import atexit
import hashlib
import importlib
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from ..errors import InvalidOption, clipped
from ..files import digest
from ..locking import locked
from ..machines import Machine
from .gradient import Gradient


def join() -> None:
    """Join the process group that ``torchrun`` defines in the environment, if not done already."""
    wanted = _environment()[1]
    if wanted < 2:
        return
    if not dist.is_available():
        raise InvalidOption(f"WORLD_SIZE={wanted}: expected PyTorch with torch.distributed, found a build without it")
    if not dist.is_initialized():
        # The functions of this module have the group as a default argument. If an optimizer imports it later, they keep
        # the group alive: its threads survive _leave, and can abort the process at its end.
        importlib.import_module("torch.distributed.nn.functional")
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        atexit.register(_leave)


def _leave() -> None:
    """End the threads of the group, while Python still runs: they may need its lock."""
    if dist.is_initialized():
        dist.destroy_process_group()


def world() -> tuple[int, int]:
    """Return (rank, number of processes); (0, 1) outside a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def writing(folder: str | os.PathLike[str] | None) -> AbstractContextManager[None]:
    """Return the lock of a run folder in the first process, which writes it, and nothing in the others."""
    rank, _ = world() if dist.is_available() and dist.is_initialized() else _environment()
    return locked(folder) if folder is not None and rank == 0 else nullcontext()


def _environment() -> tuple[int, int]:
    """Return (rank, number of processes) of the process group that :func:`join` will join; (0, 1) if there is none.

    A rank without the address of the others belongs to no group: such processes train independently of each other.
    """
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        return 0, 1
    rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise InvalidOption(f"RANK: expected a number below WORLD_SIZE, found RANK={rank} and WORLD_SIZE={size}")
    return int(rank), int(size)


def average_(tensors: list[Tensor]) -> None:
    """Replace each tensor by its mean over the processes."""
    _, size = world()
    if size == 1 or not tensors:
        return
    flat = torch.cat([t.flatten() for t in tensors])
    dist.all_reduce(flat)
    flat /= size
    for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(part.view(tensor.shape))


def gather(item: Any) -> list[Any]:
    """Return the items of all processes by rank in the first process, and an empty list in the others."""
    rank, size = world()
    if size == 1:
        return [item]
    items = [None] * size if rank == 0 else None
    dist.gather_object(item, items)
    return items or []


def of_all(item: Any) -> list[Any]:
    """Return the items of all processes by rank, in every process."""
    size = world()[1]
    if size == 1:
        return [item]
    items: list[Any] = [None] * size
    dist.all_gather_object(items, item)
    return items


def of_first(item: Any) -> Any:
    """Return the item of the first process, in every process."""
    if world()[1] == 1:
        return item
    box = [item]
    dist.broadcast_object_list(box)
    return box[0]


def check_equal(**values: Any) -> None:
    """Raise :class:`InvalidOption` in all processes unless the values are equal in all of them."""
    everyone = of_all(values)
    for name, first in everyone[0].items():
        for rank, theirs in enumerate(everyone):
            if theirs[name] != first:
                raise InvalidOption(
                    f"{name}: expected the same in all processes, found {clipped(first)} in process 0 and "
                    f"{clipped(theirs[name])} in process {rank}"
                )


def checksum(tensors: Iterable[Tensor]) -> str:
    """Return the SHA-256 of tensors in this order.

    >>> checksum([torch.zeros(2)]) == checksum([torch.zeros(2)]), checksum([torch.ones(2)])
    (True, 'SHA-256 ...')
    """
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(digest("", tensor.detach().cpu()).encode())
    return f"SHA-256 {found.hexdigest()}"


def average(tensor: Tensor) -> Tensor:
    """Return the mean of a tensor over the processes."""
    average_([tensor])
    return tensor


def average_gradient(gradient: Gradient) -> None:
    """Replace a gradient and the means of the hidden layers by their means over the processes."""
    if world()[1] > 1:
        average_([*gradient.tensors(), *gradient.hidden])


def share_parameters(machine: Machine) -> None:
    """Copy the parameters of the first process to all others."""
    if world()[1] > 1:
        for tensor in machine.state_dict().values():
            dist.broadcast(tensor, 0)
