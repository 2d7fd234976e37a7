"""Files that declare more than they have, or another form than their extension: one sentence, and little memory."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import h5py
import numpy as np
import PIL.Image
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from harmonium import allocation, data
from harmonium.convert import hdf5
from harmonium.data import matlab
from harmonium.errors import DataNotFound, HarmoniumError, InvalidData, OutOfMemory

HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}"


def npy(shape: str, descr: str = "<f8", content: bytes = b"\0" * 64) -> bytes:
    """An array whose header says what it likes."""
    text = HEADER.format(descr, shape).ljust(118) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + content


def zipped(content: bytes, name: str = "data.npy", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def unknown_method() -> bytes:
    """An archive with a method of compression that does not exist."""
    whole = bytearray(zipped(npy("(2, 4)")))
    for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = whole.index(mark) + at
        whole[place : place + 2] = (77).to_bytes(2, "little")
    return bytes(whole)


FILES = {
    "huge.npy": npy("(10000000000, 1000)"),
    "endless.npy": npy("(1" + "0" * 30 + ", 2)"),
    "negative.npy": npy("(-1, 2)"),
    "float.npy": npy("(1e30, 2)"),
    "open.npy": npy("(((((("),
    "deep.npy": npy("(" * 5000),
    "objects.npy": npy("(2, 4)", "|O"),
    "dimensions.npy": npy(str((1,) * 70)),
    "text.npz": zipped(b"not an array"),
    "empty.npz": zipped(b""),
    "method.npz": unknown_method(),
    "field.csv": b"1," + b"2" * 200_000 + b"\n1,2\n",
    "quoted.csv": b'"' + b"x" * 200_000,
    "digits.csv": b"1," + b"9" * 5000 + b"\n",
    "nothing.csv": b'""\n""\n',
    "nul.csv": b"1,2\n\0,3\n",
    "bytes.parquet": b"PAR1" + b"\0" * 50 + b"PAR1",
}


def sparse(change: dict[int, int], at: bytes) -> bytes:
    """A sparse matrix of MATLAB in which some 32-bit integers behind a mark are others."""
    file = io.BytesIO()
    savemat(file, {"data": csc_matrix(np.eye(4))})
    content = bytearray(file.getvalue())
    place = content.index(at)
    for k, value in change.items():
        content[place + 4 * k : place + 4 * k + 4] = value.to_bytes(4, "little", signed=True)
    return bytes(content)


ROW_INDICES, COLUMN_BEGINS = (np.array(part, "<i4").tobytes() for part in ([0, 1, 2, 3], [0, 1, 2, 3, 4]))
FILES |= {  # SciPy's reader writes outside of its memory for these
    "rows.mat": sparse({1: 2**30}, ROW_INDICES),
    "negative.mat": sparse({1: -5}, ROW_INDICES),
    "begins.mat": sparse({3: 10**9}, COLUMN_BEGINS),
    "last.mat": sparse({4: 10**9}, COLUMN_BEGINS),
}


def test_sparse_matrices_of_matlab(tmp_path):
    rows = csc_matrix(np.random.default_rng(0).random((9, 5)) * (np.arange(5) % 2))
    for packed, kind in ((False, rows), (True, rows), (True, rows > 0.5), (False, csc_matrix((3, 2)))):
        savemat(tmp_path / "rows.mat", {"data": kind}, do_compression=packed)
        assert np.array_equal(data.read(tmp_path / "rows.mat"), kind.toarray())


def test_a_file_on_which_its_reader_crashes(tmp_path, monkeypatch):
    savemat(tmp_path / "rows.mat", {"data": np.eye(4)})
    monkeypatch.setattr(matlab, "_PROGRAM", "import os; os.abort()")
    with pytest.raises(InvalidData, match=r"rows\.mat is damaged or not a \.mat file: its reader crashed"):
        data.read(tmp_path / "rows.mat")


@pytest.mark.parametrize("name", FILES)
def test_a_sentence_and_little_memory(name, tmp_path):
    (tmp_path / name).write_bytes(FILES[name])
    tracemalloc.start()
    with pytest.raises(HarmoniumError) as caught:
        data.read(tmp_path / name)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(tmp_path / name) in str(caught.value) and len(str(caught.value)) < 1000
    assert peak < 2**26 + 2 * len(FILES[name])


@pytest.mark.parametrize("name", ["loop.npy", "~nosuchuser/x.npy", "folder.npy"])
def test_paths(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises((DataNotFound, HarmoniumError), match=r"expected a (file|path), found"):
        data.read(name)


def test_a_link_is_followed(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(3))
    (tmp_path / "link.npy").symlink_to("rows.npy")
    assert np.array_equal(data.read(tmp_path / "link.npy"), np.eye(3))


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_one_dimension_is_not_rows(tmp_path, name):
    (np.save if name.endswith("npy") else np.savez)(tmp_path / name, np.arange(20.0))
    with pytest.raises(
        InvalidData, match=r"one sample per row in .*, found the shape \(20,\); reshape it to \(20, 1\)"
    ):
        data.read(tmp_path / name)


def test_many_images_that_are_small_files(tmp_path, monkeypatch):
    monkeypatch.setattr(allocation, "available_memory", lambda: 10**6)
    pixels = PIL.Image.fromarray(np.zeros((1000, 1000), np.uint8))
    for k in range(2):
        pixels.save(tmp_path / f"{k}.png", compress_level=9)
    with pytest.raises(OutOfMemory, match="2 images: needs"):
        data.read(tmp_path)


# -- values that are in other files -----------------------------------------------------------------------------------


def external(path, secret, **_):
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("data", (4, 4), "u1", external=[(str(secret), 0, 16)])


def virtual(path, secret, source):
    layout = h5py.VirtualLayout((4, 4), "u1")
    layout[:] = h5py.VirtualSource(str(source), "data", (4, 4))
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_virtual_dataset("data", layout)


def linked(path, secret, source):
    with h5py.File(path, "w", userblock_size=512) as file:
        file["data"] = h5py.ExternalLink(str(source), "data")


@pytest.mark.parametrize("name", ["x.h5", "x.mat"])
@pytest.mark.parametrize("make", [external, virtual, linked])
def test_hdf5_files_whose_values_are_elsewhere(tmp_path, name, make):
    """Such a file could show the contents of any file as rows."""
    (tmp_path / "secret").write_bytes(b"0123456789abcdef")
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file["data"] = np.ones((4, 4), "u1")
    make(tmp_path / name, secret=tmp_path / "secret", source=tmp_path / "source.h5")
    if name.endswith(".mat"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + content[512:])

    def convert(path):
        with hdf5.opened(path) as file:
            return hdf5.tensor(file, "data")

    for read in (data.read, convert):
        with pytest.raises(InvalidData, match=r"the file itself, found (external|a virtual|the link)") as error:
            read(tmp_path / name)
        assert "0123" not in str(error.value)
