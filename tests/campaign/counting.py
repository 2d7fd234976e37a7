"""What a part of the campaign has tried, and what went wrong."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import math
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forking import Server

_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024


class Hang(BaseException):
    """A call that took too long; not an ``Exception``, so that nothing handles it."""


@dataclass
class Counts:
    """The number of cases, of their outcomes, and of problems, with an example of each kind of problem."""

    name: str
    tried: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(cls, **parts: Any) -> Counts:
        """The counts that ``vars`` gave."""
        return cls(**{**parts, "outcomes": Counter(parts["outcomes"]), "problems": Counter(parts["problems"])})

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.name,
            self.tried + other.tried,
            self.outcomes + other.outcomes,
            self.problems + other.problems,
            {**other.examples, **self.examples},
            self.seconds + other.seconds,
        )

    def problem(self, kind: str, example: object) -> None:
        """Count a problem."""
        self.problems[kind] += 1
        self.examples.setdefault(kind, str(example)[:1600])

    def row(self) -> str:
        """One line of the printed table."""
        outcomes = ", ".join(f"{n} {name}" for name, n in sorted(self.outcomes.items()))
        problems = ", ".join(f"{n} {name}" for name, n in sorted(self.problems.items())) or "none"
        return f"| {self.name} | {self.tried} | {outcomes} | {problems} | {self.seconds:.0f} |"


class Collected:
    """The counts of parts of the campaign by their seed, kept in a file if there is one."""

    def __init__(self, path: Path | None, pieces: dict[str, dict[str, Counts]]) -> None:
        self.path, self.pieces = path, pieces

    @classmethod
    def read(cls, path: Path | None) -> Collected:
        """What the file has, or nothing."""
        found = json.loads(path.read_text()) if path is not None and path.exists() else {}
        return cls(path, {name: {seed: Counts.of(**part) for seed, part in by.items()} for name, by in found.items()})

    def has(self, name: str, seed: int) -> bool:
        """Whether this piece has been run."""
        return str(seed) in self.pieces.get(name, {})

    def add(self, name: str, seed: int, part: Counts) -> None:
        """Add a piece, and write the file."""
        self.pieces.setdefault(name, {})[str(seed)] = part
        if self.path is not None:
            plain = {name: {seed: vars(part) for seed, part in by.items()} for name, by in self.pieces.items()}
            self.path.write_text(json.dumps(plain, indent=1))

    def sums(self) -> list[Counts]:
        """The sums over the seeds."""
        return [sum(by.values(), Counts(next(iter(by.values())).name)) for by in self.pieces.values()]


class Deadline:
    """The moment after which a part of the campaign starts no further case."""

    at = math.inf

    @classmethod
    def passed(cls) -> bool:
        """Whether it is over."""
        return time.monotonic() > cls.at


@contextlib.contextmanager
def timed(counts: Counts) -> Iterator[None]:
    """Add the CPU time of the block, and of the processes that ended in it."""
    began = _spent()
    try:
        yield
    finally:
        counts.seconds += _spent() - began


def _spent() -> float:
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) + Server.spent


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise :class:`Hang` if the block takes more CPU time, or 30 times as long: a busy computer is no hang."""

    def late(*_: object) -> None:
        raise Hang

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, seconds), (signal.ITIMER_REAL, signal.SIGALRM, 30 * seconds))
    former = [signal.signal(number, late) for _, number, _ in timers]
    for timer, _, limit in timers:
        signal.setitimer(timer, limit)
    faulthandler.dump_traceback_later(40 * seconds, exit=True)  # a call that never returns to Python
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for (timer, number, _), handler in zip(timers, former, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def reset_peak() -> int:
    """Let :func:`peak_memory` begin again, where the system can do that, and return its value."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory() -> int:
    """The largest memory of this process since :func:`reset_peak`, or since it began, in bytes."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT


def limit_memory(bytes_more: int) -> None:
    """Let allocations fail that would add more than this to the address space."""
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + bytes_more
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
