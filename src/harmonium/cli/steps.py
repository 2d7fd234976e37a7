"""Progress of commands without epochs: a line for each step on standard error, with the time it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .show import duration

_SHORT = 1.0  # seconds; shorter steps print nothing off a terminal


@contextmanager
def step(name: str) -> Iterator[None]:
    """Show that a step has begun, and how long it took; off a terminal only if it took more than a second.

    >>> with step("likelihoods"):
    ...     pass
    """
    live = sys.stderr.isatty()
    if live:
        print(f"{name} …", end="", file=sys.stderr, flush=True)
    began = time.perf_counter()
    try:
        yield
    finally:
        took = time.perf_counter() - began
        if live:
            print(f" {duration(took)}", file=sys.stderr, flush=True)
        elif took > _SHORT:
            print(f"{name}: {duration(took)}", file=sys.stderr, flush=True)
