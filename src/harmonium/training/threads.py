"""The number of CPU threads of a training: one, if other processes keep the cores busy.

The threads of a matrix product wait for each other. If another process has one of the cores, every product waits for
the scheduler, and several threads are many times slower than one. A measurement of a few milliseconds shows it.
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

from ..errors import BusyMachine, InvalidOption
from ..machines import Machine
from .run import Run

_GIVEN = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # variables by which a user gives the number of threads
_MOST = 1024  # far above, the OpenMP library ends the process
_SECONDS = 60.0  # for which a measurement is used again
_SIZE, _PRODUCTS = 256, 4  # rows and columns of the measured products, and their number in a round
_FEW, _ROUNDS = 8, 32  # rounds of the measurement, at least and at most
_FREE = 0.9  # time of several threads relative to one, below which the cores are free
_FACTOR = 1.5  # slowdown from which one thread is used
_guard = threading.Lock()
_trained: dict[int, int] = {}  # the thread that trains a parameter, by the id of the parameter
_last: tuple[float, int, float] | None = None  # time, threads and slowdown of the last measurement


@contextmanager
def using(threads: int | None, run: str | Path | None = None, resume: bool = False) -> Iterator[None]:
    """Use ``threads`` CPU threads, by default those of the run that continues, else :func:`suitable`; then as before.

    >>> with using(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    if threads is None and run is not None and resume:
        threads = _recorded(run)
    torch.set_num_threads(suitable() if threads is None else check_threads(threads))
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


def suitable() -> int:
    """Return the number of threads of PyTorch, or 1, with a warning, if several are slower than one by a factor of 1.5.

    Nothing is measured if the environment variable OMP_NUM_THREADS or MKL_NUM_THREADS is set. The result of a
    measurement is used for a minute.
    """
    threads = torch.get_num_threads()
    if threads == 1 or any(os.environ.get(name) for name in _GIVEN):
        return threads
    slowdown = _slowdown(threads)
    if slowdown < _FACTOR:
        return threads
    warnings.warn(
        f"threads: {threads} threads are {slowdown:.1f} times slower than one, because other processes use the CPU; "
        f"this training uses one thread. Give the number of threads (threads={threads}) to change this",
        BusyMachine,
        stacklevel=2,
    )
    return 1


def _slowdown(threads: int) -> float:
    """Return the time of matrix products with ``threads`` threads divided by their time with one.

    Both are measured in turn, because the load changes. A few rounds show that the cores are free; more are needed to
    show that they are not.
    """
    global _last
    if _last is None or _last[1] != threads or time.monotonic() - _last[0] > _SECONDS:
        rounds: list[tuple[float, float]] = []
        try:
            while len(rounds) < _ROUNDS and (len(rounds) < _FEW or any(a > _FREE * b for a, b in rounds[:_FEW])):
                rounds.append((_product_seconds(threads), _product_seconds(1)))
        finally:
            torch.set_num_threads(threads)
        several, one = map(sum, zip(*rounds, strict=True))
        _last = time.monotonic(), threads, several / one
    return _last[2]


def _product_seconds(threads: int) -> float:
    """Return the time of a few matrix products, in seconds."""
    torch.set_num_threads(threads)
    x = torch.full((_SIZE, _SIZE), 0.5)
    x @ x  # starts the threads
    began = time.perf_counter()
    for _ in range(_PRODUCTS):
        x @ x
    return time.perf_counter() - began


def _recorded(folder: str | Path) -> int | None:
    """Return the number of threads in the configuration of a run, if it is known."""
    threads = Run(folder).recorded("training", "threads")
    return threads if type(threads) is int and threads >= 1 else None
