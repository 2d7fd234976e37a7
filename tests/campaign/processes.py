"""Commands in processes of their own, killed at random moments, and pairs of them in one folder."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
from counting import Counts, Deadline, timed

from harmonium import files
from harmonium.cli import main
from harmonium.errors import HarmoniumError
from harmonium.training import Run

#: every command runs in its own process, forked from a server that has imported the library once
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["harmonium.cli", "harmonium.cli.app", "harmonium.cli.running"])
QUIET = ("-q", "--no-report")


def start(*arguments: object) -> BaseProcess:
    """Run a command that prints nothing in a new process."""
    process = FORKS.Process(target=main, args=([*map(str, arguments), *QUIET],))
    process.start()
    return process


def stamp(run: Run) -> int:
    """The time of the newest checkpoint, also of the machines of a deep one."""
    found = 0
    for path in run.folder.rglob("last.safetensors"):
        found = max(found, path.stat().st_mtime_ns)
    return found


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


def rows_file(folder: Path, rows: int = 300, columns: int = 12) -> Path:
    """A file of random binary rows."""
    path = folder / "rows.npy"
    np.save(path, (np.random.default_rng(0).random((rows, columns)) < 0.4).astype(np.uint8))
    return path


def kills(n: int, seed: int, folder: Path, per_run: int = 10) -> Counts:
    """Kill training ``n`` times in all, each run several times; compare with whole runs, byte by byte."""
    counts = Counts("kills")
    moments = random.Random(seed)
    with timed(counts):
        while counts.tried < n and not Deadline.passed():
            number = min(per_run, n - counts.tried)
            _killed_run(counts, moments, number, folder / f"kills-{counts.tried}")
    return counts


def _killed_run(counts: Counts, moments: random.Random, number: int, folder: Path) -> None:
    folder.mkdir()
    kind = moments.choice([("--hidden", "6"), ("--hidden", "6", "--hidden", "4"),
                           ("--machine", "dbn", "--hidden", "6", "--hidden", "4")])  # fmt: skip
    epochs = 10 + 6 * number // (1 if len(kind) == 2 else 2)
    options = [rows_file(folder), *kind, "--epochs", epochs, "--batch-size", 20, "--validation", 0.2,
               "--optimizer", "adam", "--average", 0.5, "--threads", 1]  # fmt: skip
    whole, run = Run(folder / "whole"), Run(folder / "run")
    reference = start("train", *options, "--run", whole.folder)
    reference.join()
    done = 0
    while done < number and not (done and Deadline.passed()):
        resumes = run.config_path.exists()
        words = ("resume", run.folder) if resumes else ("train", *options, "--run", run.folder)
        process, before = start(*words), stamp(run)
        soft = resumes and moments.random() < 0.2
        when = moments.randint(0, 3), moments.random()
        if soft:
            if _interrupted(process, moments):
                counts.outcomes["stopped by a signal"] += 1
                done += 1
        elif kill_after(process, _begun(run, before if resumes else None), lambda: stamp(run), *when):
            counts.outcomes["killed"] += 1
            done += 1
        if process.exitcode == 0:  # finished before the kill
            break
        try:
            if run.last.exists():
                files.load(run.folder)
            run.read_metrics()
        except HarmoniumError as error:
            counts.problem("unreadable after a kill", error)
    last = start("resume", run.folder) if run.config_path.exists() else start("train", *options, "--run", run.folder)
    last.join()
    counts.tried += max(done, 1)
    same = last.exitcode == 0 and whole.last.read_bytes() == run.last.read_bytes() and watched(whole) == watched(run)
    if not same or list(run.folder.rglob("*.tmp")) or list(run.folder.rglob(".lock")):
        counts.problem("not byte-identical", f"{folder}, {kind}, exit code {last.exitcode}")
    else:
        counts.outcomes["runs byte-identical at the end"] += 1
        shutil.rmtree(folder)


def _begun(run: Run, before: int | None) -> Callable[[], bool]:
    """Whether there is a new checkpoint; a new training may be killed before its first."""
    return lambda: before is None or stamp(run) != before


def _interrupted(process: BaseProcess, moments: random.Random) -> bool:
    """Send SIGTERM or SIGINT at a random moment; return whether the process stopped because of it."""
    time.sleep(0.05 + moments.random() * 0.3)
    number = moments.choice([signal.SIGTERM, signal.SIGINT])
    if process.pid is not None and process.is_alive():
        os.kill(process.pid, number)
    process.join()
    return process.exitcode in (130, 143, -signal.SIGTERM, -signal.SIGINT)


# -- two at a time ----------------------------------------------------------------------------------------------------


def _reported(words: Sequence[str], results: Any, key: int) -> None:
    """Run a command with its output captured, and report its status and output."""
    shown = io.StringIO()
    status: Any = 0
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            main(list(words))
    except SystemExit as end:
        status = end.code or 0
    results.put((key, status, shown.getvalue()))
    sys.exit(0)


def pairs(n: int, seed: int, folder: Path) -> Counts:
    """Start two writers of one folder at once, ``n`` times: exactly one may train."""
    counts = Counts("concurrent pairs")
    choice = random.Random(seed)
    rows = rows_file(folder)
    half = folder / "half"
    common = ["--epochs", "30", "--batch-size", "20", "--hidden", "4", "--threads", "1", "--no-report"]
    with timed(counts):
        start("train", rows, "--epochs", 3, "--batch-size", 20, "--hidden", 4, "--threads", 1, "--run", half).join()
        for k in range(n):
            if Deadline.passed():
                break
            run = folder / f"pair-{k}"
            kind = choice.choice(["train and train", "train and resume", "resume and resume"])
            train = [["train", str(rows), *common, "--seed", str(s), "--run", str(run)] for s in (1, 2)]
            resume = ["resume", str(run), "--epochs", "30", "--no-report"]
            if kind == "resume and resume":
                shutil.copytree(half, run)
            words = {"train and train": train, "train and resume": [train[0], resume]}.get(kind, [resume, resume])
            _pair(counts, kind, words, run, choice.random() * 0.05)
            shutil.rmtree(run, ignore_errors=True)
    return counts


_REFUSALS = ("in use by process", "already contains a run", "no such folder", "not a run folder")


def _pair(counts: Counts, kind: str, words: list[list[str]], run: Path, delay: float) -> None:
    results = FORKS.Queue()
    processes = [FORKS.Process(target=_reported, args=(w, results, k)) for k, w in enumerate(words)]
    for process in processes:
        process.start()
        time.sleep(delay)
    found = {key: (status, text) for key, status, text in (results.get(timeout=300) for _ in processes)}
    for process in processes:
        process.join()
    counts.tried += 1
    trained = [k for k, (status, text) in found.items() if status == 0 and "nothing to resume" not in text]
    refused = [text for status, text in found.values() if status == 2]
    counts.outcomes[f"{kind}: {len(trained)} trained"] += 1
    if len(trained) > 1:
        counts.problem("both succeeded", f"{kind}: {found}")
    if any("Traceback" in text for _, text in found.values()):
        counts.problem("traceback", found)
    wrong = [text for text in refused if not any(words in text for words in _REFUSALS)]
    if wrong:
        counts.problem("unclear refusal", wrong[0])
    if trained:
        state = Run(run).read_state()[1]
        if Run(run).read_config()["training"]["seed"] != state["of"]["seed"] or state["epoch"] != 30:
            counts.problem("mixed state", f"{kind}: {found}")
