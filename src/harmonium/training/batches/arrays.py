"""Rows of tensors, arrays, memory maps, sparse matrices and torch data sets."""

from __future__ import annotations

import io
import mmap
import os
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ... import noise
from ...arrays import as_tensor
from ...errors import InvalidData
from ...machines import Machine
from ...units.support import Interval
from .source import Defaults, Source


class TensorSource(Source):
    """Rows of a tensor in memory."""

    def span(self, start: int, stop: int, machine: Machine) -> Tensor:
        return self._rows[start:stop].to(device=machine.device, dtype=machine.dtype)

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        index = index.to(self._rows.device)
        if self._rows.dtype == out.dtype and self._rows.device == out.device:
            return torch.index_select(self._rows, 0, index, out=out)
        return out.copy_(torch.index_select(self._rows, 0, index))


class Redrawn(TensorSource):
    """Binary rows that are sampled again at every access, with gray values in [0, 1] as probabilities.

    This is the stochastic binarization of the published MNIST likelihoods. During training the samples come from the
    random stream of the run, so it resumes bit-for-bit. Elsewhere (initialization, metrics) the seed is fixed.

    >>> gray = Redrawn(torch.full((1000, 4), 0.25))
    >>> rows = gray.take(torch.arange(1000), torch.empty(1000, 4))
    >>> rows.unique().tolist(), bool((rows.mean() - 0.25).abs() < 0.03)
    ([0.0, 1.0], True)
    """

    def __init__(self, probabilities: Any) -> None:
        tensor = as_tensor(probabilities, "probabilities")
        if tensor.ndim < 2 or not tensor.is_floating_point():
            raise InvalidData(
                f"probabilities: expected rows of gray values in [0, 1], found {tuple(tensor.shape)} of {tensor.dtype}"
            )
        Interval("gray values between 0 and 1", 0.0, 1.0).check(tensor)
        super().__init__(tensor.detach().contiguous(), tensor.shape[1:])

    def span(self, start: int, stop: int, machine: Machine) -> Tensor:
        return self.rows(torch.arange(start, stop), machine)

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        super().take(index, out)
        return noise.bernoulli_(out, out, noise.generator(0, out.device) if generator is None else generator)


class ArraySource(Source):
    """Rows of a NumPy array that may be a memory map; only requested rows are read.

    The size and the time of the file of a memory map are compared before and after each access, because a file that was
    changed has other values. The rows are read from the file: the end of a file that was truncated has no pages, and
    reading it through the map would end the process.
    """

    def __init__(self, rows: Any, shape: tuple[int, ...]) -> None:
        super().__init__(rows, shape)
        self._file: Any = getattr(rows, "filename", None)
        self._position = _position(rows)
        self.volatile = self._file is not None
        self._state = self._stat()

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        self._check_file()
        order = torch.argsort(index)  # read in file order
        out[order.to(out.device)] = as_tensor(self._read(index[order].cpu().numpy())).to(out)
        self._check_file()
        return out

    def _read(self, index: np.ndarray) -> np.ndarray:
        """Return the rows with indices (n,) in increasing order."""
        if self._position is None or self._stat()[:1] != self._state[:1]:
            return np.asarray(self._rows[index])
        rows = np.empty((len(index), *self._rows.shape[1:]), self._rows.dtype)
        size, content = rows[:1].nbytes, rows.reshape(-1).view(np.uint8).data
        starts = np.flatnonzero(np.diff(index, prepend=-2) != 1)  # of neighboring rows
        with io.FileIO(self._file) as file:
            for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(index)], strict=True):
                file.seek(self._position + int(index[start]) * size)
                if file.readinto(content[start * size : end * size]) != (end - start) * size:
                    raise self._changed(os.fstat(file.fileno()).st_size)
        return rows

    def _check_file(self) -> None:
        state = self._stat()
        if state[:1] == self._state[:1] and state != self._state:  # a file under another number does not change the map
            raise self._changed(state[1])

    def _changed(self, size: int) -> InvalidData:
        return InvalidData(
            f"data: expected {self._file} as it was when it was opened, with {self._state[1]:,} bytes, found that it "
            f"was changed, with {size:,} bytes"
        )

    def _stat(self) -> tuple[int, ...]:
        """Return the number, the size and the time of the file; nothing if there is none."""
        try:
            found = os.stat(self._file) if self._file is not None else None
        except OSError:
            return ()
        return () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


def _position(rows: Any) -> int | None:
    """Return where the rows of a memory map begin in its file; None if they are not in this order in a file."""
    if type(rows) is not np.memmap or rows.filename is None or rows.mode == "c" or not rows.flags.c_contiguous:
        return None
    start = rows.offset - rows.offset % mmap.ALLOCATIONGRANULARITY  # of the map
    mapped = np.frombuffer(rows._mmap, np.uint8)  # type: ignore[attr-defined]
    return int(start + rows.ctypes.data - mapped.ctypes.data)


class SparseSource(Source):
    """Rows of a sparse matrix of SciPy or a sparse tensor; only the rows of a batch become dense."""

    def __init__(self, matrix: Any, what: str = "data") -> None:
        from scipy.sparse import csr_matrix

        if isinstance(matrix, Tensor):
            rows = matrix.detach().cpu().to_sparse_csr()
            parts = (rows.values().numpy(), rows.col_indices().numpy(), rows.crow_indices().numpy())
            self._matrix: Any = csr_matrix(parts, shape=tuple(rows.shape))
        else:
            self._matrix = matrix.tocsr()
        if self._matrix.dtype.kind not in "biuf":
            raise InvalidData(f"{what}: expected real numbers, found the type {self._matrix.dtype}")
        super().__init__(self._matrix, self._matrix.shape[1:])

    def __len__(self) -> int:
        return int(self._matrix.shape[0])

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        return out.copy_(as_tensor(self._matrix[index.cpu().numpy()]))


class DatasetSource(Source):
    """Rows of a torch data set; only the features of (features, label) pairs are used.

    A data set with a method ``defaults`` gives those of :meth:`Source.defaults`.
    """

    def defaults(self) -> Defaults:
        own = getattr(self._rows, "defaults", None)
        return {} if own is None else own()

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        for row, number in zip(out, index.tolist(), strict=True):
            features = features_of(self._rows[number])
            if features.shape != self.shape:
                raise InvalidData(
                    f"data: expected rows of shape {self.shape}, found {tuple(features.shape)} in row {number}"
                )
            row.copy_(features)
        return out


def features_of(item: Any) -> Tensor:
    """Return the features of an item of a torch data set, which may be a pair with a label."""
    return as_tensor(item[0] if isinstance(item, (tuple, list)) else item)
