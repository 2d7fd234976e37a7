"""The long form of the campaign: ``make campaign``, or ``python tests/campaign/run.py --kills 200 --seed 0``.

Prints a table of counts, and an example of every kind of problem; the status is 1 if there are problems.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

from counting import Counts, limit_memory
from endurance import killed_ranks, soak
from fuzzing import calls, commands
from mutations import mutations
from processes import kills, pairs

PARTS: dict[str, tuple[Callable[..., Counts], float]] = {
    "kills": (kills, 200),
    "pairs": (pairs, 100),
    "mutations": (mutations, 10_000),
    "commands": (commands, 10_000),
    "calls": (calls, 10_000),
    "ranks": (killed_ranks, 5),
    "soak": (soak, 30),
}


def main() -> int:
    """Run the parts that are asked for; all of them by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, (_, most) in PARTS.items():
        parser.add_argument(f"--{name}", type=float, metavar="N", help=f"number of cases; {most:g} by default")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chosen = {name: getattr(given, name) for name in PARTS if getattr(given, name) is not None}
    limit_memory(8 * 2**30)
    found = []
    for name, n in (chosen or {name: most for name, (_, most) in PARTS.items()}).items():
        with tempfile.TemporaryDirectory() as folder:
            part = PARTS[name][0](n if name == "soak" else int(n), given.seed, Path(folder))
        found.append(part)
        print(part.row(), flush=True)
    print("\n| part | cases | outcomes | problems | CPU seconds |\n|---|---:|---|---|---:|")
    for part in found:
        print(part.row())
    for part in found:
        for kind, example in part.examples.items():
            print(f"\n{part.name}, {kind}: {example}")
    return int(any(part.problems for part in found))


if __name__ == "__main__":
    sys.exit(main())
