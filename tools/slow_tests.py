"""List the tests that ``make test-fast`` leaves out because of their time, in ``tests/slow_tests.txt``.

    make durations                          # run all tests, then this script
    python tools/slow_tests.py FILE         # FILE: the output of pytest --durations=0 --durations-min=0.05 -vv

A test is slow if it takes more than ``MOST`` seconds. The first test of each file is kept, up to ``KEPT`` seconds, so
that every file has a fast test.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "tests" / "slow_tests.txt"
MOST, KEPT = 0.1, 1.0
_LINE = re.compile(r"^([\d.]+)s (?:call|setup|teardown) +(\S.*?)\s*$")


def seconds(lines: list[str]) -> dict[str, float]:
    """Return the seconds of each test, by its id.

    >>> seconds(["0.50s call     tests/a.py::b[c d]", "0.25s setup    tests/a.py::b[c d]", "other"])
    {'tests/a.py::b[c d]': 0.75}
    """
    found: dict[str, float] = defaultdict(float)
    for line in lines:
        if match := _LINE.match(line):
            found[match[2]] += float(match[1])
    return dict(found)


def slow(times: dict[str, float]) -> list[str]:
    """Return the ids of the slow tests, sorted.

    >>> slow({"a.py::x": 1.0, "a.py::y": 1.0, "b.py::x": 0.1})
    ['a.py::y']
    """
    found = []
    kept: set[str] = set()
    for name in sorted(times):
        file = name.split("::")[0]
        if times[name] <= MOST or (file not in kept and times[name] <= KEPT):
            kept.add(file)
        else:
            found.append(name)
    return found


def main() -> None:
    """Rewrite the list from the output of pytest."""
    times = seconds(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
    if not times:
        sys.exit(f"{sys.argv[1]}: expected the output of pytest --durations=0, found no durations")
    names = slow(times)
    LIST.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    left = sum(times.values()) - sum(times[name] for name in names)
    print(f"{len(names)} of {len(times)} tests are slow; the others take {left:.0f} s")


if __name__ == "__main__":
    main()
