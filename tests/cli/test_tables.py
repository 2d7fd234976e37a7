"""Runs on tables: train, sample, evaluate and impute in the encoding of the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from harmonium.data import TableEncoder


def make_people(n=120, seed=0, missing=0.15):
    generator = np.random.default_rng(seed)
    young = generator.random(n) < 0.5
    table = pd.DataFrame(
        {
            "age": np.where(young, generator.normal(30, 4, n), generator.normal(60, 6, n)).round(1),
            "income": np.where(young, 2e6, 5e6) + generator.normal(0, 4e5, n),
            "job": np.where(
                young, generator.choice(["nurse", "teacher"], n), generator.choice(["retired", "artist"], n)
            ),
            "member": np.where(young, generator.random(n) < 0.9, generator.random(n) < 0.1).astype(object),
            "children": generator.poisson(np.where(young, 0.7, 2.0)).astype(object),
            "country": "X",
        }
    )
    for name in table.columns[:5]:
        table.loc[generator.random(n) < missing, name] = None
    return table


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    make_people().to_csv(path, index=False)
    return path


@pytest.fixture
def run(people, tmp_path, command):
    folder = tmp_path / "run"
    done = command(
        "train", people, "--hidden", 4, "--epochs", 3, "--validation", 0.2, "--run", folder, "--no-report", "--columns",
        "children=count:9",
    )  # fmt: skip
    assert done.status == 0, done.err
    for words in (
        "columns: 2 real, 1 category, 1 binary, 1 count, 1 constant",
        "column 'age': real: mean",
        "column 'job': category: 'artist', 'nurse', 'retired', 'teacher'",
        "column 'member': binary: False, True",
        "column 'children': count: whole numbers from 0 to 9",
        "96 for training, 24 held out",
    ):
        assert words in done.out
    return folder


@pytest.mark.slow
def test_samples_are_a_table(run, command):
    assert command("sample", run, "-n", 30, "--sweeps", 5).status == 0
    samples = pd.read_csv(run / "samples.csv")
    assert list(samples.columns) == ["age", "income", "job", "member", "children", "country"]
    assert set(samples["job"]) <= {"artist", "nurse", "retired", "teacher"} and samples["member"].dtype == bool
    assert (
        samples["children"].between(0, 9).all() and 10 < samples["age"].mean() < 80 and samples["income"].mean() > 1e6
    )
    assert command("sample", run, "-n", 4, "--sweeps", 5, "--start", "data", "--out", run / "s.npy").status == 0
    assert np.load(run / "s.npy").shape == (4, TableEncoder.load(run / "table.json").size)


@pytest.mark.slow
def test_missing_cells_are_imputed(run, people, tmp_path, command):
    given = pd.read_csv(people)
    shown = command("impute", run, people)
    assert shown.status == 0 and "method exact" in shown.out
    found = pd.read_csv(run / "imputed.csv")
    assert found.notna().all(axis=None) and list(found.columns) == list(given.columns)
    for name in given:
        seen = given[name].notna()
        assert (found[name][seen].astype(str) == given[name][seen].astype(found[name].dtype).astype(str)).all()
    unknown = given.drop(columns="job").head(5)  # a column to predict, without any cell
    unknown.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "out.csv"
    assert (
        command("impute", run, tmp_path / "new.csv", "--method", "gibbs", "--draw", "--sweeps", 20, "--out", out).status
        == 0
    )
    assert pd.read_csv(out)["job"].notna().all()


@pytest.mark.slow
def test_evaluation_sums_missing_cells_out(run, command):
    shown = command("evaluate", run)
    assert shown.status == 0
    assert "log-likelihood of observed cells" in shown.out and "summed out exactly" in shown.out
    assert "units of the table" in shown.out and "pseudo" not in shown.out


@pytest.mark.slow
def test_a_complete_table_also_has_the_usual_measures(tmp_path, command):
    make_people(60, missing=0.0).to_csv(tmp_path / "full.csv", index=False)
    done = command("train", tmp_path / "full.csv", "--hidden", 3, "--epochs", 2, "--run", tmp_path / "run", "-q")
    assert done.status == 0 and (tmp_path / "run" / "report.html").exists()
    shown = command("evaluate", tmp_path / "run", "--betas", 0)
    assert "log-likelihood, exact" in shown.out and "units of the table" in shown.out


@pytest.mark.slow
def test_runs_resume_and_the_report_completes_rows(run, command):
    assert command("resume", run, "--epochs", 4, "-q").status == 0
    assert (run / "report.html").exists()
    assert command("info", run).status == 0


@pytest.mark.slow
def test_errors_name_file_line_and_column(run, people, tmp_path, command):
    (tmp_path / "bad.csv").write_text(people.read_text() + "31,2e6,pilot,True,1,X\n")
    shown = command("impute", run, tmp_path / "bad.csv")
    assert shown.status == 2
    assert (
        "bad.csv, line 122, column 'job': expected one of 'artist', 'nurse', 'retired', 'teacher', found 'pilot'"
        in shown.err
    )
    for words, arguments in {
        "expected the folder of a run on a table": ("impute", tmp_path, people),
        "unknown method 'exakt'": ("impute", run, people, "--method", "exakt"),
        "draw: expected the method exact or gibbs, found naive": ("impute", run, people, "--method", "naive", "--draw"),
        "columns: expected NAME=KIND": ("train", people, "--columns", "age"),
        "unknown column 'agee'": ("train", people, "--columns", "agee=real"),
        "binarize: expected none for the table": ("train", people, "--columns", "age=real", "--binarize", "threshold"),
    }.items():
        shown = command(*arguments)
        assert shown.status == 2 and words in shown.err, shown.err


def test_formulas_are_plain_text_in_tables(tmp_path, command):
    """A spreadsheet runs cells such as =cmd|… of a CSV file."""
    formula = "=cmd|' /C calc'!A0"
    table = pd.DataFrame({formula: ["a", "@SUM(A1)"] * 30, "b": [0.5, -1.5] * 30, "c": ["-1", "-x"] * 30})
    table.to_csv(tmp_path / "t.csv", index=False)
    train = command("train", tmp_path / "t.csv", "--hidden", 2, "--epochs", 1, "--run", tmp_path / "run", "--no-report")
    assert train.status == 0, train.err
    assert command("sample", tmp_path / "run", "-n", 20, "--sweeps", 2, "--out", tmp_path / "s.csv").status == 0
    found = pd.read_csv(tmp_path / "s.csv")
    assert list(found.columns) == [f"'{formula}", "b", "c"]
    assert set(found[f"'{formula}"]) <= {"a", "'@SUM(A1)"} and set(found["c"]) <= {"-1", "-x"}
    assert (found["b"] < 0).any()


def test_brackets_in_names_and_labels(tmp_path, command):
    """Intervals such as [0, 10) and units such as [mm are not closed."""
    generator = np.random.default_rng(0)
    bins = {f"c{k} [mm": [f"[{10 * b}, {10 * b + 10})" for b in generator.integers(0, 10, 60)] for k in range(12)}
    pd.DataFrame(bins).to_csv(tmp_path / "bins.csv", index=False)
    done = command(
        "train", tmp_path / "bins.csv", "--hidden", 2, "--epochs", 1, "--run", tmp_path / "run", "--no-report"
    )
    assert done.status == 0, done.err
    assert command("info", tmp_path / "run").status == 0
    assert command("sample", tmp_path / "run", "-n", 5, "--sweeps", 2).status == 0
    assert command("resume", tmp_path / "run", "--epochs", 2, "--no-report").status == 0


def test_an_entirely_missing_column_is_an_error(tmp_path, command):
    make_people(20).assign(income=None).to_csv(tmp_path / "t.csv", index=False)
    shown = command("train", tmp_path / "t.csv", "--hidden", 2, "--run", tmp_path / "r")
    assert shown.status == 2 and "t.csv, column 'income': expected at least one value, found only missing" in shown.err


@pytest.mark.slow
def test_binary_tables_are_still_arrays(tmp_path, command):
    (tmp_path / "b.csv").write_text("a,b\n1,0\n0,1\n1,1\n0,0\n")
    assert (
        command(
            "train", tmp_path / "b.csv", "--hidden", 2, "--epochs", 1, "--run", tmp_path / "r", "-q", "--no-report"
        ).status
        == 0
    )
    assert not (tmp_path / "r" / "table.json").exists()
