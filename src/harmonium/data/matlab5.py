"""Matrices of numbers in MATLAB files of versions 5 to 7. SciPy's reader of these crashes on damaged files."""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harmonium import limits

_HEADER = 128
_ORDERS = {b"IM": "<", b"MI": ">"}
_COMPRESSED, _MATRIX, _SPARSE = 15, 14, 5
#: codes of the stored numbers, and of the classes of matrices; the numbers of a sparse matrix are double
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8", 5: "f8"}
_COMPLEX = 0x800

_Element = tuple[int, bytes]  # code and content


@dataclass(frozen=True)
class Matrix:
    """A variable of a file whose numbers have not been read yet."""

    path: Path
    name: str
    shape: tuple[int, ...]
    kind: str
    is_complex: bool
    is_sparse: bool
    order: str
    parts: Sequence[_Element]

    def read(self) -> np.ndarray:
        """Return the numbers; raise ``ValueError`` if they are damaged or complex."""
        if self.is_complex:
            raise ValueError(f"{self.name} has complex numbers")
        if min(self.shape, default=-1) < 0:
            raise ValueError(f"{self.name} has the shape {self.shape}")
        numbers = self._dense() if self.is_sparse else self._numbers(0, math.prod(self.shape))
        return numbers.astype(self.kind).reshape(self.shape, order="F")

    def _numbers(self, part: int, n: int, spare: bool = False) -> np.ndarray:
        """The ``n`` numbers of a part; a sparse matrix may have room for more."""
        if part >= len(self.parts):
            raise ValueError(f"{self.name} has no numbers")
        kind, body = self.parts[part]
        if kind not in _STORED:
            raise ValueError(f"{self.name} has numbers of the unknown type {kind}")
        stored = np.dtype(self.order + _STORED[kind])
        if n * stored.itemsize > len(body) or (n * stored.itemsize != len(body) and not spare):
            raise ValueError(f"{self.name} has {len(body)} bytes for the shape {self.shape}")
        return np.frombuffer(body, stored, count=n)

    def _dense(self) -> np.ndarray:
        """The numbers of a sparse matrix: the row of each, where each column begins, and the values."""
        if len(self.shape) != 2 or len(self.parts) < 3:
            raise ValueError(f"{self.name} has no numbers, or the shape {self.shape}")
        rows, columns = self.shape
        limits.check_expansion(self.path, self.path.stat().st_size, 8 * rows * columns)
        begin = self._numbers(1, columns + 1).astype(np.int64)
        if begin[0] != 0 or (np.diff(begin) < 0).any():
            raise ValueError(f"{self.name} has columns without order")
        n = int(begin[-1])
        where, values = self._numbers(0, n, spare=True), self._numbers(2, n, spare=True)
        if n and not (where.min() >= 0 and where.max() < rows):
            raise ValueError(f"{self.name} has numbers outside of the shape {self.shape}")
        dense = np.zeros((columns, rows))
        np.add.at(dense, (np.repeat(np.arange(columns), np.diff(begin)), where), values)
        return dense.reshape(-1)


def read(path: Path, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """Read the matrices with these names; raise ``ValueError`` if one is damaged or has no real numbers."""
    return {matrix.name: matrix.read() for matrix in matrices(path) if matrix.name in wanted}


def matrices(path: Path) -> Iterator[Matrix]:
    """The matrices of numbers in a file; others are cells, structures and text. Raises ``ValueError`` if damaged."""
    content = path.read_bytes()
    order = _ORDERS.get(content[_HEADER - 2 : _HEADER])
    if order is None:
        raise ValueError("the header has no byte order")
    for kind, body in _elements(content[_HEADER:], order):
        if kind == _COMPRESSED:
            kind, body = next(_elements(_inflated(path, body), order), (0, b""))
        if kind == _MATRIX:
            parts = _elements(body, order)
            of_class, is_complex = _class(_exactly(parts, 1)[0][1], order)
            if of_class in _CLASSES:
                (_, sizes), (_, name) = _exactly(parts, 2)
                if len(sizes) % 4:
                    raise ValueError(f"a variable has {len(sizes)} bytes of sizes")
                shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes)
                key, sparse = name.decode("ascii", errors="replace"), of_class == _SPARSE
                parts_of_it = tuple(itertools.islice(parts, 3 if sparse else 1))
                yield Matrix(path, key, shape, _CLASSES[of_class], is_complex, sparse, order, parts_of_it)


def _elements(data: bytes, order: str) -> Iterator[_Element]:
    """The codes and the contents of the elements of a file, or of an element."""
    at = 0
    while at < len(data):
        if len(data) - at < 8:
            raise ValueError("an element is cut off")
        kind, size = struct.unpack(f"{order}II", data[at : at + 8])
        start, padded = at + 8, size + (-size % 8 if kind != _COMPRESSED else 0)
        if kind >> 16:  # up to four bytes within the tag
            kind, size, start, padded = kind & 0xFFFF, kind >> 16, at + 4, 4
        if size > len(data) - start or size > padded:
            raise ValueError(f"an element has {len(data) - start} of {size} bytes")
        yield kind, data[start : start + size]
        at = start + padded


def _exactly(parts: Iterator[_Element], n: int) -> list[_Element]:
    found = list(itertools.islice(parts, n))
    if len(found) < n:
        raise ValueError("a variable has no content")
    return found


def _inflated(path: Path, body: bytes) -> bytes:
    most = max(limits.FREE_BYTES, limits.MOST_EXPANSION * len(body))
    try:
        content = zlib.decompressobj().decompress(body, most + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    limits.check_expansion(path, len(body), len(content))
    return content


def _class(flags: bytes, order: str) -> tuple[int, bool]:
    """The code of the class of a variable, and whether its numbers are complex."""
    if len(flags) != 8:
        raise ValueError(f"expected 8 bytes of flags, found {len(flags)}")
    word = struct.unpack(f"{order}I", flags[:4])[0]
    return word & 0xFF, bool(word & _COMPLEX)
