"""Runs with labels: training, classification, samples of a class, errors."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium import files
from harmonium.tasks import LabelClassifier
from harmonium.training import Run


@pytest.fixture
def table(tmp_path):
    """60 rows of 6 binary values; the last column is which of two patterns it is, with a little noise."""
    generator = np.random.default_rng(0)
    label = generator.integers(0, 2, (60, 1))
    rows = label ^ (np.arange(6) < 3) ^ (generator.random((60, 6)) < 0.05)
    path = tmp_path / "labeled.csv"
    np.savetxt(path, np.hstack([rows, label]), delimiter=",", fmt="%d")
    return path


@pytest.fixture
def trained(command, table, tmp_path):
    run = tmp_path / "run"
    options = ("--hidden", 4, "--epochs", 40, "--batch-size", 10, "--lr", 0.05, "--validation", 0.3, "--run", run)
    done = command("train", table, "--labels", *options, "--no-report")
    assert done.status == 0, done.err
    for words in ("with labels", "bernoulli:6+potts:1x2", "discriminative+0.01*cd:1", "label error"):
        assert words in done.out
    return run


@pytest.mark.slow
def test_train_and_classify(command, trained, table):
    config = tomllib.loads((trained / "config.toml").read_text(encoding="utf-8"))
    assert config["data"]["labels"] is True and config["machine"]["visible"] == "bernoulli:6+potts:1x2"
    history = Run(trained).read_metrics()
    assert history[-1]["label_error"] < 0.1 < history[0]["label_error"] + 0.5
    shown = command("classify", trained)
    assert shown.status == 0 and "18 held out rows" in shown.out and "confusions" in shown.out
    found = json.loads(command("classify", trained, "--json").out)
    assert found["error"] == pytest.approx(history[-1]["label_error"])
    assert np.sum(found["confusion"]) == found["n"] == 18
    again = LabelClassifier(hm.load(trained))
    rows = np.loadtxt(table, delimiter=",")
    assert again.error(torch.tensor(rows[:, :6]).float(), rows[:, 6]) < 0.1


@pytest.mark.slow
def test_samples_of_a_class(command, tmp_path):
    """One hidden unit for each class, which is coupled to the label and to the three pixels of the class."""
    machine = hm.tasks.label_rbm(hm.units.Bernoulli(6, bias=-2.0), 2, hm.units.Bernoulli(2, bias=-10.0))
    with torch.no_grad():
        machine.coupling.weight[:6] = 4.0 * torch.eye(2).repeat_interleave(3, 0)
        machine.coupling.weight[6:] = 8.0 * torch.eye(2)
    hm.save(machine, tmp_path / "machine.safetensors")
    for label in (0, 1):
        out = tmp_path / "samples.npy"
        arguments = ("--label", label, "-n", 200, "--sweeps", 50, "--out", out)
        assert command("sample", tmp_path / "machine.safetensors", *arguments).status == 0
        drawn = np.load(out)
        assert drawn.shape == (200, 8) and (drawn[:, 6 + label] == 1).all()
        own = slice(3 * label, 3 * label + 3)
        assert drawn[:, own].mean() > 0.75 and np.delete(drawn[:, :6], np.r_[own], 1).mean() < 0.25
    wrong = command("sample", tmp_path / "machine.safetensors", "--label", 2)
    assert wrong.status == 2 and "labels: expected whole numbers from 0 to 1, found 2 in row 0" in wrong.err


@pytest.mark.slow
def test_resume_is_bitwise(command, table, tmp_path):
    options = ("--labels", "--hidden", 3, "--batch-size", 10, "--schedule", "constant", "--no-report", "-q")
    command("train", table, *options, "--epochs", 4, "--run", tmp_path / "whole")
    command("train", table, *options, "--epochs", 2, "--run", tmp_path / "part")
    assert command("resume", tmp_path / "part", "--epochs", 4, "--no-report", "-q").status == 0
    one, two = (files.read_tensors(Run(tmp_path / name).last)[0] for name in ("whole", "part"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.slow
def test_the_report_shows_the_images_without_labels(command, tmp_path):
    run = tmp_path / "run"
    done = command("train", "digits", "--labels", "--hidden", 5, "--epochs", 1, "--run", run)
    assert done.status == 0 and (run / "report.html").exists()
    assert hm.load(run).visible.shape == (74,)
    assert json.loads(command("classify", run, "--json").out)["n"] == 355
    assert command("sample", run, "--label", 3, "-n", 4, "--sweeps", 2, "--out", tmp_path / "three.png").status == 0


def test_errors(command, table, tmp_path):
    plain = tmp_path / "plain"
    command("train", table, "--visible", "bernoulli", "--epochs", 1, "--hidden", 2, "--run", plain, "--no-report", "-q")
    half = tmp_path / "half.csv"
    half.write_text("0,1,0.5\n1,0,1\n")
    below = tmp_path / "below.csv"
    below.write_text("0,1,-1\n1,0,1\n")
    for arguments, message in [
        (("classify", plain), "expected a run with labels, made with 'harmonium train DATA --labels'"),
        (("sample", plain, "--label", 1), "expected a visible layer with features and a label"),
        (("train", half, "--labels"), "last column: labels: expected whole numbers, found fractions"),
        (("train", below, "--labels"), "last column: labels: expected whole numbers from 0 to 1, found -1 in row 0"),
        (
            ("train", "digits", "--labels", "--hidden", "4", "--hidden", "3"),
            "labels: expected --machine rbm, found dbm",
        ),
        (("train", "digits", "--labels", "--hidden", "bernoulli:4,kernel=3"), "expects one type of visible units"),
        (("train", "digits", "--negative", "discriminative"), "expected a visible layer with features and a label"),
        (("train", "kos", "--labels"), "data set 'kos' has no labels"),
    ]:
        wrong = command(*arguments, *(() if arguments[0] != "train" else ("--run", tmp_path / "new")))
        assert wrong.status == 2 and message in wrong.err, wrong.err
