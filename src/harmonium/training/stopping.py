"""Signals that stop training at the next step, so that a checkpoint can be written first."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Context manager that remembers the first SIGINT or SIGTERM; :meth:`deliver` passes it on afterwards.

    A second signal acts at once, as it would have without this. Only the main thread receives signals; elsewhere, and
    if not ``enabled``, nothing is changed.

    >>> with Stopping() as stopping:
    ...     signal.raise_signal(signal.SIGINT)
    ...     stopping.requested
    True
    """

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled and threading.current_thread() is threading.main_thread()
        self._former: dict[int, Any] = {}
        self._number: int | None = None

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived."""
        return self._number is not None

    def deliver(self) -> None:
        """Call the handler that was in place before; the default one of SIGINT raises ``KeyboardInterrupt``."""
        if self._number is not None:
            signal.raise_signal(self._number)

    def __enter__(self) -> Stopping:
        for number in SIGNALS if self._enabled else ():
            former = signal.getsignal(number)
            if former not in (None, signal.SIG_IGN):  # None: installed by code that is not Python
                self._former[number] = former
                signal.signal(number, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)
        self._former = {}

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self._number is not None:
            self.__exit__()
            signal.raise_signal(number)
        self._number = number
