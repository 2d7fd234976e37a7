"""Run folders of ``hm.fit`` and the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm

pytestmark = pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")


class StopAfter(hm.Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, progress) -> None:
        progress.stop = progress.epoch == self.epoch


def fitted(binary: Path, folder: Path | None, **options) -> hm.RBM:
    rbm = hm.RBM(6, 3)
    hm.fit(rbm, np.load(binary), epochs=4, batch_size=20, seed=0, progress=False, run=folder, **options)
    return rbm


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "optimizer": "adam",
            "negative": "cd:2",
            "schedule": hm.Linear(0.25),
            "penalties": [hm.L2(0.01)],
            "centered": False,
        },
    ],
    ids=["defaults", "given"],
)
def test_the_command_line_continues_a_run_of_fit_bit_for_bit(options, binary, tmp_path, command) -> None:
    whole = fitted(binary, None, **options)
    run = tmp_path / "run"
    fitted(binary, run, callbacks=[StopAfter(2)], **options)
    outcome = command("resume", run, "--data", binary, "--no-report", "--quiet")
    assert outcome.status == 0, outcome.err
    for name, value in hm.load(run).state_dict().items():
        assert torch.equal(value, whole.state_dict()[name]), name
    assert command("resume", run, "--epochs", 6, "--data", binary, "--quiet").status == 0
    assert hm.Run(run).read_config()["training"]["epochs"] == 6


@pytest.mark.slow
@pytest.mark.whole_report
def test_commands_on_a_run_of_fit(binary, tmp_path, command) -> None:
    run = tmp_path / "run"
    fitted(binary, run)
    outcome = command("evaluate", run, "--data", binary, "--betas", 50)
    assert outcome.status == 0 and "log-likelihood, exact" in outcome.out
    assert json.loads((run / "evaluation.json").read_text())["epoch"] == 4
    outcome = command("evaluate", run)
    assert outcome.status == 2 and "expected --data NAME or FILE" in outcome.err
    assert command("report", run).status == 0  # without the rows
    assert "Receptive fields" in (run / "report.html").read_text()
    assert command("report", run, "--data", binary).status == 0
    assert "Sample quality" in (run / "report.html").read_text()
    assert command("interactions", run).status == 0


@pytest.mark.slow
@pytest.mark.whole_report
def test_the_shape_of_images_of_a_run_of_fit(binary, tmp_path, command) -> None:
    run = tmp_path / "run"
    fitted(binary, run)
    assert command("report", run, "--image", "2x3").status == 0
    assert "The weights of each hidden unit" in (run / "report.html").read_text()
    assert (run / "report.html").read_text().count('class="tiles"') == 2  # samples and weights
    assert command("report", run, "--data", binary, "--image", "2x3").status == 0
    assert (run / "report.html").read_text().count('class="tiles"') == 4  # also data and reconstructions
    outcome = command("report", run, "--image", "2x4")
    assert outcome.status == 2 and "with 6 values in total, found '2x4'" in outcome.err
    assert command("sample", run, "-n", 4, "--sweeps", 5, "--image", "2x3", "--out", tmp_path / "s.png").status == 0
    assert (tmp_path / "s.png").exists()


@pytest.mark.slow
def test_other_rows_are_rejected(binary, tmp_path, command) -> None:
    run, rows = tmp_path / "run", np.load(binary)
    fitted(binary, run, callbacks=[StopAfter(2)])
    np.save(tmp_path / "fewer.npy", rows[:50])
    outcome = command("resume", run, "--data", tmp_path / "fewer.npy")
    assert outcome.status == 2 and "expected the 60 rows of the run, found 50" in outcome.err
    np.save(tmp_path / "others.npy", rows[::-1] * (np.arange(6) > 0))
    outcome = command("resume", run, "--data", tmp_path / "others.npy")
    assert outcome.status == 2 and "have the mean" in outcome.err


def test_objects_without_a_name_are_continued_in_python(binary, tmp_path, command) -> None:
    run = tmp_path / "run"
    fitted(binary, run, callbacks=[StopAfter(2)], schedule=lambda clock: hm.training.Setting())
    outcome = command("resume", run, "--data", binary)
    assert outcome.status == 2 and "schedule: expected a value with a name, found an own object" in outcome.err
