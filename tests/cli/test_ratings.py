"""Runs on files of ratings: training, errors during training, recommendations, and errors that name the line."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium import files
from harmonium.runs import reopen
from harmonium.tasks import recommend
from harmonium.training.optimizers import SGD

OPTIONS = ["--hidden", 4, "--batch-size", 10, "--no-report"]


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    """Half stars of 30 users and 12 items; half of the users like the even items, half the odd ones."""
    draw = np.random.default_rng(0)
    lines = ["userId,movieId,rating,timestamp"]
    for user in range(30):
        for item in draw.permutation(12)[:7]:
            value = 2.75 + 1.5 * (1 if (item + user) % 2 else -1) + 0.5 * draw.integers(-1, 2)
            lines.append(f"u{user},m{item},{value - 0.25:g},0")
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def trained(rated, tmp_path, command) -> Path:
    run = tmp_path / "run"
    outcome = command("train", rated, *OPTIONS, "--validation", 0.1, "--epochs", 40, "--run", run, "--lr", 0.02)
    assert outcome.status == 0, outcome.err
    assert "21 ratings held out" in outcome.out and "cd:1" in outcome.out
    return run


@pytest.mark.slow
def test_training_and_recommending(trained, command, tmp_path):
    metrics = list(csv.DictReader((trained / "metrics.csv").open()))
    assert float(metrics[-1]["rmse"]) < float(metrics[0]["rmse"]) - 0.1
    out = tmp_path / "best.csv"
    outcome = command("recommend", trained, "--user", "u3", "--user", "u4", "-n", 2, "--out", out)
    assert outcome.status == 0, outcome.err
    rows = list(csv.DictReader(out.open()))
    setup = reopen(trained)
    assert setup.rows.ratings.values[:2] == (0.5, 1.0)  # in the values of the file
    expected = recommend(setup.machine, setup.rows.ratings, 2, users=["u3", "u4"])
    assert [(row["user"], row["item"]) for row in rows] == [(one.user, item) for one in expected for item in one.items]
    assert all(row["item"] in outcome.out for row in rows)
    errors = command("recommend", trained)
    assert errors.status == 0 and "held-out ratings" in errors.out
    assert f"{float(metrics[-1]['rmse']):.4f}" in errors.out  # the same ratings were held out


@pytest.mark.slow
def test_samples_are_ratings_of_items(trained, rated, command):
    drawn = command("sample", trained, "-n", 5, "--sweeps", 20)
    assert drawn.status == 0, drawn.err
    rows = list(csv.DictReader((trained / "samples.csv").open()))
    known = hm.data.read_ratings(rated)
    assert {int(row["sample"]) for row in rows} == {1, 2, 3, 4, 5}
    assert all(row["item"] in known.items and float(row["rating"]) in known.values for row in rows)


@pytest.mark.slow
def test_report(rated, command, tmp_path):
    outcome = command("train", rated, *OPTIONS[:-1], "--epochs", 2, "--run", tmp_path / "run", "-q")
    assert outcome.status == 0, outcome.err
    assert (tmp_path / "run" / "report.html").exists()
    outcome = command("evaluate", tmp_path / "run", "--betas", 10)
    assert outcome.status == 0, outcome.err
    assert "rated items are not known" in outcome.out


@pytest.mark.slow
def test_resumed_bit_for_bit(rated, command, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = [*OPTIONS, "-q", "--schedule", "constant", "--validation", 0.1]
    assert command("train", rated, *options, "--epochs", 6, "--run", whole).status == 0
    assert command("train", rated, *options, "--epochs", 2, "--run", parts).status == 0
    assert command("resume", parts, "--epochs", 6, "-q", "--no-report").status == 0
    one, two = (files.read_tensors(run / "checkpoints" / "last.safetensors")[0] for run in (whole, parts))
    assert set(one) == set(two)
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.slow
def test_options_of_the_user_replace_the_defaults(rated, command, tmp_path):
    run = tmp_path / "run"
    outcome = command(
        "train",
        rated,
        *OPTIONS,
        "--epochs",
        1,
        "--run",
        run,
        "--optimizer",
        "sgd",
        "--penalties",
        "l2:0.1",
        "--negative",
        "cd:2",
    )
    assert outcome.status == 0, outcome.err
    chosen = reopen(run).config.training
    assert chosen.optimizer == SGD() and chosen.penalties == (hm.L2(0.1),) and chosen.negative == hm.CD(2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ratings", "1:4:0.5"], "line 3: expected a rating of the scale 1, 1.5, 2, 2.5, 3, 3.5, 4, found 0.5"),
        (["--ratings", "five"], "ratings: expected LOW:HIGH or LOW:HIGH:STEP, such as 1:5 or 0.5:5:0.5, found 'five'"),
        (["--visible", "potts:5"], "visible: expected none for the ratings in ratings.csv, found 'potts:5'"),
        (["--binarize", "threshold"], "binarize: expected none for the ratings in ratings.csv, found 'threshold'"),
        (["--validation", "test"], "validation: expected a fraction of the ratings such as 0.1, or none, found 'test'"),
    ],
)
def test_errors(rated, command, tmp_path, options, words):
    text = rated.read_text().splitlines()
    text[2] = "u0,m99,0.5,0"
    rated.write_text("\n".join(text))
    outcome = command("train", rated, *OPTIONS, "--epochs", 1, "--run", tmp_path / "run", *options)
    assert outcome.status == 2
    assert words in outcome.err


@pytest.mark.slow
def test_other_errors(trained, command, tmp_path):
    assert "unknown user 'nobody'" in command("recommend", trained, "--user", "nobody").err
    assert "unknown method" in command("recommend", trained, "--method", "guess").err
    assert "expected --user NAME" in command("recommend", trained, "--out", tmp_path / "x.csv").err
    numbers = tmp_path / "numbers.npy"
    np.save(numbers, np.eye(4))
    assert "ratings: expected none for the numbers in" in command("train", numbers, "--ratings", "1:5").err
    command("train", numbers, "--hidden", 2, "--epochs", 1, "--run", tmp_path / "other", "-q", "--no-report")
    assert "expected a run on ratings" in command("recommend", tmp_path / "other").err
