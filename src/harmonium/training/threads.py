"""The number of CPU threads of a training: no more than there are free cores.

The threads of a matrix product wait for each other. If another process has one of the cores, every product waits for
the scheduler, and several threads are many times slower than one.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ..errors import InvalidOption
from ..machines import Machine
from .run import Run

_GIVEN = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # variables by which a user gives the number of threads
_MOST = 1024  # far above, the OpenMP library ends the process
_LOOKS, _PAUSE = 5, 0.002  # at the running processes, and seconds between them
_LOAD = Path("/proc/loadavg")
_guard = threading.Lock()
_trained: dict[int, int] = {}  # the thread that trains a parameter, by the id of the parameter


@contextmanager
def using(threads: int | None, run: str | Path | None = None, resume: bool = False) -> Iterator[None]:
    """Use ``threads`` CPU threads, by default those of the run that continues, else :func:`choose_threads`; then as
    before.

    >>> with using(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    if threads is None and run is not None and resume:
        recorded = Run(run).recorded("machine", "threads")
        threads = recorded if type(recorded) is int and recorded >= 1 else None
    torch.set_num_threads(choose_threads() if threads is None else check_threads(threads))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def alone(machine: Machine) -> Iterator[None]:
    """Raise :class:`InvalidOption` if another thread trains this machine, or one that shares parameters with it.

    >>> import harmonium as hm
    >>> rbm = hm.RBM(4, 2)
    >>> with alone(rbm), alone(rbm):
    ...     pass
    """
    own = threading.get_ident()
    parameters = [id(parameter) for parameter in machine.parameters()]
    with _guard:
        if any(_trained.get(parameter, own) != own for parameter in parameters):
            raise InvalidOption("machine: expected one that no other thread trains, found one in training; use a copy")
        added = [parameter for parameter in parameters if parameter not in _trained]
        _trained.update(dict.fromkeys(added, own))
    try:
        yield
    finally:
        with _guard:
            for parameter in added:
                del _trained[parameter]


def check_threads(threads: int) -> int:
    """Return the number if it is not too large, else raise ``InvalidOption``."""
    if threads > _MOST:
        raise InvalidOption(f"threads: expected at most {_MOST}, found {threads}")
    return threads


def choose_threads() -> int:
    """Return the number of threads of PyTorch, or of free cores, with a warning, if there are fewer; at least 1.

    A number in the environment variable OMP_NUM_THREADS or MKL_NUM_THREADS is not changed.
    """
    threads = torch.get_num_threads()
    if threads == 1 or any(os.environ.get(name) for name in _GIVEN):
        return threads
    cores, others = os.cpu_count() or 1, running_elsewhere()
    chosen = max(1, min(threads, cores - others))
    if chosen < threads:
        warnings.warn(
            f"threads: other processes use {min(others, cores)} of {cores} cores, so this training uses {chosen} "
            f"of {threads} threads. The environment variable OMP_NUM_THREADS={threads} changes this",
            stacklevel=2,
        )
    return chosen


def running_elsewhere() -> int:
    """Return the number of running threads on this computer besides this one; 0 where the system does not say it.

    It is the smallest of several counts, because the threads of the last product may still spin.
    """
    counts = []
    for look in range(_LOOKS):
        time.sleep(_PAUSE if look else 0)
        try:
            counts.append(int(_LOAD.read_text().split()[3].split("/")[0]))
        except (OSError, ValueError, IndexError):  # not Linux
            return 0
    return max(0, min(counts) - 1)
