"""Contact maps in all forms, and errors that name file and line."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from harmonium import data
from harmonium.errors import DataNotFound, InvalidData, InvalidOption

DISTANCES = np.array([[0, 4, 9, 7.9], [4, 0, 5, 20], [9, 5, 0, 6], [7.9, 20, 6, 0.0]])
NEAR = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]], dtype=torch.float64)
PAIRS = [(0, 1), (0, 3), (1, 2), (2, 3)]


@pytest.fixture
def write(tmp_path):
    def to(name, content):
        path = tmp_path / name
        path.write_text(content)
        return path

    return to


def lines(rows, separator):
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


@pytest.mark.parametrize("separator", [",", "\t", " "])
def test_text(write, separator):
    pairs = lines([(i + 1, j + 1) for i, j in PAIRS], separator)
    listed = lines([(i + 1, j + 1, DISTANCES[i, j]) for i in range(4) for j in range(i)], separator)
    flags, matrix = lines(NEAR.int().tolist(), separator), lines(DISTANCES.tolist(), separator)
    header = separator.join(("first", "second")) + "\n"
    for text in (pairs, header + pairs, "# contacts\n" + pairs, listed, flags, matrix):
        assert torch.equal(data.read_contacts(write("map.txt", text), 4), NEAR)


def test_arrays(tmp_path):
    for values in (DISTANCES, NEAR.numpy(), NEAR.bool().numpy()):
        np.save(tmp_path / "map.npy", values)
        assert torch.equal(data.read_contacts(tmp_path / "map.npy", 4), NEAR)


def test_cutoff_and_unknown_pairs(write):
    near = data.read_contacts(write("map.csv", lines(DISTANCES.tolist(), ",")), 4, cutoff=4.5)
    assert near.sum() == 2 and near[0, 1] == 1
    values = DISTANCES.tolist()
    values[0][1] = values[1][0] = ""
    near = data.read_contacts(write("map.csv", lines(values, ",")), 4)
    assert math.isnan(near[0, 1]) and near[0, 3] == 1
    near = data.read_contacts(write("map.csv", "1,2,3.0\n1,3,9\n"), 4)
    assert near[0, 1] == 1 and near[2, 0] == 0 and math.isnan(near[2, 3])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n2,5\n", r"map\.csv, line 2: expected sites from 1 to 4, found 5"),
        ("0,2\n", r"line 1: expected sites from 1 to 4, found 0"),
        ("1,2\n1.5,3\n", r"line 2: expected sites from 1 to 4, found 1\.5"),
        ("a,b\n1,2\nx,3\n", r"map\.csv, line 3: expected numbers"),
        ("1,2\n1,2,3\n", r"line 2: expected 2 columns, found 3"),
        ("# nothing\n", "expected pairs of sites or a matrix of numbers, found none"),
        ("1,0,0,0,0\n", r"expected a matrix \(4, 4\) for 4 sites, found \(1, 5\)"),
        ("0,1,0,0\n0,0,0,0\n0,0,0,0\n0,0,0,0\n", "expected a symmetric matrix"),
    ],
)
def test_errors(write, text, message):
    with pytest.raises(InvalidData, match=message):
        data.read_contacts(write("map.csv", text), 4)


def test_other_errors(write, tmp_path):
    with pytest.raises(DataNotFound, match="found no file"):
        data.read_contacts(tmp_path / "none.csv", 4)
    with pytest.raises(InvalidOption, match="cutoff: expected a positive distance, found 0"):
        data.read_contacts(write("map.csv", "1,2\n"), 4, cutoff=0)
