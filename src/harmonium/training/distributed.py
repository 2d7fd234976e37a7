"""Training with several processes (``torchrun``): own shard of the data and own chains each, averaged gradients."""

from __future__ import annotations

import atexit
import importlib
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from ..errors import InvalidOption
from ..locking import locked
from ..machines import Machine


def join() -> None:
    """Join the process group that ``torchrun`` defines in the environment, if not done already."""
    wanted = int(os.environ.get("WORLD_SIZE", "1"))
    if wanted < 2 or not {"RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
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
    first = world()[0] == 0 if dist.is_available() and dist.is_initialized() else _environment_rank() == 0
    return locked(folder) if folder is not None and first else nullcontext()


def _environment_rank() -> int:
    """Return the rank that ``torchrun`` gives to this process; 0 outside of it."""
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdecimal() and int(os.environ.get("WORLD_SIZE", "1")) > 1 else 0


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


def average_gradients(machine: Machine) -> None:
    """Replace the gradients by their means over the processes."""
    if world()[1] > 1:
        average_([p.grad for p in machine.parameters() if p.grad is not None])


def share_parameters(machine: Machine) -> None:
    """Copy the parameters of the first process to all others."""
    if world()[1] > 1:
        for tensor in machine.state_dict().values():
            dist.broadcast(tensor, 0)
