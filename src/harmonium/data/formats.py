"""Decode files and verify their checksums. Nothing is unpickled, so a file cannot execute code."""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePath

import numpy as np

from harmonium.data.dataset import Content, DataFile
from harmonium.errors import InvalidData
from harmonium.extras import require

from .matlab import check_links, check_stored, is_hdf5, read_variables


def read_verified(path: Path, file: DataFile) -> Content:
    """Read ``path``, verify that it is ``file``, and return its content: bytes, or a dictionary of arrays."""
    if file.of == "file":
        _compare(path, file, hashlib.sha256(path.read_bytes()).hexdigest())
    try:
        content = _DECODERS.get(PurePath(file.name).suffix, Path.read_bytes)(path)
    except Exception as error:  # each decoder raises different exceptions for damaged files
        raise InvalidData(
            f"{path} is damaged: expected the file with sha256 {file.sha256} of its {_SAID[file.of]}, found "
            f"{type(error).__name__}: {error}"
        ) from error
    if file.of != "file":
        _compare(path, file, digest(content)[0])
    return content


def digest(content: Content) -> tuple[str, int]:
    """Compute sha256 and size in bytes of decoded content.

    For arrays, the hash covers their names, types, shapes and bytes in C order.

    >>> digest(b"abc")
    ('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', 3)
    """
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest(), len(content)
    sha, size = hashlib.sha256(), 0
    for key in sorted(content):
        array = np.ascontiguousarray(content[key])
        sha.update(f"{key} {array.dtype.str} {array.shape}\n".encode())
        sha.update(array.data)
        size += array.nbytes
    return sha.hexdigest(), size


def idx(raw: bytes) -> np.ndarray:
    """Decode an IDX file of uint8 (the format of MNIST).

    >>> idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    array([7, 9], dtype=uint8)
    """
    zeros, code, ndim = int.from_bytes(raw[:2], "big"), raw[2], raw[3]
    if zeros != 0 or code != 8:
        raise InvalidData(f"expected an IDX file of bytes (magic 00 00 08), found {raw[:3].hex(' ')}")
    shape = np.frombuffer(raw, ">u4", count=ndim, offset=4).astype(int)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def _compare(path: Path, file: DataFile, found: str) -> None:
    if found != file.sha256:
        raise InvalidData(
            f"wrong checksum of {path}: expected sha256 {file.sha256} of its {_SAID[file.of]}, found {found}"
        )


def _npz(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def _png(path: Path) -> dict[str, np.ndarray]:
    with require("PIL.Image", ".png files need").open(path) as image:
        return {"pixels": np.asarray(image)}


def _unzip(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        (member,) = archive.namelist()
        return archive.read(member)


def _mat(path: Path) -> dict[str, np.ndarray]:
    """Decode the two MATLAB formats. Version 7.3 is HDF5; its arrays are not transposed."""
    if not is_hdf5(path):
        return read_variables(path)
    h5py = require("h5py")
    with h5py.File(path, "r") as file:
        check_links(path, file)
        found = {key: file[key] for key in file if isinstance(file[key], h5py.Dataset)}
        for entry in found.values():
            check_stored(path, entry)
        return {key: entry[()] for key, entry in found.items()}


_DECODERS: dict[str, Callable[[Path], Content]] = {
    ".gz": lambda path: gzip.decompress(path.read_bytes()),
    ".zip": _unzip,
    ".npz": _npz,
    ".png": _png,
    ".json": lambda path: {"labels": np.asarray(json.loads(path.read_bytes()), dtype=np.int64)},
    ".mat": _mat,
}
_SAID = {"file": "bytes", "decompressed": "decompressed bytes", "arrays": "arrays"}
