"""Run folders of ``hm.fit`` and the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from harmonium.training.arguments import Arguments

import harmonium as hm
from harmonium.training import recorded, specs
from harmonium.training.loop import Training

pytestmark = pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")


class StopAfter(hm.Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, progress) -> None:
        progress.stop = progress.epoch == self.epoch


def fitted(binary: Path, folder: Path | None, **options) -> hm.RBM:
    rbm = hm.RBM(6, 3)
    hm.fit(rbm, np.load(binary), epochs=4, batch_size=20, progress=False, run=folder, **options)
    return rbm


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
    assert outcome.status == 2 and "found own objects for schedule" in outcome.err


PHASES = [
    *("cd:3", "pcd:2", "reconstruction", "exact", "parallel-tempering:1,rungs=5", "trajectory-tempering:1"),
    *("langevin:5", "gibbs-langevin:2", "mean-field:3,method=naive", "discriminative", "discriminative+0.1*cd:1"),
    *("deep-pcd:2,iterations=3", "unbiased-cd:2,limit=50", "parallel-tempering:1,rungs=5,adapt=true"),
]


@pytest.mark.parametrize("text", PHASES)
def test_phases_are_made_again_from_their_configuration(text) -> None:
    assert {specs.split(text)[0] for text in PHASES if "+" not in text} == set(specs.NEGATIVES)
    phase = specs.negative_phase(text)
    again = recorded.arguments({"training": {"schedule": "constant"}, "negative": phase.config()}, "run")["negative"]
    assert type(again) is type(phase) and again.config() == phase.config()


def test_transforms_are_made_again_from_their_configuration() -> None:
    chosen = [hm.L1(0.1), hm.L2(0.2), hm.L1Squared(0.3), hm.L2ToMean(0.4), hm.Centered(0.02)]
    chosen += [hm.Smooth(0.5, (2, 2), every=5), hm.Clip(2.0), hm.ZeroSum(), hm.Average(0.2, every=3)]
    tables = {"training": {"schedule": "constant"}, "negative": {"method": "exact"}}
    found = recorded.arguments({**tables, "transforms": [part.config() for part in chosen]}, "run")["transforms"]
    assert [(type(part), part.config()) for part in found] == [(type(part), part.config()) for part in chosen]


@pytest.mark.parametrize("given, name", [(hm.Linear(0.25), "linear:0.25"), (hm.Growing(5), "growing:5")])
def test_schedules_have_names(given, name) -> None:
    training = Training(Arguments.of(hm.RBM(2, 1), torch.eye(2), schedule=given))
    tables = recorded.recorded(Arguments.of(hm.RBM(2, 1), torch.eye(2), schedule=given), hm.PCD(1), [], training.source)
    assert tables["training"]["schedule"] == name and specs.schedule(name) == given
