"""A long training with flat memory and flat cost per epoch, and two processes of which one is killed."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch
from counting import Counts, timed
from forking import server
from processes import QUIET, rows_file, stamp

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
        options = {"epochs": 10**7, "batch_size": 50, "seed": seed, "progress": False}
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


def killed_ranks(n: int, seed: int, folder: Path, start: Start | None = None) -> Counts:
    """Train with two processes, kill the second, and resume: the same bytes as without a kill.

    The processes are started by ``torchrun``, or by ``start``.
    """
    counts = Counts("torchrun with a killed rank")
    start = start or torchrun
    rows = rows_file(folder)
    options = ["--hidden", "5", "--batch-size", "10", "--threads", "1", "--epochs", "12", *QUIET]
    moments = random.Random(seed)
    with timed(counts):
        whole = Run(folder / "whole")
        start("train", rows, *options, "--run", whole.folder).wait()
        for k in range(n):
            run = Run(folder / f"ranks-{k}")
            both = start("train", rows, *options, "--run", run.folder)
            wanted, seen, last = moments.randint(1, 3), 0, 0
            while seen < wanted and both.running():
                time.sleep(0.002)
                if stamp(run) != last:
                    last, seen = stamp(run), seen + 1
            both.kill_second()
            status, err = both.wait()
            counts.tried += 1
            counts.outcomes[f"status {status}"] += 1
            if status == 0:
                continue  # finished before the kill
            own = re.sub(r"(?s)E\d{4} .*|W\d{4} .*", "", err)  # what torchrun itself prints
            if "Traceback" in own.split("torch.distributed.elastic")[0]:
                counts.problem("traceback", own[:400])
            start("resume", run.folder, *QUIET).wait()
            if run.last.read_bytes() != whole.last.read_bytes():
                counts.problem("not byte-identical", run.folder)
    return counts


class Ranks(Protocol):
    """Two processes of one training."""

    def running(self) -> bool:
        """Whether they run."""

    def kill_second(self) -> None:
        """Kill the second one."""

    def wait(self) -> tuple[int, str]:
        """Wait for their end, and return the status and the messages of the first."""


Start = Callable[..., Ranks]


class torchrun:
    """Two processes that ``torchrun`` starts."""

    def __init__(self, *words: object) -> None:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        # without "--", torchrun takes --run for an abbreviation of its own option --run-path
        command = [*launcher, "-m", "--", "harmonium", *map(str, words)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)

    def running(self) -> bool:
        return self.process.poll() is None

    def kill_second(self) -> None:
        listed = ["ps", "-o", "pid=", "--ppid", str(self.process.pid)]
        found = subprocess.run(listed, capture_output=True, text=True, check=False)
        victims = sorted(map(int, found.stdout.split()))
        if len(victims) == 2 and self.running():
            os.kill(victims[1], signal.SIGKILL)

    def wait(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=900)
        return self.process.returncode, err


class forked:
    """Two processes with the environment that ``torchrun`` gives them, without the cost of its imports."""

    def __init__(self, *words: object) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        self.processes = [
            server().start(*words, environment={**common, "RANK": str(k), "LOCAL_RANK": str(k)}) for k in range(2)
        ]

    def running(self) -> bool:
        return self.processes[0].running()

    def kill_second(self) -> None:
        self.processes[1].signal(signal.SIGKILL)

    def wait(self) -> tuple[int, str]:
        for process in self.processes:
            process.wait()
        return self.processes[0].wait().status, self.processes[0].err
