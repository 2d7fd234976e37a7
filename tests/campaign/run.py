"""The long form of the campaign: ``make campaign``, or ``python tests/campaign/run.py --kills 200 --seed 0``.

Prints a table of counts, and an example of every kind of problem; the status is 1 if there are problems. A long part
can be run in pieces with different seeds, ``--commands 1000 --seed 3 --results FILE``: the file collects the counts of
all pieces, a piece that it has is not run again, and the table shows the sums.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

#: module, function and number of cases of each part; imported when they run, because every child imports this file
PARTS = {
    "kills": ("processes", "kills", 200),
    "pairs": ("processes", "pairs", 100),
    "commands": ("commands", "commands", 10_000),
    "calls": ("calls", "calls", 10_000),
    "ranks": ("endurance", "killed_ranks", 5),
    "soak": ("endurance", "soak", 30),
}


def main() -> int:
    """Run the parts that are asked for; all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, (*_, most) in PARTS.items():
        parser.add_argument(f"--{name}", type=float, metavar="N", help=f"number of cases; {most:g} by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="start no case of kills, pairs and commands after this time")
    parser.add_argument("--results", type=Path, metavar="FILE", help="collect the counts of all pieces in this file")
    given = parser.parse_args()
    chosen = {name: getattr(given, name) for name in PARTS if getattr(given, name) is not None}
    counting = importlib.import_module("counting")
    counting.limit_memory(8 * 2**30)
    found = counting.Collected.read(given.results)
    for name, n in (chosen or {name: most for name, (*_, most) in PARTS.items()}).items():
        if found.has(name, given.seed):
            continue
        module, function, _ = PARTS[name]
        run = getattr(importlib.import_module(module), function)
        if given.minutes is not None:
            counting.Deadline.at = time.monotonic() + 60 * given.minutes
        with tempfile.TemporaryDirectory() as folder:
            part = run(n if name == "soak" else int(n), given.seed, Path(folder))
        found.add(name, given.seed, part)
        print(part.row(), flush=True)
    print("\n| part | cases | outcomes | problems | CPU seconds |\n|---|---:|---|---|---:|")
    for part in found.sums():
        print(part.row())
    for part in found.sums():
        for kind, example in part.examples.items():
            print(f"\n{part.name}, {kind}: {example}")
    return int(any(part.problems for part in found.sums()))


if __name__ == "__main__":
    sys.exit(main())
