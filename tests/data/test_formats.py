"""Decoders of the files of the data sets, splits, and sequences."""

import io
import zipfile

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from harmonium.data import formats, sequences, splits
from harmonium.data.dataset import DataFile
from harmonium.errors import InvalidData

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (3, 5, 3), dtype=np.uint8)


def read(tmp_path, name, raw, arrays):
    sha256, size = formats.digest(arrays)
    path = tmp_path / "under_another_name"
    path.write_bytes(raw)
    return formats.read_verified(path, DataFile(name, sha256, size, "arrays"))


def test_png(tmp_path):
    raw = io.BytesIO()
    Image.fromarray(PIXELS).save(raw, "png")
    found = read(tmp_path, "a.png", raw.getvalue(), {"pixels": PIXELS})
    assert np.array_equal(found["pixels"], PIXELS)


def test_npz(tmp_path):
    raw = io.BytesIO()
    np.savez_compressed(raw, b=PIXELS, a=np.array(["x", "yz"]))
    found = read(tmp_path, "a.npz", raw.getvalue(), {"a": np.array(["x", "yz"]), "b": PIXELS})
    assert found["a"].tolist() == ["x", "yz"] and np.array_equal(found["b"], PIXELS)


def test_npz_with_objects_is_not_unpickled(tmp_path):
    raw = io.BytesIO()
    np.savez(raw, a=np.array([{}], dtype=object))
    with pytest.raises(InvalidData, match="damaged"):
        read(tmp_path, "a.npz", raw.getvalue(), {"a": PIXELS})


def test_both_formats_of_mat(tmp_path):
    old, new = io.BytesIO(), io.BytesIO()
    savemat(old, {"x": PIXELS[0]})
    assert np.array_equal(read(tmp_path, "a.mat", old.getvalue(), {"x": PIXELS[0]})["x"], PIXELS[0])
    with h5py.File(new, "w", userblock_size=512) as file:
        file["x"] = PIXELS[0]
    raw = b"MATLAB 7.3 MAT-file".ljust(512) + new.getvalue()[512:]
    assert np.array_equal(read(tmp_path, "a.mat", raw, {"x": PIXELS[0]})["x"], PIXELS[0])


def test_zip_of_one(tmp_path):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        archive.writestr("a", b"inside")
    assert read(tmp_path, "a.zip", raw.getvalue(), b"inside") == b"inside"


def test_json_labels(tmp_path):
    found = read(tmp_path, "a.json", b"[3, 1,\n2]", {"labels": np.array([3, 1, 2])})
    assert found["labels"].tolist() == [3, 1, 2]


def test_the_digest_of_arrays_sees_name_type_shape_and_values():
    digests = {
        formats.digest(arrays)[0]
        for arrays in (
            {"a": PIXELS},
            {"b": PIXELS},
            {"a": PIXELS.astype(np.int8)},
            {"a": PIXELS.reshape(5, 3, 3)},
            {"a": PIXELS ^ 1},
        )
    }
    assert len(digests) == 5
    assert formats.digest({"a": np.asfortranarray(PIXELS)}) == formats.digest({"a": PIXELS})


def test_idx_of_another_type_is_refused():
    with pytest.raises(InvalidData, match="magic 00 00 08"):
        formats.idx(bytes([0, 0, 13, 1, 0, 0, 0, 0]))


def test_unaligned_sequences_are_refused():
    with pytest.raises(InvalidData, match=r"one length, found the lengths \[2, 3\]"):
        sequences.fasta(b">a\nAC\n>b\nACD\n")


def test_letters_outside_the_alphabet_are_gaps():
    codes = sequences.one_hot(np.array([b"AYX-", b"BZCW"]), sequences.AMINO_ACIDS).argmax(-1)
    assert codes.tolist() == [[0, 19, 20, 20], [20, 20, 1, 18]]


def test_groups_are_never_divided():
    groups = RNG.integers(0, 100, 1000)
    test = splits.every_fifth(groups)
    assert not set(groups[test]) & set(groups[~test])
    assert len(set(groups[test])) == len(set(groups)) // 5
