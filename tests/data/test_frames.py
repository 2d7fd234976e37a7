"""Sequences of frames from files, folders and named data sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium.data import Frames, load_frames, read_frames


def test_a_folder_has_a_sequence_in_each_file(tmp_path):
    np.save(tmp_path / "b.npy", np.arange(6.0).reshape(3, 2))
    (tmp_path / "a.csv").write_text("x,y\n0,1\n2,3\n")
    (tmp_path / "notes.md").write_text("not a sequence")
    found = read_frames(tmp_path)
    assert found.names == ("a.csv", "b.npy") and found.channels == ("x", "y")
    assert [part.shape for part in found.sequences] == [(2, 2), (3, 2)]


def test_numbers_without_names(tmp_path):
    (tmp_path / "a.csv").write_text("0.5\n1.5\n")
    found = read_frames(tmp_path / "a.csv")
    assert found.channels is None and found.sequences[0].shape == (2, 1)


def test_parts_in_time_do_not_overlap():
    frames = Frames((torch.arange(10.0)[:, None], torch.arange(20.0)[:, None]), ("a", "b"))
    first, last = frames.cut(0.25, 1)
    for whole, one, other in zip(frames.sequences, first.sequences, last.sequences, strict=True):
        torch.testing.assert_close(torch.cat([one, other]), whole)
    with pytest.raises(hm.errors.InvalidData, match=r"a: expected more than 2 frames held out.* found 2; change"):
        frames.cut(0.25, 2)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: None, "expected files of sequences .*, found none"),
        (lambda path: np.save(path / "a.npy", np.array([[1.0], [np.nan]])), "a.npy: expected finite numbers"),
    ],
)
def test_errors_name_the_file(write, words, tmp_path):
    write(tmp_path)
    with pytest.raises(hm.errors.InvalidData, match=words):
        read_frames(tmp_path)


def test_short_sequences_name_file_and_last_line(tmp_path):
    (tmp_path / "long.csv").write_text("x\n" + "1\n" * 9)
    (tmp_path / "short.csv").write_text("x\n\n1\n2\n\n")
    found = read_frames(tmp_path)
    with pytest.raises(hm.errors.InvalidData, match=r"short.csv, line 4: expected more than 3 frames.*, found 2"):
        found.check_longer_than(3)
    with pytest.raises(hm.errors.InvalidData, match=r"short.csv, line 4: expected more than 1 frames for training"):
        found.cut(0.5, 1)
    np.save(tmp_path / "one.npy", np.zeros((2, 1)))
    with pytest.raises(hm.errors.InvalidData, match=r"one.npy: expected more than 2 frames"):
        read_frames(tmp_path / "one.npy").check_longer_than(2)


def test_sequences_of_a_named_data_set():
    try:
        found = load_frames("mocap", "test")
    except hm.errors.DataNotFound as error:
        pytest.skip(f"needs the data set mocap: {error}")
    assert sum(map(len, found.sequences)) == 764 and found.names[2] == "mocap, sequence 2"
