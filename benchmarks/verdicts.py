"""Verdicts and intervals of every estimator of ln Z, compared with enumeration, for machines of 30 kinds and deep ones.

    python benchmarks/adversarial.py --only verdicts                                  # 756 machines, short settings
    python benchmarks/adversarial.py --only verdicts --seeds 6 --settings default     # in pieces: --seeds 7-9, …

The results of each machine are a line of ``results/verdicts_SETTINGS.csv``, so a run can be stopped and continued, and
the tables are those of all machines in the file. Seeds from 1000 on and 0 to 5 were used to choose the checks.
"""

from __future__ import annotations

import csv
import math
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harmonium as hm
from common import RESULTS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "likelihood"))
from phase_machines import DEEP, PHASES, make, rows

WRONG = 0.5  # nats
#: arguments of estimate, tempered and population annealing
SETTINGS: dict[str, tuple[dict[str, int], dict[str, int], dict[str, int]]] = {
    "short": ({"betas": 500, "sampling_sweeps": 100}, {"sweeps": 200}, {"n": 1000}),
    "default": ({}, {}, {}),
}
METHODS = {
    "estimate": "`estimate`",
    "tempered": "`tempering(start=data)`",
    "alone": "`tempering()`",
    "population": "`population`",
}
SEEDS = range(6, 27)  # of a full run
_DEVELOPMENT = 1000  # the first of the seeds on which the checks were chosen
_SHOWN = 10  # machines between lines of progress
GROUPS = {"": PHASES, "deep machines, ": DEEP}  # with a table each
Results = Mapping[str, dict[str, dict[str, Any]]]  # numbers of every method, by KIND:SEED


def measured(kind: str, seed: int, settings: str) -> dict[str, Any]:
    """Return the results of every estimator for one machine; all values of ln Z are relative to the true one."""
    machine = make(kind, seed)
    truth, data = machine.log_partition(), rows(machine, seed)
    two_sided, chains, states = SETTINGS[settings]
    found: dict[str, Any] = {}

    def add(name: str, value: float, interval: tuple[float, float], problems: Sequence[str], began: float) -> None:
        low, high = (end - truth for end in interval)
        words = "; ".join(problem[:40] for problem in problems)
        seconds = time.process_time() - began
        found[name] = {"error": value - truth, "low": low, "high": high, "seconds": seconds, "problems": words}

    began = time.process_time()
    one = hm.likelihood.estimate(machine, data, seed=seed + 500, **two_sided).log_partition
    add("estimate", one.value, one.interval, one.problems, began)
    for name, start in (("tempered", data), ("alone", None)):
        began = time.process_time()
        other = hm.likelihood.tempering(machine, start=start, seed=seed + 600, **chains)
        add(name, other.value, other.interval, other.problems, began)
    began = time.process_time()
    population = hm.likelihood.population(machine, seed=seed + 700, **states)
    interval = population.details["conditional_interval"]
    add("population", population.value, interval, population.problems, began)
    found["population"]["standard_error"] = population.standard_error
    tap = hm.likelihood.tap(machine, data, combine="log-sum-exp", check=False)
    found["tap"] = {"error": tap.value - truth, "converged": tap.trustworthy, "spread": tap.details["spread"]}
    return found


