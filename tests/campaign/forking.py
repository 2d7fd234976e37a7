"""Commands in processes of their own, without the cost of the imports.

A server imports the library once, runs a few commands, so that everything that is imported late is there, too, and
then forks for every command. A command is a process like any other: it can be killed, it has an exit status, and its
output goes to files. Only the imports at its beginning and the clean-up of the interpreter at its end are missing.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

RAW = 70  # exit status of a command that raised an exception instead of handling it
MEGABYTE = 2**20


@dataclasses.dataclass
class Ended:
    """How a process ended: status (negative for a signal), CPU seconds and the growth of its memory in bytes."""

    status: int
    seconds: float
    memory: int


class Forked:
    """A command that runs in a process of the server."""

    def __init__(self, server: Server, pid: int, output: Path) -> None:
        self.server, self.pid, self._output = server, pid, output

    def ended(self) -> Ended | None:
        """How it ended; None while it runs."""
        self.server.listen(0.0)
        return self.server.ended.get(self.pid)

    def running(self) -> bool:
        """Whether it runs."""
        return self.ended() is None

    def signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds: float = 900.0) -> Ended:
        """Wait for the end. Raises ``TimeoutError`` after some seconds, and kills the process."""
        until = time.monotonic() + seconds
        while (found := self.server.ended.get(self.pid)) is None:
            left = until - time.monotonic()
            if left <= 0:
                self.signal(signal.SIGKILL)
                self.wait(30.0)
                raise TimeoutError(f"process {self.pid} ran for more than {seconds:g} s")
            self.server.listen(left)
        return found

    @functools.cached_property
    def out(self) -> str:
        """What it has printed on standard output; after its end."""
        return self._output.with_suffix(".out").read_text(errors="replace")

    @functools.cached_property
    def err(self) -> str:
        """What it has printed on standard error; after its end."""
        return self._output.with_suffix(".err").read_text(errors="replace")


class Server:
    """The process that forks; ``warm`` are the names of the commands that it runs before, see :func:`_warm_up`."""

    spent: ClassVar[float] = 0.0  # CPU seconds of all commands that have ended

    def __init__(self, warm: Sequence[str] = ("train",)) -> None:
        self.ended: dict[int, Ended] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="forks-"))
        self._number = 0
        self._buffer = b""
        words = [sys.executable, __file__, str(self._folder), *warm]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
        )
        atexit.register(self.close)

    def start(
        self,
        *words: object,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        cpu_seconds: int | None = None,
        closed_output: bool = False,
    ) -> Forked:
        """Start a command, by default in the current folder; it is killed after some seconds of CPU time."""
        arguments = [*map(str, words)]
        return self.call("harmonium.cli", "main", arguments, folder, environment, cpu_seconds, closed_output)

    def call(
        self,
        module: str,
        function: str,
        argument: Any,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        cpu_seconds: int | None = None,
        closed_output: bool = False,
    ) -> Forked:
        """Start any function with one argument, which must be possible in JSON."""
        self._number += 1
        output = self._folder / f"command-{self._number % 50}"
        for suffix in (".out", ".err"):
            output.with_suffix(suffix).write_bytes(b"")  # it may be killed before it opens them
        request = {
            "function": [module, function],
            "argument": argument,
            "folder": str(folder or Path.cwd()),
            "environment": dict(environment or {}),
            "output": str(output),
            "cpu_seconds": cpu_seconds,
            "closed_output": closed_output,
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self._started: int | None = None
        while self._started is None:
            self.listen(900.0)
        return Forked(self, self._started, output)

    def run(self, *words: object, seconds: float = 900.0, **where: Any) -> Forked:
        """Run a command to its end."""
        process = self.start(*words, **where)
        process.wait(seconds)
        return process

    def listen(self, seconds: float) -> None:
        """Read what the server reports, if there is something within some seconds."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return
        found = os.read(self.process.stdout.fileno(), 2**16)
        if not found:
            raise RuntimeError(f"the server has ended with status {self.process.wait()}")
        *lines, self._buffer = (self._buffer + found).split(b"\n")
        for line in lines:
            pid, *how = json.loads(line)
            if how:
                self.ended[pid] = Ended(*how)
                Server.spent += self.ended[pid].seconds
            else:
                self._started = pid
                self.ended.pop(pid, None)  # the number of a process that ended long ago

    def close(self) -> None:
        """End the server."""
        if self.process.poll() is None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


@functools.cache
def server(*warm: str) -> Server:
    """The server of this process for some commands, ``train`` by default."""
    return Server(warm or ("train",))


# -- in the server ----------------------------------------------------------------------------------------------------


def serve(folder: Path, warm: Sequence[str]) -> None:
    """Fork for every line of the standard input, and report starts and ends on the standard output."""
    requests, reports = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    _warm_up(folder, warm)
    gc.collect()
    gc.freeze()  # shared pages stay shared
    ends, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    own = _resident()
    waiting = b""
    while True:
        ready = select.select([requests, ends], [], [])[0]
        if ends in ready:
            os.read(ends, 4096)
            _report_ends(reports, own)
        if requests in ready:
            found = os.read(requests, 2**16)
            if not found:
                return
            *lines, waiting = (waiting + found).split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    for handle in (requests, reports, ends, wake):
                        os.close(handle)
                    _child(request)
                _say(reports, [pid])


def _say(reports: int, content: list[Any]) -> None:
    os.write(reports, json.dumps(content).encode() + b"\n")


def _report_ends(reports: int, own: int) -> None:
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        memory = max(0, used.ru_maxrss * 1024 - own)
        _say(reports, [pid, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, memory])


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _child(request: dict[str, Any]) -> None:
    """Run a command as ``python -m harmonium`` does, or another function, and end."""
    status = RAW
    try:
        if request["cpu_seconds"]:  # a busy computer makes a command slow, but not its CPU time long
            resource.setrlimit(resource.RLIMIT_CPU, (request["cpu_seconds"],) * 2)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
        for number, suffix in ((1, ".out"), (2, ".err")):
            file = os.open(request["output"] + suffix, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, number)
            os.close(file)
        if request["closed_output"]:  # a pipe whose reader has gone
            reader, writer = os.pipe()
            os.dup2(writer, 1)
            os.close(reader)
            os.close(writer)
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        module, function = request["function"]
        getattr(importlib.import_module(module), function)(request["argument"])
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _warm_up(folder: Path, names: Sequence[str]) -> None:
    """Run commands once, so that everything they import is there."""
    import numpy as np
    from typer import main as typer

    from harmonium.cli import main

    typer.get_command = functools.cache(typer.get_command)  # 40 ms that are the same for every command
    np.save(folder / "rows.npy", np.eye(6, dtype=np.uint8).repeat(5, 0))
    run, small = str(folder / "run"), ["-q", "--no-report"]
    train = ["train", str(folder / "rows.npy"), "--hidden", "2", "--epochs", "1", "--optimizer", "adam", "--run", run]
    options: dict[str, list[str]] = {"evaluate": ["--betas", "2"], "sample": ["-n", "2", "--sweeps", "1"]}
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):
        for name in names:
            with contextlib.suppress(SystemExit):
                main([*train, *small] if name == "train" else [name, run, *options.get(name, [])])


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:])
