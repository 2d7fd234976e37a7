"""Runs on documents: from text to topics and new documents."""

from __future__ import annotations

import csv
import random
import tomllib
from pathlib import Path

import pytest

import harmonium as hm

THEMES = (["sun", "moon", "star", "planet", "comet"], ["bread", "butter", "cheese", "apple", "soup"])
OPTIONS = ["--hidden", 3, "--epochs", 40, "--validation", 0.1, "--no-report", "-q"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """120 documents of 3 to 30 words of two themes; one has no words."""
    generator = random.Random(0)
    lines = [" ".join(generator.choices(generator.choice(THEMES), k=generator.randint(3, 30))) for _ in range(120)]
    lines[4] = "42 !"
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_topics_and_samples_are_words(text, tmp_path, command):
    run = tmp_path / "run"
    assert command("train", text, *OPTIONS, "--run", run).status == 0
    config = tomllib.loads((run / "config.toml").read_text())
    assert config["machine"]["visible"] == "multinomial:10" and config["data"]["rows"] == 119
    assert (config["training"]["negative"], config["training"]["optimizer"]) == (
        {"name": "cd", "k": 1},
        {"name": "adam"},
    )
    table = tmp_path / "topics.csv"
    shown = command("topics", run, "-n", 5, "--out", table)
    assert shown.status == 0
    found = {frozenset(line.split()[2:]) for line in shown.out.splitlines() if line.strip()[:1].isdigit()}
    assert found <= {frozenset(theme) for theme in THEMES} and found
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15 and set(rows[0]) == {"unit", "rank", "word", "weight"}
    drawn = command("sample", run, "-n", 3, "--sweeps", 20)
    assert drawn.status == 0, drawn.err
    mine = hm.data.read_documents(text)
    samples = hm.data.read_documents(run / "samples.txt", vocabulary=mine.words)
    assert len(samples) == 3 and not samples.notes and samples.counts.sum(1).min() >= 3
    counts = run / "samples.csv"
    assert command("sample", run, "-n", 3, "--sweeps", 20, "--out", counts).status == 0
    header, *lines = list(csv.reader(counts.open()))
    assert set(header) == set(mine.words)
    assert [sum(map(float, line)) for line in lines] == samples.counts.sum(1).tolist()


@pytest.mark.slow
def test_the_plan_says_what_was_left_out(text, tmp_path, command):
    options = ["--hidden", 2, "--epochs", 1, "--no-report", "--vocabulary", 4, "--run", tmp_path / "run"]
    shown = command("train", text, *options)
    assert shown.status == 0 and "multinomial:4" in shown.out
    assert "without words of the vocabulary left out" in " ".join(shown.out.split())


def test_counts_with_a_header_of_words(tmp_path, command):
    table = tmp_path / "counts.csv"
    table.write_text("sun,moon,bread\n" + "1,2,0\n0,0,3\n" * 20)
    options = ["--visible", "multinomial", "--hidden", 2, "--epochs", 2, "--no-report", "-q"]
    assert command("train", table, *options, "--run", tmp_path / "run").status == 0
    shown = command("topics", tmp_path / "run", "-n", 1)
    assert shown.status == 0 and any(word in shown.out for word in ("sun", "moon", "bread"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--binarize", "threshold"], "binarize: expected none for the documents"),
        (["--stop-words", "klingon"], "unknown list of stop words 'klingon'"),
    ],
)
def test_options_that_do_not_fit_documents(options, words, text, tmp_path, command):
    shown = command("train", text, *options, "--run", tmp_path / "run", "-q")
    assert shown.status == 2 and words in " ".join(shown.err.split())


@pytest.mark.slow
def test_words_are_for_documents_only(binary, trained, tmp_path, command):
    shown = command("train", binary, "--vocabulary", 10, "--run", tmp_path / "other", "-q")
    message = "vocabulary: expected none for the numbers in binary.npy"
    assert shown.status == 2 and message in " ".join(shown.err.split())
    shown = command("topics", trained)
    assert shown.status == 2 and "expected a run on documents" in " ".join(shown.err.split())
    shown = command("sample", trained, "--out", tmp_path / "new.txt", "--sweeps", 1, "-n", 1)
    assert shown.status == 2 and "whose rows have no words" in " ".join(shown.err.split())
