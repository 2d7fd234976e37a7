"""Commands in processes of their own, killed at random moments, and pairs of them in one folder."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from counting import Counts, Deadline, timed
from forking import Forked, server

from harmonium import files
from harmonium.errors import HarmoniumError
from harmonium.training import Run

QUIET = ("-q", "--no-report")
STOPPED = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 130}


def start(*arguments: object) -> Forked:
    """Run a command that prints nothing in a new process."""
    return server().start(*arguments, *QUIET)


def stamp(run: Run) -> int:
    """The time of the newest checkpoint, also of the machines of a deep one."""
    found = 0
    for path in (run.last, *run.folder.glob("*/checkpoints/last.safetensors")):
        try:
            found = max(found, path.stat().st_mtime_ns)
        except FileNotFoundError:
            continue
    return found


def kill_after(
    process: Forked,
    begun: Callable[[], bool],
    stamp: Callable[[], int],
    checkpoints: int,
    share: float,
    number: int = signal.SIGKILL,
) -> bool:
    """Kill the process after a number of checkpoints, plus a fraction of the time between two.

    Returns whether it was still running.
    """
    while not begun() and process.running():
        time.sleep(0.002)
    seen, since, spent = stamp(), time.monotonic(), 0.0
    while checkpoints > 0 and process.running():
        time.sleep(0.002)
        if stamp() != seen:
            seen, checkpoints = stamp(), checkpoints - 1
            since, spent = time.monotonic(), time.monotonic() - since
    time.sleep(share * spent)
    process.signal(number)
    return process.wait().status in (STOPPED[signal.Signals(number)], -number)


def watched(run: Run) -> list[dict[str, float]]:
    """The metrics except times."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "samples_per_second")} for row in run.read_metrics()]


def rows_file(folder: Path, rows: int = 120, columns: int = 12) -> Path:
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
    epochs = 10 + 5 * number // (1 if len(kind) == 2 else 2)
    options = [rows_file(folder), *kind, "--epochs", epochs, "--batch-size", 20, "--validation", 0.2,
               "--optimizer", "adam", "--constraints", "average:0.5", "--threads", 1]  # fmt: skip
    whole, run = Run(folder / "whole"), Run(folder / "run")
    start("train", *options, "--run", whole.folder).wait()
    done = 0
    while done < number and not (done and Deadline.passed()):
        resumes = run.config_path.exists()
        words = ("resume", run.folder) if resumes else ("train", *options, "--run", run.folder)
        before = stamp(run)
        process = start(*words)
        when = moments.randint(0, 3), moments.random()
        signals = [signal.SIGKILL] * 4 + [moments.choice([signal.SIGTERM, signal.SIGINT])] * resumes
        sent = moments.choice(signals)
        stopped = kill_after(process, _begun(run, before if resumes else None), lambda: stamp(run), *when, sent)
        if stopped:
            counts.outcomes[signal.Signals(sent).name] += 1
            done += 1
        if process.wait().status == 0:  # finished before the kill
            break
        if not stopped or "Traceback" in process.err:
            counts.problem("unexpected end", f"{words}: {process.wait()}, {process.err}")
            break
        try:
            if run.last.exists():
                files.load(run.folder)
            run.read_metrics()
        except HarmoniumError as error:
            counts.problem("unreadable after a kill", error)
    last = start("resume", run.folder) if run.config_path.exists() else start("train", *options, "--run", run.folder)
    status = last.wait().status
    counts.tried += max(done, 1)
    same = status == 0 and whole.last.read_bytes() == run.last.read_bytes() and watched(whole) == watched(run)
    if not same or list(run.folder.rglob("*.tmp")) or list(run.folder.rglob(".lock")):
        counts.problem("not byte-identical", f"{folder}, {kind}, exit status {status}: {last.err}")
    else:
        counts.outcomes["runs byte-identical at the end"] += 1
        shutil.rmtree(folder)


def _begun(run: Run, before: int | None) -> Callable[[], bool]:
    """Whether there is a new checkpoint; a new training may be killed before its first."""
    return lambda: before is None or stamp(run) != before


# -- two at a time ----------------------------------------------------------------------------------------------------


def pairs(n: int, seed: int, folder: Path) -> Counts:
    """Start two writers of one folder at once, ``n`` times: exactly one may train."""
    counts = Counts("concurrent pairs")
    choice = random.Random(seed)
    rows = rows_file(folder)
    half = folder / "half"
    common = ["--batch-size", "20", "--hidden", "4", "--threads", "1"]
    with timed(counts):
        start("train", rows, "--epochs", 3, *common, "--run", half).wait()
        for k in range(n):
            if Deadline.passed():
                break
            run = folder / f"pair-{k}"
            kind = choice.choice(["train and train", "train and resume", "resume and resume"])
            train = [
                ["train", str(rows), *common, "--epochs", "15", "--seed", str(s), "--run", str(run), "--no-report"]
                for s in (1, 2)
            ]
            resume = ["resume", str(run), "--epochs", "15", "--no-report"]
            if kind == "resume and resume":
                shutil.copytree(half, run)
            words = {"train and train": train, "train and resume": [train[0], resume]}.get(kind, [resume, resume])
            _pair(counts, kind, words, run, choice.random() * 0.05)
            shutil.rmtree(run, ignore_errors=True)
    return counts


_REFUSALS = ("in use by another process", "already contains a run", "no such folder", "not a run folder")


def _pair(counts: Counts, kind: str, words: list[list[str]], run: Path, delay: float) -> None:
    processes = []
    for line in words:
        processes.append(server().start(*line))
        time.sleep(delay)
    found = [(process.wait().status, process.out + process.err) for process in processes]
    counts.tried += 1
    trained = [text for status, text in found if status == 0 and "nothing to resume" not in text]
    counts.outcomes[f"{kind}: {len(trained)} trained"] += 1
    if len(trained) > 1:
        counts.problem("both succeeded", f"{kind}: {found}")
    if any(status not in (0, 2) or "Traceback" in text for status, text in found):
        counts.problem("traceback", found)
    wrong = [text for status, text in found if status == 2 and not any(words in text for words in _REFUSALS)]
    if wrong:
        counts.problem("unclear refusal", wrong[0])
    if trained:
        state = Run(run).read_state()[1]
        if Run(run).read_config()["training"]["seed"] != state["of"]["seed"] or state["epoch"] != 15:
            counts.problem("mixed state", f"{kind}: {found}")
