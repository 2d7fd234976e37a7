"""The experiments on classification: small runs, and verdicts from errors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

import experiments
import harmonium as hm
from experiments.classification import mnist, newsgroups
from experiments.classification.trained import claims
from experiments.record import Record


@pytest.mark.parametrize(
    ("error", "verdicts"), [(0.012, [True, None, None]), (0.017, [True, None, None]), (0.02, [False, None, None])]
)
def test_verdicts(error, verdicts, tmp_path):
    """The goal is judged; published errors stay open, because the settings are not those of the paper."""
    record = Record("classification/mnist", "full", tmp_path)
    record.numbers["processor_minutes"] = 1.0
    claims(record, error, 0.018, mnist.PUBLISHED, 1000)
    assert [claim.holds for claim in record.claims] == verdicts
    assert "hidden units: 1000 instead of 500" in record.claims[1].measured


@pytest.mark.slow
def test_a_small_run_on_images(monkeypatch, tmp_path, capsys):
    def load(name: str, *, split: str = "train", labels: bool = False) -> Any:
        generator = torch.Generator().manual_seed(len(split))
        truth = torch.randint(10, (200,), generator=generator)
        images = 0.1 * torch.rand(200, 784, generator=generator)
        for k in range(10):
            images[truth == k, 70 * k : 70 * k + 60] += 0.8
        return images, truth

    monkeypatch.setattr(hm.data, "load", load)
    small = replace(mnist.SETTINGS["quick"], hidden=10, rows=200, held_out=50, epochs=3, batch_size=20, rate=0.05)
    small = replace(small, alphas=(0.0, 0.1), choosing_hidden=5, choosing_epochs=1)
    monkeypatch.setitem(mnist.SETTINGS, "quick", small)
    monkeypatch.setitem(mnist.SAMPLED, "quick", (5, 1))
    experiments.reproduce("classification/mnist", "quick", tmp_path / "out", choosing="yes")
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["numbers"]["test_error"] < 0.1 and len(verdict["claims"]) == 3
    assert (tmp_path / "out" / "validation.csv").read_text().count("\n") == 3
    assert hm.load(tmp_path / "out" / "machine.safetensors").visible.shape == (794,)
    assert "validation error" in capsys.readouterr().out
    assert (tmp_path / "out" / "samples.png").exists()


def test_words_of_posts(monkeypatch):
    texts = {
        "train": (["sci", "alt", "alt"], ["b a a", "a b c", "a"]),
        "test": (["alt"], ["c d"]),
    }
    monkeypatch.setattr(newsgroups, "_read", lambda split: texts[split])
    task = newsgroups.posts(2, seed=0)
    rows = {(*row, label) for row, label in zip(task.train[0].tolist(), task.train[1].tolist(), strict=True)}
    assert rows == {(1, 1, 1), (1, 1, 0), (1, 0, 0)}  # words a and b; groups alt and sci
    assert task.test[0].tolist() == [[0, 0]] and task.classes == 2
