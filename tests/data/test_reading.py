"""Reading of files of the user."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from harmonium import data
from harmonium.errors import DataNotFound, HarmoniumError, InvalidData, InvalidOption

VALUES = np.random.default_rng(0).integers(0, 50, (6, 4)).astype(np.float32) / 4


@pytest.fixture
def write(tmp_path):
    def to(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to


class Explosive:
    def __reduce__(self):
        return pytest.fail, ("the file was unpickled",)


def test_npy_is_mapped_and_read_only(tmp_path):
    np.save(tmp_path / "a.npy", VALUES)
    found = data.read(tmp_path / "a.npy")
    assert isinstance(found, np.memmap) and not found.flags.writeable
    assert np.array_equal(found, VALUES)
    assert np.array_equal(data.read(str(tmp_path / "a.npy")), VALUES)


def test_npy_of_the_other_byte_order_is_a_tensor(tmp_path):
    np.save(tmp_path / "a.npy", VALUES.astype(">f4"))
    assert torch.equal(data.read(tmp_path / "a.npy"), torch.from_numpy(VALUES))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(["a", "b"]), "found the type <U1"),
        (np.zeros(3, dtype=complex), "found the type complex128"),
        (np.zeros((0, 4)), r"found the shape \(0, 4\)"),
        (np.float64(3), r"found the shape \(\)"),
    ],
)
@pytest.mark.parametrize("save", [np.save, np.savez])
def test_arrays_that_are_no_samples(tmp_path, array, message, save):
    path = tmp_path / ("a.npy" if save is np.save else "a.npz")
    save(path, array)
    with pytest.raises(InvalidData, match=message):
        data.read(path)


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_objects_are_refused_without_unpickling(tmp_path, save):
    path = tmp_path / ("a.npy" if save is np.save else "a.npz")
    save(path, np.array([Explosive()], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidData, match=r"a\.np. is damaged or not an \.np. file: .*(objects|allow_pickle)"):
        data.read(path)


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.parquet"])
def test_damaged_files(write, name):
    with pytest.raises(InvalidData, match=name):
        data.read(write(name, b"garbage" * 10))


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_pickle_under_another_name_is_not_unpickled(write, name):
    with pytest.raises(InvalidData, match=name):
        data.read(write(name, pickle.dumps(Explosive())))


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.parquet"])
def test_truncated_files(tmp_path, write, name):
    values = np.random.default_rng(0).random((100, 4))
    if name == "a.npy":
        np.save(tmp_path / name, values)
    elif name == "a.npz":
        np.savez(tmp_path / name, values)
    else:
        pd.DataFrame(values, columns=list("abcd")).to_parquet(tmp_path / name)
    path = tmp_path / name
    with pytest.raises(InvalidData, match=name):
        data.read(write(name, path.read_bytes()[:-700]))


@pytest.mark.parametrize("key", ["data", "x", "X"])
def test_npz_with_a_known_key(tmp_path, key):
    np.savez(tmp_path / "a.npz", **{key: VALUES, "other": VALUES + 1})
    assert torch.equal(data.read(tmp_path / "a.npz"), torch.from_numpy(VALUES))


def test_npz_with_one_array_keeps_its_type(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", anything=VALUES.astype(np.int16))
    found = data.read(tmp_path / "a.npz")
    assert found.dtype == torch.int16 and torch.equal(found.float(), torch.from_numpy(VALUES).floor())


@pytest.mark.parametrize(
    ("keys", "listed"), [(["a", "b"], r"a \(6×4\), b"), (["x", "data"], r"x \(6×4\), data"), ([], "none")]
)
def test_npz_with_unclear_keys_lists_them(tmp_path, keys, listed):
    np.savez(tmp_path / "a.npz", **{key: VALUES for key in keys})
    with pytest.raises(InvalidData, match=f"one named data, x, X, found {listed}"):
        data.read(tmp_path / "a.npz")


def test_npz_with_nan(tmp_path):
    np.savez(tmp_path / "a.npz", np.array([[1.0, np.nan]]))
    with pytest.raises(InvalidData, match=r"found an empty cell or nan at index \(0, 1\)"):
        data.read(tmp_path / "a.npz")


@pytest.mark.parametrize("header", [True, False])
def test_csv(tmp_path, header):
    pd.DataFrame(VALUES, columns=list("abcd")).to_csv(tmp_path / "a.csv", index=False, header=header)
    found = data.read(tmp_path / "a.csv")
    assert found.dtype == torch.float32 and torch.equal(found, torch.from_numpy(VALUES))


def test_csv_with_the_column_numbers_as_header(tmp_path):
    pd.DataFrame(VALUES).to_csv(tmp_path / "a.CSV", index=False)
    assert torch.equal(data.read(tmp_path / "a.CSV"), torch.from_numpy(VALUES))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2\r\n3,4\r\n", [[1, 2], [3, 4]]),
        ("\ufeff1, 2\n\n 3,4", [[1, 2], [3, 4]]),
        ("0,1\n1,1\n", [[0, 1], [1, 1]]),
        ("1e-3,-2\n", [[1e-3, -2]]),
        ("True,False\nFalse,False\n", [[1, 0], [0, 0]]),
        ('"a","b"\n1,2\n', [[1, 2]]),
        ("5\n6\n", [[5], [6]]),
    ],
)
def test_csv_dialects(write, text, values):
    assert torch.equal(data.read(write("a.csv", text)), torch.tensor(values, dtype=torch.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "has columns but no rows"),
        ("a,b\n1,2\n3,cat\n", "found 'cat' in row 2, column 'b'"),
        ("1,2\n3,dog\n", "found 'dog' in row 2, column '2'"),
        ("a,b\n1,\n", "found an empty cell or nan in row 1, column 'b'"),
        ("1,2\n3\n", "found an empty cell or nan in row 2, column '2'"),
        ("1,2\nnan,3\n", "found an empty cell or nan in row 2, column '1'"),
        ("a,b\n1,inf\n", "found inf in row 1, column 'b'"),
        ("1,2\n3,4,5\n", "expected rows of 2 numbers"),
        ("a,b\n1,2,3\n", "expected rows of 2 numbers"),
        (",a\n0,1\n", "expected a name for every column, found none for the first"),
        ("1;2\n3;4\n", "expected numbers, found '3;4' in row 1"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
    ],
)
def test_csv_that_is_no_table_of_numbers(write, text, message):
    with pytest.raises(InvalidData, match=message):
        data.read(write("a.csv", text))


def test_parquet(tmp_path):
    pd.DataFrame(VALUES, columns=list("abcd"), index=list("uvwxyz")).to_parquet(tmp_path / "a.parquet")
    found = data.read(tmp_path / "a.parquet")
    assert found.dtype == torch.float32 and torch.equal(found, torch.from_numpy(VALUES))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1, 2], "b": ["3", "cat"]}, "found 'cat' in row 2, column 'b'"),
        ({"a": [1, 2], "b": ["3", "4"]}, "found '3' in row 1, column 'b'"),
        ({"a": pd.to_datetime(["2020-01-01", "2020-01-02"])}, "column 'a'"),
        ({"a": [1.0, None]}, "found an empty cell or nan in row 2, column 'a'"),
        ({"a": pd.array([None, 1], dtype="Int64")}, "found an empty cell or nan in row 1, column 'a'"),
        ({"a": np.zeros(0)}, "has columns but no rows"),
    ],
)
def test_parquet_that_is_no_table_of_numbers(tmp_path, columns, message):
    pd.DataFrame(columns).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InvalidData, match=message):
        data.read(tmp_path / "a.parquet")


def test_missing_and_folder(tmp_path):
    with pytest.raises(DataNotFound, match=r"a\.npy: expected a file, found no file"):
        data.read(tmp_path / "a.npy")
    (tmp_path / "b.csv").mkdir()
    with pytest.raises(DataNotFound, match=r"b\.csv: expected a file, found a folder"):
        data.read(tmp_path / "b.csv")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet"])
def test_empty_files(write, suffix):
    with pytest.raises(InvalidData, match=f"a{suffix} is empty"):
        data.read(write(f"a{suffix}", b""))


def test_unknown_extension(write):
    with pytest.raises(InvalidOption, match=r"unknown file extension '.cvs': did you mean '.csv'"):
        data.read(write("a.cvs", "1,2\n"))
    with pytest.raises(HarmoniumError, match=r"known: .arrow, .csv, .feather, .h5, .hdf5, .mat, .npy, .npz, .parquet"):
        data.read(write("a.pt", b"1"))
    with pytest.raises(InvalidOption, match="unknown file extension 'plain'"):
        data.read(write("plain", b"1"))


def test_matlab_and_hdf5_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "a.mat", {"spikes": VALUES, "note": "a text is not a matrix"})
    assert np.array_equal(data.read(tmp_path / "a.mat"), VALUES)
    scipy_io.savemat(tmp_path / "b.mat", {"data": VALUES, "other": VALUES[:2]})
    assert np.array_equal(data.read(tmp_path / "b.mat"), VALUES)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["session/spikes"] = VALUES
    assert np.array_equal(data.read(tmp_path / "c.h5"), VALUES)
    with h5py.File(tmp_path / "d.mat", "w", userblock_size=512) as file:  # MATLAB 7.3 reverses the dimensions
        file["spikes"] = VALUES.T
    with (tmp_path / "d.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(512))
    assert np.array_equal(data.read(tmp_path / "d.mat"), VALUES)


def test_the_only_matrix_beside_numbers_and_names(tmp_path, write):
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(
        tmp_path / "a.mat", {"S": VALUES, "dt": 0.02, "rates": VALUES[0], "names": np.array(["a"], object)}
    )
    assert np.array_equal(data.read(tmp_path / "a.mat"), VALUES)
    np.savez(tmp_path / "a.npz", S=VALUES, dt=0.02)
    assert np.array_equal(data.read(tmp_path / "a.npz"), VALUES)
    np.savez(tmp_path / "b.npz", S=VALUES, x=VALUES + 1)
    assert np.array_equal(data.read(tmp_path / "b.npz"), VALUES + 1)
    assert np.array_equal(data.read(tmp_path / "b.npz", "S"), VALUES)
    with pytest.raises(InvalidData, match=r"expected no name of an array for a \.csv file, found 'S'"):
        data.read(write("c.csv", "1,2\n"), "S")


def test_matlab_files_without_one_matrix(tmp_path, write):
    scipy_io = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "a.mat", {"first": VALUES, "second": VALUES})
    found = r"expected one matrix, or one named data, x, X, found first \(\d×\d\), second \(\d×\d\); choose one"
    with pytest.raises(InvalidData, match=found):
        data.read(tmp_path / "a.mat")
    assert np.array_equal(data.read(tmp_path / "a.mat", "second"), VALUES)
    with pytest.raises(InvalidData, match=r"expected an array named 'third', found first \("):
        data.read(tmp_path / "a.mat", "third")
    scipy_io.savemat(tmp_path / "b.mat", {"cells": np.array(["a", VALUES], dtype=object)})
    with pytest.raises(InvalidData, match="expected one matrix"):
        data.read(tmp_path / "b.mat")
    with pytest.raises(InvalidData, match=r"is damaged or not a \.mat file"):
        data.read(write("c.mat", "nothing of MATLAB"))
    with pytest.raises(InvalidData, match="is damaged or not an HDF5 file"):
        data.read(write("d.h5", "nothing of HDF5"))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("extension", [".arrow", ".feather"])
def test_arrow_files_and_streams(tmp_path, extension, stream):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({f"c{k}": VALUES[:, k] for k in range(VALUES.shape[1])})
    path = tmp_path / f"a{extension}"
    with (pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file)(str(path), table.schema) as file:
        file.write_table(table, max_chunksize=2)
    assert np.array_equal(data.read(path), VALUES)
    assert data.read_table(path).shape == VALUES.shape
    path.write_bytes(path.read_bytes()[:60])
    for read in (data.read, data.read_table):
        with pytest.raises(InvalidData, match=f"a{extension} is damaged or not a {extension} file"):
            read(path)


def test_folders_of_images(tmp_path):
    images = pytest.importorskip("PIL.Image")
    gray = np.random.default_rng(0).integers(0, 256, (3, 4, 5)).astype(np.uint8)
    (tmp_path / "more").mkdir()
    for name, pixels in zip(("a.png", "b.bmp", "more/c.png"), gray, strict=True):
        images.fromarray(pixels).save(tmp_path / name)
    (tmp_path / "notes.md").write_text("other files are ignored")
    assert np.array_equal(data.read(tmp_path), gray[:, None])
    images.fromarray(gray[0]).convert("RGB").save(tmp_path / "d.png")  # one color image: all have three channels
    found = data.read(tmp_path)
    assert found.shape == (4, 3, 4, 5) and np.array_equal(found[0], np.stack([gray[0]] * 3))
    images.fromarray(gray[0, :2]).save(tmp_path / "e.png")
    with pytest.raises(InvalidData, match=r"e\.png: expected 5×4 pixels as in a\.png, found 5×2 pixels; resize"):
        data.read(tmp_path)
    (tmp_path / "e.png").write_bytes(b"not an image")
    with pytest.raises(InvalidData, match=r"e\.png is damaged or not an image"):
        data.read(tmp_path)


def test_black_and_white_images_are_zeros_and_ones(tmp_path):
    images = pytest.importorskip("PIL.Image")
    pixels = np.eye(3, dtype=bool)
    images.fromarray(pixels).save(tmp_path / "a.png")
    assert np.array_equal(data.read(tmp_path), pixels[None, None])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidData, match=r"expected images .* in the folder, found none"):
        data.read(tmp_path / "empty")
