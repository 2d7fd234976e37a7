"""Data of any form as rows, checked against the visible units of a machine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)
from torch.utils.data.distributed import DistributedSampler

from ...arrays import as_tensor, is_sparse
from ...errors import InvalidData
from ...machines import Machine
from .arrays import ArraySource, DatasetSource, SparseSource, TensorSource, features_of
from .source import Source

_PLAIN = (list, tuple, str, bytes, np.ndarray, Tensor, memoryview)


def as_source(data: Any, machine: Machine, *, what: str = "data", validate: bool = True) -> Source:
    """Wrap any kind of data as a :class:`Source`; check the shape and support of all rows, in chunks."""
    source = as_rows(data, what)
    if len(source) == 0:
        raise InvalidData(f"{what}: expected at least one row, found an empty data set")
    visible = machine.visible
    if source.shape != tuple(visible.shape):
        same = math.prod(source.shape) == math.prod(visible.shape)
        fix = f"; reshape them, or give the units this shape: {type(visible).__name__}({source.shape})" if same else ""
        raise InvalidData(
            f"{what}: expected rows of shape {tuple(visible.shape)} for the {visible.name()} units, "
            f"found {source.shape}{fix}"
        )
    source.check(machine)
    _check_context(source, machine, what)
    if validate and not source.valid:
        done = 0
        for chunk in source.every(machine):
            v, context = (chunk, None) if source.context is None else chunk
            where = what if done == 0 else f"{what}, counted from row {done}"
            visible.check(v, where)
            if context is not None and not bool(torch.isfinite(context).all()):
                raise InvalidData(f"context of {where}: expected finite numbers, found NaN or infinity")
            done += len(v)
    return source


def _check_context(source: Source, machine: Machine, what: str) -> None:
    """Raise :class:`InvalidData` unless the rows have a context of the shape that the machine expects."""
    expected = None if machine.context is None else tuple(machine.context)
    if source.context == expected:
        return
    found = "rows without a context" if source.context is None else f"a context of shape {tuple(source.context)}"
    if expected is None:
        raise InvalidData(f"{what}: expected rows without a context for {type(machine).__name__}, found {found}")
    hint = ", as in hm.Conditional(rows, context)" if source.context is None else ""
    raise InvalidData(f"{what}: expected rows with a context of shape {expected}{hint}, found {found}")


def as_rows(data: Any, what: str = "data") -> Source:
    """Wrap any kind of data as a :class:`Source`, without checks of its rows."""
    if isinstance(data, Source):
        return data
    if is_sparse(data):
        return SparseSource(data, what)
    if isinstance(data, Tensor) and data.ndim > 0:
        return TensorSource(as_tensor(data, what).detach().contiguous(), data.shape[1:])
    if isinstance(data, np.memmap):
        return ArraySource(data, data.shape[1:])
    if isinstance(data, DataLoader):
        source = as_rows(_loaded(data, what), what)
        source.batch_size = getattr(data.batch_sampler, "batch_size", None)
        return source
    if isinstance(data, IterableDataset):
        raise InvalidData(f"{what}: expected rows with random access by index, found an iterable-only data set")
    if isinstance(data, TensorDataset):  # row-by-row access would be slow
        return as_rows(data.tensors[0], what)
    random_access = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if random_access and not hasattr(data, "to_numpy") and not isinstance(data, _PLAIN):
        if len(data) == 0:
            raise InvalidData(f"{what}: expected at least one row, found an empty data set")
        try:
            first = data[0]
        except LookupError as error:
            raise InvalidData(f"{what}: expected rows of numbers, found {type(data).__name__} ({error})") from None
        return DatasetSource(data, tuple(features_of(first).shape))
    tensor = as_tensor(data, what)
    if tensor.ndim == 0:
        raise InvalidData(f"{what}: expected rows of numbers, found {type(data).__name__} without dimensions")
    return TensorSource(tensor, tensor.shape[1:])


def _loaded(loader: DataLoader[Any], what: str) -> Any:
    """Return the data set of a DataLoader; raise if the loader selects or changes rows in a way ``fit`` would not."""
    if isinstance(loader.dataset, IterableDataset):
        raise InvalidData(
            f"{what}: expected a DataLoader with random access by index, found an iterable-only data set; "
            "read its rows into a tensor first"
        )
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    own = (isinstance(sampler, RandomSampler) and not sampler.replacement) or isinstance(
        sampler, (SequentialSampler, DistributedSampler)
    )
    if not own:
        raise InvalidData(
            f"{what}: expected a DataLoader of all rows of its data set, found a {type(sampler).__name__}; "
            "use torch.utils.data.Subset for some of the rows, or harmonium.Weighted for weights"
        )
    if loader.batch_sampler is not None and loader.collate_fn is not default_collate:
        raise InvalidData(
            f"{what}: expected a DataLoader without a collate_fn, because training does not call it; "
            "transform the rows in the data set instead"
        )
    return loader.dataset
