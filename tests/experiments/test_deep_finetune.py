"""The experiment on fine-tuning: verdicts from errors, and a run on small random images."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import experiments
import harmonium as hm
from experiments.deep import finetune
from experiments.judging import mean
from experiments.record import Record


def wrong(rate: float, n: int = 10_000) -> np.ndarray:
    return (np.arange(n) < rate * n).astype(float)


@pytest.mark.parametrize(
    ("errors", "verdicts"),
    [
        ((0.0090, 0.0091, 0.0090), [True, True, True, True]),
        ((0.0110, 0.0112, 0.0111), [True, True, False, False]),
        ((0.0150, 0.0151, 0.0149), [False, False, False, False]),
        ((0.0100, 0.0160, 0.0090), [False, None, False, None]),
        ((0.0120,), [True, None, False, None]),  # the spread of trainings is unknown
    ],
)
def test_verdicts_over_seeds(errors, verdicts, tmp_path):
    record = Record("deep/finetune", "full", tmp_path)
    finetune.claims(record, [wrong(rate) for rate in errors], None, "full")
    assert [claim.holds for claim in record.claims] == verdicts


def test_the_comparison_is_paired(tmp_path):
    ours, other = wrong(0.010), wrong(0.013)
    gain = mean(other - ours)
    assert gain.value == pytest.approx(0.003) and gain.error == pytest.approx(0.00055, abs=2e-5)  # 30 images differ
    record = Record("deep/finetune", "quick", tmp_path)
    finetune.claims(record, [ours], other, "quick")
    assert [claim.holds for claim in record.claims] == [True, False, True]
    finetune.claims(record, [other], ours, "quick")
    assert record.claims[-1].holds is False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
def test_a_small_run(monkeypatch, tmp_path, capsys):
    def load(name: str, *, split: str = "train", labels: bool = False) -> Any:
        generator = torch.Generator().manual_seed(len(split))
        truth = torch.randint(3, (120,), generator=generator)
        images = 0.2 * torch.rand(120, 784, generator=generator)
        for k in range(3):
            images[truth == k, 200 * k : 200 * k + 100] += 0.7
        return images, truth

    monkeypatch.setattr(hm.data, "load", load)
    small = finetune.Settings((784, 10, 8), 120, 20, 100, (2, 2), 20, 1)
    monkeypatch.setitem(finetune.SETTINGS, "quick", small)
    monkeypatch.setattr(finetune, "_BATCH", 10)
    monkeypatch.setattr(finetune, "_RATE", 0.01)
    out, machines = tmp_path / "out", tmp_path / "machines"
    experiments.reproduce("deep/finetune", "quick", out, choose="none,strong", machines=str(machines))
    verdict = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["numbers"]["test_errors"][0] < 0.1 and len(verdict["claims"]) == 3
    assert (out / "validation.csv").read_text().count("\n") == 3
    assert len(list(machines.glob("machine-?-784-*"))) == 2
    assert "validation error" in capsys.readouterr().out
    for option in ("dropout", "choose"):
        with pytest.raises(hm.errors.InvalidOption, match="unknown dropout 'week'"):
            experiments.reproduce("deep/finetune", "quick", tmp_path / option, **{option: "week"})
