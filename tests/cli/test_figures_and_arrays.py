"""Files with several arrays, and figures in the format of the file."""

from __future__ import annotations

import re

import numpy as np
import pytest

import harmonium as hm

scipy_io = pytest.importorskip("scipy.io")


@pytest.fixture
def recording(tmp_path):
    """A MATLAB file as programs for spikes write it: neurons in rows, with other variables beside them."""
    spikes = (np.random.default_rng(0).random((5, 80)) < 0.4).astype(np.uint8)
    scipy_io.savemat(tmp_path / "recording.mat", {"S": spikes, "stimulus": np.ones((80, 3)), "dt": 0.02})
    return tmp_path / "recording.mat", spikes


@pytest.mark.slow
def test_an_array_by_name_transposed(recording, tmp_path, command):
    path, _ = recording
    run = tmp_path / "run"
    outcome = command("train", path, "--hidden", 2, "--epochs", 2, "--run", run)
    assert (
        outcome.status == 2 and "found S (5×80), stimulus (80×3), dt" in outcome.err and "--array NAME" in outcome.err
    )
    outcome = command("train", path, "--array", "S", "--transpose", "--hidden", 2, "--epochs", 2, "--run", run)
    assert outcome.status == 0, outcome.err
    assert "array: S" in outcome.out and "transpose: yes" in outcome.out and "rows: 80 for training" in outcome.out
    assert "squared error per value" in outcome.out and "rows per second" in outcome.out
    assert re.search(r"time: training [\d.]+ s, report [\d.]+ s\n", outcome.out)
    assert hm.load(run).visible.size == 5
    assert hm.Run(run).read_config()["data"]["array"] == "S"
    assert command("resume", run, "--epochs", 3, "--no-report").status == 0  # reads the same array again
    for suffix, magic in ((".pdf", b"%PDF"), (".png", b"\x89PNG"), (".svg", b"<?xml")):
        figure = tmp_path / f"network{suffix}"
        outcome = command("interactions", run, "--out", figure)
        assert outcome.status == 0 and "counted from 0" in outcome.out
        assert figure.read_bytes().startswith(magic)
    outcome = command("interactions", run, "--out", tmp_path / "network.doc")
    assert outcome.status == 2 and ".pdf" in outcome.err


@pytest.mark.slow
def test_transposing_expects_a_matrix(tmp_path, command):
    np.save(tmp_path / "images.npy", np.zeros((10, 2, 2), dtype=np.uint8))
    outcome = command("train", tmp_path / "images.npy", "--transpose", "--run", tmp_path / "run")
    assert outcome.status == 2 and "expects a matrix, found the shape (10, 2, 2)" in outcome.err
    outcome = command("train", "digits", "--array", "S", "--run", tmp_path / "run")
    assert outcome.status == 2 and "array: expected none" in outcome.err


def test_select_names_the_next_command(recording, tmp_path, command):
    path, _ = recording
    figure = tmp_path / "select.pdf"
    options = ("--array", "S", "--transpose", "--folds", 2, "--epochs", 2, "--jobs", 1, "--out", figure)
    outcome = command("select", path, "--hidden", "1,2", "--l2", "0.1", *options)
    assert outcome.status == 0, outcome.err
    assert f"Next: harmonium train {path} --hidden bernoulli:" in outcome.out and "--penalties l2:0.1" in outcome.out
    assert figure.read_bytes().startswith(b"%PDF")


def test_a_matrix_with_samples_in_its_columns_gives_a_note(recording, tmp_path, command):
    _, spikes = recording
    np.save(tmp_path / "wide.npy", np.tile(spikes, 4)[:4])
    outcome = command(
        "train", tmp_path / "wide.npy", "--hidden", 2, "--epochs", 1, "--run", tmp_path / "w", "--no-report"
    )
    assert "note: 320 units with only 4 samples; if the columns are the samples, use --transpose" in outcome.out
    outcome = command(
        "select", tmp_path / "wide.npy", "--hidden", "1,2", "--folds", 2, "--epochs", 1, "--out", tmp_path / "s.png"
    )
    assert outcome.status == 0 and "use --transpose" in outcome.err
    given = ("--transpose", "--hidden", 2, "--epochs", 1, "--run", tmp_path / "t", "--no-report")
    assert "note:" not in command("train", tmp_path / "wide.npy", *given).out


def test_a_figure_of_another_order_is_an_error(recording, tmp_path, command):
    path, _ = recording
    given = ("--array", "S", "--transpose", "--hidden", 2, "--epochs", 1, "--run", tmp_path / "run", "--no-report")
    assert command("train", path, *given).status == 0
    outcome = command("interactions", tmp_path / "run", "--order", 3, "--out", tmp_path / "x.pdf")
    assert outcome.status == 2 and "--out: expected --order 2" in outcome.err and "found --order 3" in outcome.err
    outcome = command("spectrum", tmp_path / "run", "--figures", "pdf")
    assert outcome.status == 0 and (tmp_path / "run" / "spectrum.pdf").read_bytes().startswith(b"%PDF")
    outcome = command("landscape", tmp_path / "run", "--figures", "doc")
    assert outcome.status == 2 and "unknown format of figures 'doc'" in outcome.err


def test_a_folder_of_images(tmp_path, command, monkeypatch):
    images = pytest.importorskip("PIL.Image")
    (tmp_path / "faces").mkdir()
    for k, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (12, 4, 4)).astype(np.uint8)):
        images.fromarray(pixels).save(tmp_path / "faces" / f"{k:02}.png")
    given = ("--hidden", 2, "--epochs", 1, "--run", tmp_path / "run", "--no-report")
    outcome = command("train", tmp_path / "faces", *given)
    assert outcome.status == 2 and "values from 0 to 255" in outcome.err and "--binarize threshold" in outcome.err
    monkeypatch.chdir(tmp_path)
    outcome = command("train", "faces", "--binarize", "threshold", *given)  # a folder needs no slash
    assert outcome.status == 0 and "rows: 12 for training" in outcome.out and "bernoulli:1x4x4" in outcome.out
    assert command("sample", tmp_path / "run", "-n", 4, "--sweeps", 2, "--out", tmp_path / "s.png").status == 0
