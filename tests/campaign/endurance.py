"""A long training with flat memory and flat cost per epoch, and several processes of which one is killed."""

from __future__ import annotations

import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch
from counting import Counts, timed
from processes import rows_file

import harmonium as hm
from harmonium.training import Run


class _Watch(hm.Callback):
    """Records the CPU time and the memory at every epoch, and stops after some minutes."""

    def __init__(self, minutes: float) -> None:
        self.until = time.monotonic() + 60 * minutes
        self.cpu: list[float] = []
        self.memory: list[int] = []

    def on_epoch(self, progress: hm.training.Progress) -> None:
        self.cpu.append(time.process_time())
        self.memory.append(_resident())
        progress.stop = time.monotonic() > self.until


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def soak(minutes: float, seed: int, folder: Path) -> Counts:
    """Train for some minutes with a checkpoint after every epoch; compare the first and the last quarter of it."""
    counts = Counts(f"soak of {minutes:g} minutes")
    watch = _Watch(minutes)
    rows = (torch.rand(200, 20, generator=torch.Generator().manual_seed(seed)) < 0.4).float()
    with timed(counts), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"epochs": 10**7, "batch_size": 50, "metrics_every": 10, "seed": seed, "progress": False}
        hm.fit(hm.RBM(20, 10), rows, run=folder / "soak", callbacks=[watch], **options)
    counts.tried = len(watch.cpu)
    quarter = max(2, len(watch.cpu) // 4)
    spent = [b - a for a, b in zip(watch.cpu, watch.cpu[1:], strict=False)]
    first, last = (statistics.fmean(part) * 1e3 for part in (spent[1:quarter], spent[-quarter:]))
    early, late = (
        statistics.median(part) / 2**20 for part in (watch.memory[quarter // 2 : quarter], watch.memory[-quarter:])
    )
    counts.outcomes[
        f"ms per epoch, from {first:.2f} to {last:.2f}; memory from {early:.1f} to {late:.1f} MB; epochs"
    ] = counts.tried
    if len(watch.cpu) > 40 and last > 1.3 * first + 0.5:
        counts.problem("cost per epoch grows", f"{first} to {last} ms")
    if late > early + 8 + 0.001 * counts.tried:  # the history itself has a few hundred bytes per epoch
        counts.problem("memory grows", f"{early} to {late} MB")
    if len(Run(folder / "soak").read_metrics()) != counts.tried:
        counts.problem("metrics are incomplete", counts.tried)
    return counts


def killed_ranks(n: int, seed: int, folder: Path) -> Counts:
    """Train with two processes under ``torchrun``, kill the second, and resume: the same bytes as without a kill."""
    counts = Counts("torchrun with a killed rank")
    rows = rows_file(folder)
    options = ["--hidden", "5", "--batch-size", "10", "--threads", "1", "--no-report", "-q"]
    with timed(counts):
        whole = Run(folder / "whole")
        _torchrun("train", str(rows), *options, "--epochs", "40", "--run", str(whole.folder)).wait()
        for k in range(n):
            run = Run(folder / f"ranks-{k}")
            process = _torchrun("train", str(rows), *options, "--epochs", "40", "--run", str(run.folder))
            while not run.last.exists() and process.poll() is None:
                time.sleep(0.01)
            victims = _workers(process.pid)
            if len(victims) == 2 and process.poll() is None:
                os.kill(victims[1], signal.SIGKILL)
            _, err = process.communicate(timeout=180)
            counts.tried += 1
            counts.outcomes[f"status {process.returncode}"] += 1
            if process.returncode == 0:
                continue  # finished before the kill
            own = re.sub(r"(?s)E\d{4} .*|W\d{4} .*", "", err)  # what torchrun itself prints
            if "Traceback" in own.split("torch.distributed.elastic")[0]:
                counts.problem("traceback", own[:400])
            _torchrun("resume", str(run.folder), "--no-report", "-q").wait()
            if run.last.read_bytes() != whole.last.read_bytes():
                counts.problem("not byte-identical", run.folder)
    return counts


def _torchrun(*words: str) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # without "--", torchrun takes --run for an abbreviation of its own option --run-path
    return subprocess.Popen(
        [*launcher, "-m", "--", "harmonium", *words], stderr=subprocess.PIPE, text=True, env=environment
    )


def _workers(launcher: int) -> list[int]:
    """The processes that a process has started, oldest first."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(launcher)], capture_output=True, text=True, check=False)
    return sorted(map(int, found.stdout.split()))
