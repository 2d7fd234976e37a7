"""Files and run folders written by earlier versions still load, and resume where they stopped.

``saved`` was written by version 0.1.0, before its names changed. Never write it again with newer code.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import harmonium as hm

SAVED = Path(__file__).parent / "saved"
ENERGIES = json.loads((SAVED / "energies.json").read_text(encoding="utf-8"))
RUNS = ["plain", "options", "uncentered"]


@pytest.mark.parametrize("name", ENERGIES)
def test_machines_have_the_same_energies(name):
    machine = hm.load(SAVED / "machines" / f"{name}.safetensors")
    states = [torch.tensor(x, dtype=torch.float64) for x in ENERGIES[name]["states"]]
    expected = torch.tensor(ENERGIES[name]["energy"], dtype=torch.float64)
    torch.testing.assert_close(machine.energy(*states), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", RUNS)
def test_runs_of_the_command_line_resume(name, tmp_path):
    from harmonium.cli import main

    shutil.copytree(SAVED, tmp_path / "saved")
    folder = tmp_path / "saved" / "runs" / name
    with pytest.raises(SystemExit) as end:
        main(["resume", str(folder), "--quiet", "--no-report"])
    assert not end.value.code
    compare(folder, name)


@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
def test_runs_of_fit_resume(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(SAVED / "runs" / "by-fit", folder)
    rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3))
    rows = hm.data.read(SAVED / "rows.csv")
    options = {"epochs": 4, "batch_size": 10, "seed": 3, "negative": hm.PCD(2), "progress": False}
    hm.fit(rbm, rows, run=folder, resume=True, callbacks=[StopAfterOne()], **options)  # writes a checkpoint of today
    assert hm.Run(folder).read_metrics()[-1]["epoch"] == 3
    hm.fit(rbm, rows, run=folder, resume=True, **options)
    compare(folder, "by-fit")


class StopAfterOne(hm.training.Callback):
    def on_epoch(self, progress: hm.training.Progress) -> None:
        progress.stop = True


def compare(folder: Path, name: str) -> None:
    found, expected = hm.load(folder), hm.load(SAVED / "runs" / f"{name}-end.safetensors")
    for key, value in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[key], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*RUNS, "by-fit"])
def test_trajectories_and_metrics_are_read(name):
    run = hm.Run(SAVED / "runs" / name)
    assert sorted(run.machines()) == [0.0, 1.0, 2.0]
    assert [row["epoch"] for row in run.read_metrics()] == [1, 2]
