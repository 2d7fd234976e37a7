"""Matrices of numbers in MATLAB files of versions 5 to 7. SciPy's reader of these crashes on damaged files."""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from .. import limits

_HEADER = 128
_ORDERS = {b"IM": "<", b"MI": ">"}
_COMPRESSED, _MATRIX = 15, 14
#: codes of the stored numbers, and of the classes of matrices
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x800


def read(path: Path, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """Read the matrices with these names; raise ``ValueError`` if one is damaged or has no real numbers."""
    content = path.read_bytes()
    order = _ORDERS.get(content[_HEADER - 2 : _HEADER])
    if order is None:
        raise ValueError("the header has no byte order")
    found = {}
    for kind, body in _elements(content[_HEADER:], order):
        if kind == _COMPRESSED:
            kind, body = next(_elements(_inflated(path, body), order), (0, b""))
        if kind == _MATRIX:
            parts = _elements(body, order)
            of_class, is_complex = _class(_exactly(parts, 1)[0][1], order)
            if of_class is not None:  # others are cells, structures, text and sparse matrices
                (_, sizes), (_, name) = _exactly(parts, 2)
                key = name.decode("ascii", errors="replace")
                if key in wanted and is_complex:
                    raise ValueError(f"{key} has complex numbers")
                if key in wanted:
                    found[key] = _numbers(key, sizes, *_exactly(parts, 1)[0], order).astype(of_class)
    return found


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
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


def _exactly(parts: Iterator[tuple[int, bytes]], n: int) -> list[tuple[int, bytes]]:
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


def _class(flags: bytes, order: str) -> tuple[str | None, bool]:
    """The type of a matrix of numbers, None for other variables, and whether the numbers are complex."""
    if len(flags) != 8:
        raise ValueError(f"expected 8 bytes of flags, found {len(flags)}")
    word = struct.unpack(f"{order}I", flags[:4])[0]
    return _CLASSES.get(word & 0xFF), bool(word & _COMPLEX)


def _numbers(name: str, sizes: bytes, kind: int, body: bytes, order: str) -> np.ndarray:
    if len(sizes) % 4 or kind not in _STORED:
        raise ValueError(f"{name} has no size, or numbers of the unknown type {kind}")
    shape = struct.unpack(f"{order}{len(sizes) // 4}i", sizes)
    numbers = np.dtype(order + _STORED[kind])
    if min(shape, default=-1) < 0 or math.prod(shape) * numbers.itemsize != len(body):
        raise ValueError(f"{name} has {len(body)} bytes for the shape {shape}")
    return np.frombuffer(body, numbers).reshape(shape, order="F")
