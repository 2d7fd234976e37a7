"""The memory that a computation needs, compared with what there is before it begins."""

from __future__ import annotations

import os

from .errors import OutOfMemory


def available_memory() -> int | None:
    """Return the bytes of memory that are free for new data; None if the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(what: str, needed: float, instead: str) -> None:
    """Raise :class:`OutOfMemory` if ``needed`` bytes are more than there are; ``instead`` names the alternative.

    >>> check_memory("pairs", 1e18, "use fewer units")
    Traceback (most recent call last):
    ...
    harmonium.errors.OutOfMemory: pairs: needs 931,322,574.6 GB of memory, found ... GB; use fewer units
    """
    free = available_memory()
    if free is not None and needed > free:
        raise OutOfMemory(f"{what}: needs {needed / 2**30:,.1f} GB of memory, found {free / 2**30:,.1f} GB; {instead}")
