"""Runs on sequences of frames: train with a window, resume, evaluate, report, sample and forecast."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import harmonium as hm
from harmonium.runs import config as schema
from harmonium.training import Run


def swing(n, phase=0.0, seed=0):
    time, generator = np.arange(n) / 5 + phase, np.random.default_rng(seed)
    frames = np.stack([np.sin(time), 5e3 + 1e3 * np.cos(time)], 1)
    return frames + generator.normal(0, (0.05, 50.0), frames.shape)


def write(path, frames):
    lines = ["angle,pressure", *(",".join(f"{x:.6g}" for x in frame) for frame in frames)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def sequences(tmp_path):
    folder = tmp_path / "swings"
    folder.mkdir()
    for k, n in enumerate((120, 90)):
        write(folder / f"swing-{k}.csv", swing(n, phase=k, seed=k))
    return folder


@pytest.fixture
def run(sequences, tmp_path, command):
    folder = tmp_path / "run"
    options = ("--window", 3, "--hidden", 4, "--epochs", 4, "--validation", 0.2, "--run", folder)
    done = command("train", sequences, *options)
    assert done.status == 0, done.err
    for words in ("162 for training, 36 held out", "window: 3", "ConditionalRBM", "cd:1"):
        assert words in done.out
    return folder


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.whole_report
def test_every_command_works_on_a_run_with_a_window(run, command):
    page = (run / "report.html").read_text()
    assert "Forecasts" in page and "conditional restricted Boltzmann machine" in page
    assert "linear autoregression" in page and "No samples" not in page
    shown = command("evaluate", run)
    assert (
        shown.status == 0 and "error of the next frame" in shown.out and "log-likelihood given the window" in shown.out
    )
    assert command("report", run).status == 0
    assert "ConditionalRBM" in command("info", run).out
    assert command("sample", run, "-n", 20, "--sweeps", 20, "--out", run / "samples.csv").status == 0
    pressure = [float(row["pressure"]) for row in rows_of(run / "samples.csv")]
    assert len(pressure) == 20 and min(pressure) > 2e3 and max(pressure) < 8e3  # in the units of the file


def test_a_resumed_run_has_the_same_machine(sequences, tmp_path, command):
    half = tmp_path / "half"
    options = (
        "--window",
        3,
        "--hidden",
        4,
        "--validation",
        0.2,
        "--run",
        half,
        "--no-report",
        "--schedule",
        "constant",
    )
    assert command("train", sequences, *options, "--epochs", 2).status == 0
    whole = tmp_path / "whole"
    assert command("train", sequences, *options[:-4], whole, *options[-3:], "--epochs", 4).status == 0
    assert command("resume", half, "--epochs", 4, "--no-report").status == 0
    one, other = (hm.load(folder).state_dict() for folder in (half, whole))
    assert all((one[name] == other[name]).all() for name in one)


@pytest.mark.slow
def test_a_forecast_continues_the_sequences_in_their_units(run, command):
    shown = command("forecast", run, "--frames", 12, "-n", 2, "--means")
    assert shown.status == 0, shown.err
    rows = rows_of(run / "forecast.csv")
    assert list(rows[0]) == ["sequence", "continuation", "frame", "angle", "pressure"]
    assert len(rows) == 2 * 2 * 12 and (run / "forecast.png").exists()
    assert all(3e3 < float(row["pressure"]) < 7e3 for row in rows)


@pytest.mark.slow
def test_a_forecast_may_continue_another_file(run, tmp_path, command):
    other = write(tmp_path / "other.csv", swing(3))
    assert command("forecast", run, "--after", other, "--frames", 2, "--out", tmp_path / "o.csv").status == 0
    assert [row["frame"] for row in rows_of(tmp_path / "o.csv")] == ["1", "2"]
    short = write(tmp_path / "short.csv", swing(2))
    shown = command("forecast", run, "--after", short)
    assert shown.status == 2
    expected = "short.csv, line 3: expected at least 3 frames, the length of the window, found 2"
    assert expected in " ".join(shown.err.split())


@pytest.mark.parametrize(
    ("frames", "options", "expected"),
    [
        (3, (), "swing.csv, line 4: expected more than 3 frames, the length of the window, found 3"),
        (
            12,
            ("--validation", 0.2),
            "swing.csv, line 13: expected more than 3 frames held out, the length of the window, found 2",
        ),
        (20, ("--labels",), "labels: expected none for the sequences in swing.csv, found 'True'"),
        (20, ("--hidden", 3, "--hidden", 2), "machine: expected rbm for frames with a window, found dbm"),
        (20, ("--negative", "pcd:1"), "negative: expected CD, Reconstruction or Exact for a machine with a context"),
    ],
)
def test_wrong_options_are_named(frames, options, expected, tmp_path, command):
    path = write(tmp_path / "swing.csv", swing(frames))
    shown = command("train", path, "--window", 3, "--run", tmp_path / "run", "-q", *options)
    assert shown.status == 2 and expected in " ".join(shown.err.split())
    assert not Run(tmp_path / "run").exists()


def test_robust_weights_on_the_command_line(sequences, tmp_path, command):
    options = ("--window", 3, "--hidden", 4, "--epochs", 2, "--run", tmp_path / "run")
    done = command("train", sequences, "--robust", *options)
    assert done.status == 0, done.err
    assert "robust: yes" in done.out and "effective number" not in done.out
    again = command("train", sequences, *options[:-1], tmp_path / "plain")
    assert again.status == 0, again.err
    robust, plain = (hm.load(tmp_path / name) for name in ("run", "plain"))
    assert not robust.to_visible.weight.equal(plain.to_visible.weight)
    assert command("resume", tmp_path / "run", "--epochs", 3).status == 0
    wrong = command("train", sequences, "--robust", "--visible", "bernoulli", *options[:-1], tmp_path / "other")
    assert wrong.status == 2 and "robust: expected gaussian units, found bernoulli" in wrong.err
    rows = command("train", sequences / "swing-0.csv", "--robust", "--hidden", 2)
    assert rows.status == 2 and "robust: expected none for" in rows.err


def test_a_folder_needs_no_slash(sequences, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command("train", "swings", "--window", 100, "--hidden", 2, "--epochs", 1, "--run", "run")
    assert "swing-1.csv, line 91: expected more than 100 frames" in done.err
    (tmp_path / "mocap").mkdir()
    assert "digits" in command("train", "swing", "--window", 3).err
    assert not schema.is_path("mocap"), "the name of a data set comes first"


def test_files_of_one_folder_have_the_same_channels(sequences, tmp_path, command):
    np.save(sequences / "wide.npy", np.zeros((20, 3)))
    shown = command("train", sequences, "--window", 3, "--run", tmp_path / "other", "-q")
    assert "wide.npy: expected frames of shape (2,), as in swing-0.csv, found (3,)" in " ".join(shown.err.split())


def test_rows_of_other_data_sets_are_no_frames(tmp_path, command):
    shown = command("train", "digits", "--window", 3, "--run", tmp_path / "other", "-q")
    assert "window: expected a data set of sequences, found 'digits'" in " ".join(shown.err.split())


@pytest.mark.slow
def test_forecast_needs_a_run_with_a_window(trained, command):
    shown = command("forecast", trained)
    assert shown.status == 2 and "expected a run on sequences, made with" in " ".join(shown.err.split())
