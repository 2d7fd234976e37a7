"""Decode files and verify their checksums. Nothing is unpickled, so a file cannot execute code."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePath

import numpy as np

from harmonium.data.dataset import Content, DataFile
from harmonium.errors import InvalidData
from harmonium.extras import require
from harmonium.limits import gunzip, parse_json

from .matlab_matrices import check_links, check_stored


def read_verified(path: Path, file: DataFile) -> Content:
    """Read ``path``, verify that it is ``file``, and return its content: bytes, or a dictionary of arrays.

    Nothing larger than the recorded size is read or decompressed.
    """
    if path.stat().st_size > 2 * file.size + 2**20:
        raise InvalidData(f"{path} is not the file: expected about {file.size:,} bytes, found {path.stat().st_size:,}")
    raw = path.read_bytes()
    if file.of == "file":
        _compare(path, file, hashlib.sha256(raw).hexdigest())
    try:
        content = _DECODERS.get(PurePath(file.name).suffix, _plain)(raw, _SLACK + file.size)
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


def _plain(raw: bytes, most: int) -> bytes:
    return raw


def _gunzip(raw: bytes, most: int) -> bytes:
    return gunzip("the file", raw, most)


def _unzip(raw: bytes, most: int) -> bytes:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        (member,) = archive.infolist()
        _check_size(member.file_size, most)
        return archive.read(member)


def _check_size(found: int, most: int) -> None:
    if found > most:
        raise InvalidData(f"expected at most {most:,} bytes after decompression, found {found:,}")


def _npz(raw: bytes, most: int) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        _check_size(sum(member.file_size for member in archive.infolist()), most)
    with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def _png(raw: bytes, most: int) -> dict[str, np.ndarray]:
    with require("PIL.Image", ".png files need").open(io.BytesIO(raw)) as image:
        _check_size(image.width * image.height, most)
        return {"pixels": np.asarray(image)}


def _json(raw: bytes, most: int) -> dict[str, np.ndarray]:
    return {"labels": np.asarray(parse_json(raw), dtype=np.int64)}


def _mat(raw: bytes, most: int) -> dict[str, np.ndarray]:
    """Decode the two MATLAB formats. Version 7.3 is HDF5; its arrays are not transposed."""
    if raw[:10] == b"MATLAB 7.3":
        h5py = require("h5py")
        with h5py.File(io.BytesIO(raw), "r") as file:
            check_links(Path("the file"), file)
            found = {key: file[key] for key in file if isinstance(file[key], h5py.Dataset)}
            for entry in found.values():
                check_stored(Path("the file"), entry)
            return {key: entry[()] for key, entry in found.items()}
    from scipy.io import loadmat

    return {key: array for key, array in loadmat(io.BytesIO(raw)).items() if not key.startswith("__")}


_DECODERS: dict[str, Callable[[bytes, int], Content]] = {
    ".gz": _gunzip,
    ".zip": _unzip,
    ".npz": _npz,
    ".png": _png,
    ".json": _json,
    ".mat": _mat,
}
_SLACK = 2**20  # bytes of headers
_SAID = {"file": "bytes", "decompressed": "decompressed bytes", "arrays": "arrays"}
