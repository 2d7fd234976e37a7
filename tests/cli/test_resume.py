"""After kill -9 at random moments, a resumed run ends bit-for-bit like an uninterrupted one."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import kill_after, stamp, start, watched

from harmonium import files
from harmonium.training import Run

KILLS = int(os.environ.get("HARMONIUM_KILLS", "3"))
EPOCHS = 12 + 8 * KILLS
MACHINES = {
    "rbm": ("--hidden", "bernoulli:6", "--epochs", EPOCHS),
    "dbm": ("--hidden", 6, "--hidden", 4, "--epochs", EPOCHS // 3),
    "dbn": ("--machine", "dbn", "--hidden", 6, "--hidden", 4, "--pretrain", EPOCHS // 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_killed_runs_end_where_the_whole_one_ends(machine: str, tmp_path: Path, command) -> None:
    rows = (np.random.default_rng(0).random((120, 12)) < 0.4).astype(np.uint8)
    np.save(tmp_path / "rows.npy", rows)
    options = [tmp_path / "rows.npy", *MACHINES[machine], "--batch-size", 20,
               "--validation", 0.2, "--optimizer", "adam", "--constraints", "average:0.5", "--threads", 1]  # fmt: skip
    whole, run = Run(tmp_path / "whole"), Run(tmp_path / "run")
    assert command("train", *options, "--run", whole.folder, "-q", "--no-report").status == 0

    moments = random.Random(0)
    killed = 0
    process = start("train", *options, "--run", run.folder)
    killed += kill_after(
        process, run.folder.exists, lambda: stamp(run), 0, 0.0
    )  # as early as possible, maybe before the first checkpoint
    for _ in range(KILLS - 1):
        if run.config_path.exists():
            shown = command("info", run.folder)  # never an unreadable run folder
            assert shown.status == 0, shown.err
            process = start("resume", run.folder)
        else:
            assert command("resume", run.folder).status == 2
            process = start("train", *options, "--run", run.folder)
        before = stamp(run)
        when = moments.randint(1, 4), moments.random()
        killed += kill_after(process, lambda before=before: stamp(run) != before, lambda: stamp(run), *when)
    assert killed >= KILLS - 1, "too few kills hit a running process"
    resumed = command("resume", run.folder, "-q", "--no-report")
    assert resumed.status == 0, resumed.err

    expected, found = files.read_tensors(whole.last)[0], files.read_tensors(run.last)[0]
    assert expected.keys() == found.keys()
    for name in expected:
        assert torch.equal(expected[name], found[name]), name
    assert whole.last.read_bytes() == run.last.read_bytes()
    assert watched(whole) == watched(run) and len(watched(run)) == MACHINES[machine][-1]
    assert [epoch for epoch, _ in whole.trajectory()] == [epoch for epoch, _ in run.trajectory()]
    assert not list(run.folder.rglob("*.tmp"))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("k = 1", "k = 50", r"training\.negative .*'k': 50.* \(was .*'k': 1"),
        ("batch_size = 20", "batch_size = 7", r"training\.batch_size 7 \(was 20\)"),
        ('dtype = "float32"', 'dtype = "float64"', r"machine\.dtype float64 \(was float32\)"),
        ('learning_rate = "auto"', "learning_rate = 5.0", r"training\.learning_rate 5\.0 \(was auto\)"),
        ("centered = 0.01", "centered = false", r"training\.centered False \(was 0\.01\)"),
    ],
)
def test_an_edited_configuration_is_rejected(old: str, new: str, found: str, tmp_path: Path, command) -> None:
    np.save(tmp_path / "rows.npy", (np.random.default_rng(0).random((60, 6)) < 0.4).astype(np.uint8))
    run = Run(tmp_path / "run")
    options = ["--hidden", 2, "--negative", "pcd:1", "--optimizer", "sgd", "--epochs", 1, "--batch-size", 20]
    options += ["--run", run.folder, "-q", "--no-report"]
    assert command("train", tmp_path / "rows.npy", *options).status == 0
    text, checkpoint = run.config_path.read_text(), run.last.read_bytes()
    assert old in text
    run.config_path.write_text(text.replace(old, new))
    done = command("resume", run.folder, "--epochs", 2, "-q", "--no-report")
    assert done.status == 2 and re.search(f"expected those with which the run began, found {found}", done.err)
    assert run.last.read_bytes() == checkpoint
    run.config_path.write_text(text)
    assert command("resume", run.folder, "--epochs", 2, "-q", "--no-report").status == 0
