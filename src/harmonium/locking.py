"""One writer for each run folder: an exclusive lock of the operating system, which ends with its process.

The lock is ``flock`` on the file ``.lock`` in the folder, which has the process number and the host of its holder.
Readers do not need it: every file in a run folder is replaced atomically.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from .errors import HarmoniumError, RunError

fcntl: ModuleType | None
try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

NAME = ".lock"
_TRIES = 1000  # some systems also report a folder that cannot be created as one that does not exist
_UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass
class _Held:
    handle: int | None
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
    path = Path(os.path.abspath(folder)) / NAME
    try:
        path = path.resolve()
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
                _release(path, held.handle)
                with contextlib.suppress(OSError):  # not empty, or removed
                    for parent in held.made:
                        parent.rmdir()


def _acquire(folder: Path, path: Path) -> int | None:
    """Return the open and locked file; None if the system cannot lock it."""
    if fcntl is None:
        _unsupported(folder, "this system")
        return None
    for left in reversed(range(_TRIES)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            if left and isinstance(error, FileNotFoundError):
                continue  # the holder has just deleted the folder
            raise HarmoniumError(f"{folder}: cannot be written ({error.strerror})") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(path, handle):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()} {socket.gethostname()}\n".encode())
                return handle
        except BlockingIOError:
            os.close(handle)
            raise _in_use(folder, path) from None
        except OSError as error:
            os.close(handle)
            if error.errno in _UNSUPPORTED:
                _unsupported(folder, "its file system")
                return None
            raise HarmoniumError(f"{folder}: cannot be locked ({error.strerror})") from error
        os.close(handle)  # its holder deleted the file between opening and locking: try the new one
    raise _in_use(folder, path)


def _same(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _release(path: Path, handle: int | None) -> None:
    if handle is not None:
        with contextlib.suppress(OSError):
            if _same(path, handle):
                path.unlink()
        os.close(handle)


def _in_use(folder: Path, path: Path) -> RunError:
    try:
        number, host = path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):  # the holder is about to write it, or to delete it
        number, host = "unknown", socket.gethostname()
    return RunError(f"{folder}: in use by process {number} on {host}; wait until it ends, or choose another folder")


def _unsupported(folder: Path, where: str) -> None:
    warnings.warn(
        f"{folder}: {where} has no file locks; make sure that no other process writes to this folder", stacklevel=4
    )


def _forget() -> None:
    """Give up the locks in a forked process, which would otherwise keep them after the end of its parent."""
    global _guard
    _guard = threading.Lock()
    for held in _held.values():
        if held.handle is not None:
            with contextlib.suppress(OSError):
                os.close(held.handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
