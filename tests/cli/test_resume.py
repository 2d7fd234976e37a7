"""After kill -9 at random moments, a resumed run ends bit-for-bit like an uninterrupted one."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import torch

from harmonium import files
from harmonium.cli import main
from harmonium.training import Run

KILLS = int(os.environ.get("HARMONIUM_KILLS", "6"))
EPOCHS = 20 + 20 * KILLS
MACHINES = {
    "rbm": ("--hidden", "bernoulli:6", "--epochs", EPOCHS),
    "dbm": ("--hidden", 6, "--hidden", 4, "--epochs", EPOCHS // 3),
    "dbn": ("--machine", "dbn", "--hidden", 6, "--hidden", 4, "--epochs", EPOCHS // 3),
}


#: every command runs in its own process, forked from a server that has imported the library once
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["harmonium.cli"])


def start(*arguments: object) -> BaseProcess:
    process = FORKS.Process(target=main, args=([*map(str, arguments), "-q", "--no-report"],))
    process.start()
    return process


def stamp(run: Run) -> int:
    """The time of the newest checkpoint, also of the machines of a deep one."""
    return max((path.stat().st_mtime_ns for path in run.folder.rglob("last.safetensors")), default=0)


def kill_after(
    process: BaseProcess, begun: Callable[[], bool], stamp: Callable[[], int], checkpoints: int, share: float
) -> bool:
    """Kill the process after a number of checkpoints, plus a fraction of the time between two.

    Returns whether it was still running.
    """
    while not begun() and process.is_alive():
        time.sleep(0.001)
    seen, since, spent = stamp(), time.monotonic(), 0.0
    while checkpoints > 0 and process.is_alive():
        time.sleep(0.001)
        if stamp() != seen:
            seen, checkpoints = stamp(), checkpoints - 1
            since, spent = time.monotonic(), time.monotonic() - since
    time.sleep(share * spent)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def watched(run: Run) -> list[dict[str, float]]:
    """The metrics except times."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "samples_per_second")} for row in run.read_metrics()]


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_killed_runs_end_where_the_whole_one_ends(machine: str, tmp_path: Path, command) -> None:
    rows = (np.random.default_rng(0).random((300, 12)) < 0.4).astype(np.uint8)
    np.save(tmp_path / "rows.npy", rows)
    options = [tmp_path / "rows.npy", *MACHINES[machine], "--batch-size", 20,
               "--validation", 0.2, "--optimizer", "adam", "--average", 0.5, "--threads", 1]  # fmt: skip
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
        when = moments.randint(1, 8), moments.random()
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