def run(seeds: Sequence[int], settings: str) -> Results:
    """Measure the machines of all kinds that are not in the results file; return all results in the file."""
    path = RESULTS / f"verdicts_{settings}{'_development' if seeds[0] >= _DEVELOPMENT else ''}.csv"
    done = read(path)
    left = [(kind, seed) for seed in seeds for kind in (*PHASES, *DEEP) if f"{kind}:{seed}" not in done]
    for number, (kind, seed) in enumerate(left, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            append(path, kind, seed, measured(kind, seed, settings))
        if number % _SHOWN == 0 or number == len(left):
            print(f"  {number}/{len(left)} {kind} {seed}", flush=True)
    return read(path)


def append(path: Path, kind: str, seed: int, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Add the line of one machine to the results file, and the header to an empty one."""
    cells = {f"{method} {key}": _cell(value) for method, row in found.items() for key, value in row.items()}
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, ["kind", "seed", *cells], lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        writer.writerow({"kind": kind, "seed": seed, **cells})


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read(path: Path) -> Results:
    """The results in a file, if it exists."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for line in csv.DictReader(path.open(newline="")) if path.exists() else ():
        one = found.setdefault(f"{line.pop('kind')}:{line.pop('seed')}", {})
        for name, text in line.items():
            method, key = name.split(" ")
            one.setdefault(method, {})[key] = text if key in ("problems", "converged") else float(text)
    return found


@dataclass(frozen=True)
class Score:
    """Counts of the results of one method."""

    method: str
    total: int
    wrong: int
    false: Sequence[str]  # machines whose result is trusted and wrong
    misses: Sequence[str]  # machines with a trusted interval that does not contain the truth
    trusted: int
    needless: int
    right: int

    @property
    def shares(self) -> tuple[float, float, float]:
        """Trusted and wrong of all; misses of the trusted intervals; distrusted of the right results."""
        return (
            len(self.false) / max(1, self.total),
            len(self.misses) / max(1, self.trusted),
            self.needless / max(1, self.right),
        )


def scores(done: Results) -> Iterator[Score]:
    """Compare the results of every method with enumeration."""
    for method in METHODS:
        rows = {name: row[method] for name, row in done.items()}
        trusted = {name: row for name, row in rows.items() if not row["problems"]}
        wrong = {name for name, row in rows.items() if not abs(row["error"]) <= WRONG}
        misses = [name for name, row in trusted.items() if not row["low"] <= 0 <= row["high"]]
        right = len(rows) - len(wrong)
        needless = sum(name not in wrong and bool(row["problems"]) for name, row in rows.items())
        false = sorted(wrong & set(trusted))
        yield Score(method, len(rows), len(wrong), false, misses, len(trusted), needless, right)


def groups(done: Results) -> dict[str, Results]:
    """The results of the machines of two layers and of the deep ones, without empty groups."""
    parts = {
        title: {name: one for name, one in done.items() if name.split(":")[0] in kinds}
        for title, kinds in GROUPS.items()
    }
    return {title: part for title, part in parts.items() if part}


def table(done: Results) -> str:
    """Return the scores as a table for docs/likelihood.md."""
    lines = [
        "| | wrong | trusted and wrong | trusted intervals that miss | distrusted but right |",
        "|---|---|---|---|---|",
    ]
    for one in scores(done):
        shares = [f"{100 * share:.1f} %" for share in one.shares]
        counts = (
            f"{len(one.false)} of {one.total}",
            f"{len(one.misses)} of {one.trusted}",
            f"{one.needless} of {one.right}",
        )
        cells = " | ".join(f"{count} ({share})" for count, share in zip(counts, shares, strict=True))
        lines.append(f"| {METHODS[one.method]} | {one.wrong} | {cells} |")
    return "\n".join(lines)


def remarks(done: Results) -> str:
    """Return which machines were judged falsely, the scores of population annealing's errors, and what TAP says."""
    lines = []
    for one in scores(done):
        for what, names in (("trusted and wrong", one.false), ("interval misses", one.misses)):
            lines += [f"  {one.method}, {what}: {name} {done[name][one.method]['error']}" for name in names]
    parts = [row["population"] for row in done.values()]
    z = [part["error"] / part["standard_error"] for part in parts if not part["problems"]]
    size = math.sqrt(sum(min(abs(x), 10) ** 2 for x in z) / max(1, len(z)))
    lines.append(
        f"  errors of population annealing in standard errors: {size:.2f} (root mean square of {len(z)} trusted)"
    )
    taps = [row["tap"] for row in done.values()]
    for word, some in (("converged", "True"), ("not converged", "False")):
        errors = [part["error"] for part in taps if part["converged"] == some]
        bad = sum(not abs(error) <= WRONG for error in errors)
        lines.append(f"  TAP {word}: {len(errors)} of {len(taps)}, of which {bad} are wrong")
    for method in METHODS:
        seconds = [row[method]["seconds"] for row in done.values()]
        lines.append(f"  {method}: {sum(seconds) / max(1, len(seconds)):.2f} CPU seconds per machine")
    return "\n".join(lines)
