"""One writer for each run folder: an exclusive lock of the operating system, which ends with its process.

The lock is that of the package ``filelock`` on the file ``.lock`` in the folder, which has the process number and the
host of its holder. Only a file that this module has written is changed or deleted: a link, or a file with other
contents, is an error. Readers do not need the lock: every file in a run folder is replaced atomically.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from .errors import HarmoniumError, RunError

NAME = ".lock"
_TRIES = 1000  # some systems also report a folder that cannot be created as one that does not exist
_UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_CONTENTS = re.compile(rb"(\d+ \S+\n)?")
_LONGEST = 400  # bytes of the contents, more than the longest name of a host


@dataclass
class _Held:
    lock: FileLock | None
    made: list[Path]  # folders that did not exist before, from the inside out
    thread: int
    depth: int = 1


_held: dict[Path, _Held] = {}
_guard = threading.Lock()


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a run folder, which is created if it is missing; raise :class:`RunError` if another has it.

    A new folder that is still empty at the end is removed. A thread may enter again while it holds the lock. Where the
    system has no such locks, a warning states it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(folder):
    ...     (Path(folder) / NAME).read_text().split()[0] == str(os.getpid())
    True
    """
    try:
        path = Path(os.path.abspath(folder)).resolve() / NAME
    except (OSError, RuntimeError) as error:  # a loop of symbolic links
        raise RunError(f"{folder}: cannot be used as a run folder ({error})") from None
    with _guard:
        held = _held.get(path)
        if held is not None and held.thread != threading.get_ident():
            raise _in_use(Path(folder), path)
        if held is None:
            made = [parent for parent in path.parents if not parent.exists()]
            _held[path] = held = _Held(_acquire(Path(folder), path), made, threading.get_ident())
        else:
            held.depth += 1
    try:
        yield
    finally:
        with _guard:
            held.depth -= 1
            if held.depth == 0 and _held.get(path) is held:
                del _held[path]
                if held.lock is not None:
                    _release(path, held.lock)
                with contextlib.suppress(OSError):  # not empty, or removed
                    for parent in held.made:
                        parent.rmdir()


def check(folder: str | os.PathLike[str]) -> None:
    """Raise :class:`RunError` if another process has the lock of this folder, whose file the user has deleted."""
    path = Path(folder) / NAME
    with contextlib.suppress(OSError):
        _check(path)
        if path.read_bytes() not in (b"", _holder()):
            raise _in_use(Path(folder), path)


def _acquire(folder: Path, path: Path) -> FileLock | None:
    """Return the lock of the file; None if the system cannot lock it."""
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False, on_acquired=_sign)
    for left in reversed(range(_TRIES)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _check(path)
            lock.acquire()
            return lock
        except FileNotFoundError as error:  # the holder has just deleted the folder or its file
            if not left:
                raise HarmoniumError(f"{folder}: cannot be written ({error.strerror})") from error
        except Timeout:
            if path.exists() or not left:
                raise _in_use(folder, path) from None
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                _unsupported(folder)
                return None
            raise HarmoniumError(f"{folder}: cannot be written ({error.strerror or error})") from error
    raise _in_use(folder, path)


def _check(path: Path) -> None:
    """Raise unless the file is missing or could be one of this module."""
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise RunError(f"{path}: expected a file of harmonium or none, found a link or another kind of file")


def _sign(file: int) -> None:
    """Write the holder into the open and locked file; raise if the file is not one of this module."""
    found = os.read(file, _LONGEST)
    if os.fstat(file).st_nlink > 1 or not _CONTENTS.fullmatch(found):
        raise RunError(f".lock: expected a file of harmonium, found {found[:40]!r} in it; nothing was changed")
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)
    os.write(file, _holder())


def _holder() -> bytes:
    return f"{os.getpid()} {socket.gethostname()}\n".encode()


def _release(path: Path, lock: FileLock) -> None:
    """Delete the file, if it is still the one that this process has written, and release the lock."""
    with contextlib.suppress(OSError, RunError):
        _check(path)
        if path.read_bytes() == _holder():
            path.unlink()
    lock.release()


def _in_use(folder: Path, path: Path) -> RunError:
    try:
        number, host = path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):  # the holder is about to write it, or to delete it
        number, host = "unknown", socket.gethostname()
    return RunError(f"{folder}: in use by process {number} on {host}; wait until it ends, or choose another folder")


def _unsupported(folder: Path) -> None:
    warnings.warn(
        f"{folder}: its file system has no file locks; make sure that no other process writes to this folder",
        stacklevel=5,
    )


def _forget() -> None:
    """Give up the locks in a forked process; ``filelock`` closes their files there."""
    global _guard
    _guard = threading.Lock()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
