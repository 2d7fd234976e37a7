"""Data of any kind as a tensor: arrays, tables, lists, sparse matrices and masked arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .errors import InvalidData


def as_tensor(data: Any, what: str = "data") -> Tensor:
    """Convert numbers of any kind to a dense tensor, which shares memory with ``data`` where possible.

    Arrays may have any byte order and strides. Tables may have the types of NumPy, of pandas (``Int64``, ``boolean``)
    or of Arrow. Sparse matrices of SciPy and sparse tensors become dense. Masked values and empty cells become NaN.
    Complex numbers, text and other objects raise :class:`InvalidData`.

    Args:
        data: the numbers.
        what: the name of the argument, for the error message.

    >>> as_tensor(np.arange(4, dtype=">i2")[::-1])
    tensor([3, 2, 1, 0], dtype=torch.int16)
    """
    if isinstance(data, Tensor):
        if abstract(data):
            return data
        if data.is_nested or data.is_quantized or data.is_meta:
            raise InvalidData(f"{what}: expected a tensor with numbers, found a nested, quantized or meta tensor")
        tensor = data if data.layout == torch.strided else data.to_dense()
        tensor = tensor.clone() if tensor.is_inference() else tensor  # autograd cannot keep an inference tensor
    else:
        try:
            tensor = _from_array(_array(data), what)
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            if isinstance(error, InvalidData):
                raise
            raise InvalidData(f"{what}: expected rows of numbers, found {type(data).__name__} ({error})") from None
    if tensor.is_complex():
        raise InvalidData(f"{what}: expected real numbers, found complex numbers of type {tensor.dtype}")
    return tensor


def abstract(tensor: Tensor) -> bool:
    """Return whether the values of a tensor cannot be looked at: in ``torch.compile`` and in ``torch.vmap``."""
    return torch.compiler.is_compiling() or torch._C._functorch.is_batchedtensor(tensor)


def check_finite(tensor: Tensor, what: str = "data") -> None:
    """Raise :class:`InvalidData`, naming the first one, if a value is NaN or infinite.

    >>> check_finite(torch.tensor([[0.0, float("nan")]]))
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidData: data: expected finite numbers, found nan at row 0, index (1,)
    """
    if abstract(tensor) or not tensor.is_floating_point() or bool(torch.isfinite(tensor.detach().sum())):
        return  # a sum is finite only if every term is
    finite = torch.isfinite(tensor)
    if not bool(finite.all()):
        where = tuple(torch.nonzero(~finite)[0].tolist())
        raise InvalidData(
            f"{what}: expected finite numbers, found {tensor[where].item()} at row {where[0]}, index {where[1:]}"
        )


def is_sparse(data: Any) -> bool:
    """Return whether ``data`` is a sparse matrix of SciPy or a sparse tensor."""
    if isinstance(data, Tensor):
        return data.layout != torch.strided
    return hasattr(data, "tocsr") and hasattr(data, "toarray")


def _array(data: Any) -> np.ndarray:
    if isinstance(data, np.ma.MaskedArray):
        return np.ma.filled(data.astype(np.float64), np.nan) if np.ma.is_masked(data) else data.data
    if is_sparse(data):
        return np.asarray(data.toarray())
    if hasattr(data, "to_numpy"):  # a table or column
        return _table(data)
    if isinstance(data, (list, tuple)) and any(isinstance(row, Tensor) for row in data):
        return np.asarray([np.asarray(row.detach().cpu()) if isinstance(row, Tensor) else row for row in data])
    return np.asarray(data)


def _table(table: Any) -> np.ndarray:
    """Return the values of a table; types of pandas and Arrow become float64, and missing values NaN."""
    types = table.dtypes if getattr(table, "ndim", 1) > 1 else [table.dtype]
    if all(isinstance(dtype, np.dtype) and dtype.kind in "biufc" for dtype in types):
        array = np.asarray(table.to_numpy())
        return array if array.dtype.kind != "O" else array.astype(np.float64)  # columns of several types
    if any(getattr(dtype, "kind", "O") not in "biuf" for dtype in types):
        names = ", ".join(sorted({str(dtype) for dtype in types if getattr(dtype, "kind", "O") not in "biuf"}))
        raise TypeError(f"columns of type {names}")
    return np.asarray(table.to_numpy(dtype=np.float64, na_value=np.nan))


def _from_array(array: np.ndarray, what: str) -> Tensor:
    kind = array.dtype.kind
    if kind == "c":
        raise InvalidData(f"{what}: expected real numbers, found complex numbers of type {array.dtype}")
    if kind not in "biuf":
        raise TypeError(f"{array.ndim} dimensions of type {array.dtype}")
    if (kind == "f" and array.dtype.itemsize > 8) or (kind == "u" and array.dtype.itemsize > 1):
        array = array.astype(np.float64)  # torch has no such types, or cannot compute with them
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
    return torch.from_numpy(array if array.flags.writeable else array.copy())
