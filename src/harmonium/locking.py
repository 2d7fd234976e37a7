"""One writer for each run folder: an exclusive lock of the operating system, which ends with its process.

Readers do not need the lock: every file in a run folder is replaced atomically.
"""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import HarmoniumError, RunError

NAME = ".lock"
_WAIT = 0.1  # seconds, for a process that is about to delete the file of its lock
_UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a run folder, which is created if it is missing; raise :class:`RunError` if another has it.

    A new folder that is still empty at the end is removed. A thread may enter again while it holds the lock. Where the
    system has no such locks, a warning states it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(folder):
    ...     os.listdir(folder)
    ['.lock']
    """
    path = Path(os.path.realpath(folder), NAME)
    lock = FileLock(path, timeout=_WAIT, is_singleton=True)
    made = [parent for parent in path.parents if not parent.exists()]  # from the inside out
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise RunError(f"{folder}: in use by another process; wait until it ends, or choose another folder") from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise HarmoniumError(f"{folder}: cannot be written ({error.strerror or error})") from error
        warnings.warn(f"{folder}: without file locks here; no other process may write to this folder", stacklevel=3)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # removed with its folder
            if lock.lock_counter == 1 and not path.stat().st_size:  # a file of somebody else is kept
                path.unlink()
        lock.release()
        with contextlib.suppress(OSError):  # not empty, or removed
            for parent in made:
                parent.rmdir()
