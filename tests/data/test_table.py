"""Tables as states of a layer."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch

import harmonium as hm
from harmonium.data import TableEncoder, read_table


def people():
    return pd.DataFrame(
        {
            "age": [20.5, 31.0, None, 44.25, 20.5],
            "job": ["nurse", None, "teacher", "artist", "nurse"],
            "member": [True, False, True, None, False],
            "children": [0, 1, 2, 1, None],
            "zip": pd.array([101, 205, 101, 333, 205]),
            "grade": pd.Categorical(["low", "high", "mid", None, "low"], categories=["low", "mid", "high"]),
            "country": ["X", "X", None, "X", "X"],
            "year": [2001, 1950, 1999, 2010, 1971],
            "stars": [1, 5, 0, 2, 5],
        }
    )


KINDS = {"zip": "category", "stars": "count:5"}


def test_kinds_and_layer():
    encoder = TableEncoder.fit(people(), kinds=KINDS)
    assert encoder.kinds == {
        "age": "real",
        "job": "category",
        "member": "binary",
        "children": "count",
        "zip": "category",
        "grade": "category",
        "country": "constant",
        "year": "real",
        "stars": "count:5",
    }
    parts = encoder.layer().members
    assert [unit.name() for unit in parts] == ["bernoulli", "categories", "gaussian", "poisson", "binomial"]
    assert parts[1].states == (3, 3, 3) and parts[2].learn == ("bias", "precision") and parts[4].options["trials"] == 5
    assert encoder.columns[5].values == ("low", "mid", "high")  # the order of the categorical
    assert encoder.layer().size == encoder.size == 14


def test_round_trip():
    table = people()
    encoder = TableEncoder.fit(table, kinds=KINDS)
    states = encoder.encode(table)
    complete = table.index[table.drop(columns="country").notna().all(axis=1)]
    assert list(complete) == [0]
    encoder.layer().check(states[list(complete)])
    found = encoder.decode(states[list(complete)])
    assert list(found.columns) == list(table.columns)
    row = {name: found[name].iloc[0] for name in found}
    assert row == {
        "age": 20.5, "job": "nurse", "member": True, "children": 0, "zip": 101, "grade": "low", "country": "X",
        "year": 2001, "stars": 1,
    }  # fmt: skip
    assert found["member"].dtype == bool and found["year"].dtype.kind == "i" and found["zip"].dtype.kind == "i"
    missing = torch.isnan(states)
    assert missing[2, encoder.entries["age"]].all() and missing[1, encoder.entries["job"]].all()
    assert int(missing.sum()) == 1 + 3 + 1 + 1 + 3  # country has no units


def test_standardization_and_jacobian():
    table = pd.DataFrame({"x": [1e6, 3e6, 5e6, None], "y": [0.1, 0.2, 0.7, 0.4]})
    encoder = TableEncoder.fit(table)
    z = encoder.encode(table)
    assert z[:3, 0].mean().abs() < 1e-6 and z[:3, 0].var(correction=0).item() == pytest.approx(1.0, abs=1e-5)
    scales = [column.scale for column in encoder.columns]
    expected = [-math.log(scales[0]) - math.log(scales[1])] * 3 + [-math.log(scales[1])]
    assert encoder.log_jacobian(z).tolist() == pytest.approx(expected)
    grid = pd.DataFrame({"x": np.linspace(-3e7, 3e7, 20001)})
    single = TableEncoder.fit(table[["x"]])
    rbm = hm.RBM(single.layer(), 2)
    rbm.initialize(seed=0, scale=0.5)
    rows = single.encode(grid)
    density = (rbm.log_probability(rows).double() + single.log_jacobian(rows)).exp().sum() * (grid.x[1] - grid.x[0])
    assert density.item() == pytest.approx(1.0, abs=1e-4)  # in units of the table


def test_means_and_deviations_of_chosen_rows():
    table = pd.DataFrame({"x": [0.0, 2.5, 100.0], "job": ["a", "b", "c"]})
    column = TableEncoder.fit(table, rows=[0, 1]).columns[0]
    assert (column.mean, column.scale) == (1.25, 1.25)
    assert TableEncoder.fit(table, rows=[0, 1]).columns[1].values == ("a", "b", "c")


def test_files(tmp_path):
    encoder = TableEncoder.fit(people(), kinds=KINDS)
    encoder.save(tmp_path / "table.json")
    assert TableEncoder.load(tmp_path / "table.json") == encoder
    with pytest.raises(hm.errors.InvalidOption, match="expected format 1, found 9"):
        TableEncoder.from_dict({**json.loads((tmp_path / "table.json").read_text()), "format": 9})


def test_completed_tables():
    table = people()
    encoder = TableEncoder.fit(table, kinds=KINDS)
    states = encoder.layer().sample(torch.zeros(5, encoder.size), generator=torch.Generator().manual_seed(0))
    found = encoder.complete(table, states)
    for name in table:
        seen = table[name].notna()
        assert (found[name][seen] == table[name][seen]).all() and found[name].notna().all()
    assert found["children"].dtype.kind == "i" and found["member"].dtype == bool
    assert (found["job"][1:2] == encoder.decode(states)["job"][1:2]).all()
    added = encoder.complete(table.drop(columns="job").assign(note="?"), states)
    assert (added["job"] == encoder.decode(states)["job"]).all() and (added["note"] == "?").all()


def test_probabilities():
    encoder = TableEncoder.fit(people()[["job", "member"]])
    found = encoder.probabilities(torch.tensor([[0.25, 0.5, 0.125, 0.375]]))
    assert found.iloc[0].to_dict() == {
        "job=artist": 0.5, "job=nurse": 0.125, "job=teacher": 0.375, "member=False": 0.75, "member=True": 0.25,
    }  # fmt: skip


def test_other_values_than_zero_and_one_are_binary():
    encoder = TableEncoder.fit(pd.DataFrame({"sex": ["m", "f", "m"], "size": [1.5, 2.5, 1.5]}))
    assert [column.values for column in encoder.columns] == [("f", "m"), (1.5, 2.5)]
    assert encoder.encode(pd.DataFrame({"sex": ["f", "m"], "size": [2.5, 1.5]})).tolist() == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("name", "cells", "expected"),
    [
        ("counts", [0, 1, 3, 2, 1], "count"),
        ("negative", [0, 1, -3, 2, 1], "real"),
        ("large", [0, 1, 3, 2, 1000], "real"),
        ("dispersed", [0, 0, 0, 99, 1], "real"),
        ("fractions", [0.5, 1, 3, 2, 1], "real"),
        ("two", [7, 9, 9, 7, 7], "binary"),
        ("one", [7, 7, 7, 7, 7], "constant"),
        ("text", list("abcab"), "category"),
        ("objects", np.array([1, 0, 3, 2, None], dtype=object), "count"),
    ],
)
def test_chosen_kinds(name, cells, expected):
    table = pd.DataFrame({name: cells, "x": [0, 1, 0, 1, 0]})
    assert TableEncoder.fit(table).kinds[name] == expected


# -- errors -----------------------------------------------------------------------------------------------------------


def written(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_errors_name_file_line_and_column(tmp_path):
    table = written(tmp_path, "age,job\n20,a\n30,b\n\n25,c\n")
    encoder = TableEncoder.fit(table, kinds={"age": "real"})
    new = written(tmp_path, "age,job\n20,a\n\n30,z\n", "new.csv")
    with pytest.raises(
        hm.errors.InvalidData, match=r"new.csv, line 4, column 'job': expected one of 'a', 'b', 'c', found 'z'"
    ):
        encoder.encode(new)
    new = written(tmp_path, "age,job\n20,a\nold,b\n", "new.csv")
    with pytest.raises(
        hm.errors.InvalidData, match=r"new.csv, line 3, column 'age': expected a finite number, found 'old'"
    ):
        encoder.encode(new)
    with pytest.raises(hm.errors.InvalidData, match=r"table, row 2, column 'job': expected one of"):
        encoder.encode(pd.DataFrame({"age": [1, 2], "job": ["a", "z"]}))
    with pytest.raises(hm.errors.InvalidData, match="expected a column 'job', found none"):
        encoder.encode(pd.DataFrame({"age": [1.0]}))
    with pytest.raises(hm.errors.InvalidData, match=r"t.csv, line 3: expected 2 cells, as in the first row, found 1"):
        read_table(written(tmp_path, "age,job\n20,a\n30\n"))
    with pytest.raises(hm.errors.InvalidData, match="line 1: expected a name for every column"):
        read_table(written(tmp_path, ",age\n1,20\n"))
    with pytest.raises(hm.errors.InvalidData, match=r"t\.csv is empty"):
        read_table(written(tmp_path, ""))
    with pytest.raises(hm.errors.DataNotFound, match="expected a file"):
        read_table(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        ([None] * 30, None, "column 'c': expected at least one value, found only missing cells"),
        ([f"p{k}" for k in range(30)], None, "expected at most 200 categories that repeat, found 30 different values"),
        ([*map(str, range(29)), "many"], None, "row 30, column 'c': expected a finite number, found 'many'"),
        ([*range(29), math.inf], None, "row 30, column 'c': expected a finite number, found inf"),
        (list(range(30)), "binary", "expected two different values of a binary column"),
        (list(range(30)), "count:9", "row 11, column 'c': expected whole numbers from 0 to 9, found 10.0"),
        ([0.5] * 29 + [1], "count", "row 1, column 'c': expected whole numbers from 0, found 0.5"),
        (list(pd.date_range("2020-01-01", periods=30)), None, "expected numbers or text, found dates"),
        ([1] * 30, "category", "expected two or more different values"),
        (list(range(30)), "constant", "expected one value of a constant column"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_encoded(cells, kind, message):
    table = pd.DataFrame({"c": cells, "x": [0, 1] * 15})
    with pytest.raises(hm.errors.InvalidData, match=message):
        TableEncoder.fit(table, kinds={} if kind is None else {"c": kind})


def test_unknown_kinds_and_columns():
    with pytest.raises(hm.errors.InvalidOption, match="unknown kind of column 'age' 'reel': did you mean 'real'"):
        TableEncoder.fit(people(), kinds={"age": "reel"})
    with pytest.raises(hm.errors.InvalidOption, match="unknown column 'ages': did you mean 'age'"):
        TableEncoder.fit(people(), kinds={"ages": "real"})
    with pytest.raises(hm.errors.InvalidOption, match="expected no value after the kind real"):
        TableEncoder.fit(people(), kinds={"age": "real:3"})
    with pytest.raises(hm.errors.InvalidOption, match="expected a kind such as count:10"):
        TableEncoder.fit(people(), kinds={"stars": "count:x"})
    with pytest.raises(hm.errors.InvalidData, match="expected a column with two or more values, found none"):
        TableEncoder.fit(people()[["country"]])
    with pytest.raises(hm.errors.InvalidData, match="states: expected shape"):
        TableEncoder.fit(people(), kinds=KINDS).decode(torch.zeros(2, 3))
    with pytest.raises(hm.errors.InvalidData, match="expected a pandas table or a file, found list"):
        TableEncoder.fit([[1, 2]])
