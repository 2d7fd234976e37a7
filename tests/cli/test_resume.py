"""kill -9 at random moments: resuming ends, to the bit, where the run that was never stopped ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from harmonium import files
from harmonium.training import Run

KILLS = int(os.environ.get("HARMONIUM_KILLS", "6"))
EPOCHS = 60 + 60 * KILLS


def start(*arguments: object) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "harmonium", *map(str, arguments), "-q", "--no-report"]
    return subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": "1"})


def stamp(run: Run) -> int:
    return run.last.stat().st_mtime_ns if run.last.exists() else 0


def kill_after(process: subprocess.Popen[bytes], begun, delay: float) -> bool:
    """Kill the process ``delay`` seconds after it has begun to write; whether it was still at work."""
    while not begun() and process.poll() is None:
        time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def watched(run: Run) -> list[dict[str, float]]:
    """The metrics but for those that tell the time."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "samples_per_second")} for row in run.read_metrics()]


def test_killed_runs_end_where_the_whole_one_ends(tmp_path: Path, command) -> None:
    rows = (np.random.default_rng(0).random((300, 12)) < 0.4).astype(np.uint8)
    np.save(tmp_path / "rows.npy", rows)
    options = [tmp_path / "rows.npy", "--hidden", "bernoulli:6", "--epochs", EPOCHS, "--batch-size", 20,
               "--validation", 0.2, "--optimizer", "adam", "--average", 0.5, "--threads", 1]  # fmt: skip
    whole, run = Run(tmp_path / "whole"), Run(tmp_path / "run")
    assert command("train", *options, "--run", whole.folder, "-q", "--no-report").status == 0

    moments = random.Random(0)
    killed = 0
    process = start("train", *options, "--run", run.folder)
    killed += kill_after(process, run.folder.exists, 0.0)  # as early as can be, maybe before the first checkpoint
    for _ in range(KILLS - 1):
        if run.config_path.exists():
            shown = command("info", run.folder)  # never an unreadable run folder
            assert shown.status == 0, shown.err
            process = start("resume", run.folder)
        else:
            assert command("resume", run.folder).status == 2
            process = start("train", *options, "--run", run.folder)
        before = stamp(run)
        killed += kill_after(process, lambda before=before: stamp(run) != before, moments.uniform(0.0, 0.25))
    assert killed >= KILLS - 1, "too few kills met the run at work"
    resumed = command("resume", run.folder, "-q", "--no-report")
    assert resumed.status == 0, resumed.err

    expected, found = files.read_tensors(whole.last)[0], files.read_tensors(run.last)[0]
    assert expected.keys() == found.keys()
    for name in expected:
        assert torch.equal(expected[name], found[name]), name
    assert whole.last.read_bytes() == run.last.read_bytes()
    assert watched(whole) == watched(run) and len(watched(run)) == EPOCHS
    assert [epoch for epoch, _ in whole.trajectory()] == [epoch for epoch, _ in run.trajectory()]
    assert not list(run.folder.rglob("*.tmp"))
