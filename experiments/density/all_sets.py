"""Test log-likelihoods of RBMs on fourteen binary data sets, from both sides, as one table.

See ``density/NAME`` for one set. Every set has a folder of its own in that of this experiment, and ``jobs`` of them run
at once, each with one thread. A stopped run continues with what is not finished.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harmonium import data
from harmonium.errors import RunError

from ..record import Record
from .tested import claims, report

#: the most expensive first, so that no long one is left at the end
SETS = (
    *("binarized-mnist", "caltech-silhouettes", "nips", "ocr-letters", "pumsb-star", "accidents", "adult"),
    *("bnetflix", "baudio", "jester", "plants", "dna", "mushrooms", "nltcs"),
)
_LOG = "log.txt"
_POLL = 0.2  # seconds between looks at the running sets


def run(
    record: Record, scale: str, updates: int = 0, betas: int = 0, seeds: int = 0, seed: int = 0, jobs: int = 2
) -> None:
    """Run every data set that is available, ``jobs`` at once; the other options are those of ``density/NAME``."""
    options: dict[str, Any] = {"updates": updates, "betas": betas, "seeds": seeds, "seed": seed}
    names = [name for name in SETS if data.status(name) != "missing"]
    for name in SETS:
        if name not in names:
            record.say(f"{name}: not found, left out")
    todo = [name for name in names if not (record.folder / name / "verdict.json").exists()]
    for name in _finished(record, scale, todo, options, jobs):
        record.say(f"{name}: finished")
    table: list[dict[str, Any]] = []
    for name in names:
        numbers = json.loads((record.folder / name / "verdict.json").read_text(encoding="utf-8"))["numbers"]
        for title, row in numbers.items():
            if isinstance(row, dict):
                claims(record, title, row)
                table.append({"set": title, **row})
    record.table("density", table)


def _finished(record: Record, scale: str, names: list[str], options: dict[str, Any], jobs: int) -> Iterator[str]:
    """Run the sets, and yield their names as they finish: in this process, or in other ones with one thread each."""
    if jobs < 2:
        for name in names:
            part = Record(f"density/{name}", scale, record.folder / name)
            report(part, scale, **options)
            part.close()
            yield name
        return
    queue, running = list(names), dict[str, subprocess.Popen[bytes]]()
    try:
        while queue or running:
            while queue and len(running) < jobs:
                name = queue.pop(0)
                running[name] = _started(record.folder / name, name, scale, options)
            time.sleep(_POLL)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                status = running.pop(name).returncode
                if status:
                    raise RunError(f"density/{name}: stopped with status {status}; see {record.folder / name / _LOG}")
                yield name
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def _started(folder: Path, name: str, scale: str, options: dict[str, Any]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "experiments", f"density/{name}", "--scale", scale, "--run", str(folder.resolve())]
    command += [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(part for part in sys.path if part)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOG).open("ab") as log:
        root = Path(__file__).parents[2]
        return subprocess.Popen(command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
