"""Files with several arrays, and figures in the format of the file."""

from __future__ import annotations

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


def test_an_array_by_name_transposed(recording, tmp_path, command):
    path, _ = recording
    run = tmp_path / "run"
    outcome = command("train", path, "--hidden", 2, "--epochs", 2, "--run", run)
    assert (
        outcome.status == 2 and "found S (5×80), stimulus (80×3), dt" in outcome.err and "--array NAME" in outcome.err
    )
    outcome = command("train", path, "--array", "S", "--transpose", "--hidden", 2, "--epochs", 2, "--run", run)
    assert outcome.status == 0, outcome.err
    assert "array S, transposed" in outcome.out and "rows: 80 for training" in outcome.out
    assert "squared error per value" in outcome.out and "rows per second" in outcome.out
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
    assert f"Next: harmonium train {path} --hidden bernoulli:" in outcome.out and "--l2 0.1" in outcome.out
    assert figure.read_bytes().startswith(b"%PDF")
