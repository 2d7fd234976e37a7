"""One writer per run folder: the lock ends with its process, and readers do not need it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import harmonium as hm
from harmonium.errors import HarmoniumError, RunError
from harmonium.locking import NAME, locked

HOLDER = """
import sys, time
from harmonium.locking import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""
ROWS = torch.eye(6).repeat(5, 1)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of a folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_second_process_is_refused_and_names_the_first(holder, tmp_path):
    with (
        pytest.raises(RunError, match="in use by another process"),
        locked(tmp_path / "run"),
    ):
        pass
    with pytest.raises(RunError, match="in use by another process"):
        hm.fit(hm.RBM(6, 2), ROWS, epochs=1, run=tmp_path / "run", progress=False)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [NAME]
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with locked(tmp_path / "run"):  # the lock ended with the process, although its file is still there
        pass


def test_a_rank_without_a_process_group_locks_too(holder, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(RunError, match="in use by another process"):
        hm.fit(hm.RBM(6, 2), ROWS, epochs=1, run=tmp_path / "run", progress=False)


def test_a_thread_may_enter_again_but_no_other_thread(tmp_path):
    found = []

    def other() -> None:
        try:
            with locked(tmp_path):
                found.append("entered")
        except RunError as error:
            found.append(str(error))

    with locked(tmp_path), locked(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(found) == 1 and "in use by another process" in found[0]
    other()
    assert found[1] == "entered" and not list(tmp_path.iterdir())


def test_a_new_folder_that_stays_empty_is_removed(tmp_path):
    with locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "a").exists()
    with locked(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "file").write_text("kept")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["file"]


def test_a_folder_that_cannot_be_created(tmp_path, monkeypatch):
    """Some systems then report, at every attempt, that it does not exist."""

    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "mkdir", missing)
    with pytest.raises(HarmoniumError, match=r"cannot be written \(No such file"), locked(tmp_path / "new"):
        pass


def test_links_lead_to_one_lock(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    found = []

    def other() -> None:
        with pytest.raises(RunError, match="in use"), locked(tmp_path / "link"):
            pass
        found.append("refused")

    with locked(tmp_path / "run"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == ["refused"]


def test_a_lock_that_is_a_link_is_refused_and_its_target_kept(tmp_path):
    (tmp_path / "precious").write_text("1 host\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / NAME).symlink_to(tmp_path / "precious")
    with pytest.raises(HarmoniumError, match="cannot be written"), locked(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "1 host\n" and (tmp_path / "run" / NAME).exists()


def test_a_file_of_the_name_of_the_lock_is_kept(tmp_path):
    (tmp_path / NAME).write_text("my own notes\n")
    with locked(tmp_path):
        pass
    assert (tmp_path / NAME).read_text() == "my own notes\n"


def test_a_forked_process_does_not_keep_the_lock(tmp_path):
    with locked(tmp_path):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        with locked(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_where_there_are_no_locks_a_warning_says_so(tmp_path, monkeypatch):
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with pytest.warns(UserWarning, match="without file locks here"), locked(tmp_path):
        pass


@pytest.mark.slow
def test_readers_do_not_wait(holder, tmp_path):
    run = hm.Run(tmp_path / "run")
    rbm = hm.RBM(6, 2)
    run.write_config({"training": {"epochs": 1}})
    run.write_metrics([{"epoch": 1, "seconds": 0.5}])
    run.write_checkpoint(rbm, {"epoch": 1})
    assert run.read_metrics() and run.read_config() and hm.load(run.folder)


@pytest.mark.slow
def test_a_run_in_training_is_readable_at_any_moment(tmp_path):
    """A reader beside the writer sees complete files: rows of metrics up to the checkpoint, or one more."""
    seen: list[tuple[int, int]] = []

    class Look(hm.Callback):
        def on_epoch(self, progress) -> None:
            if progress.epoch > 1:
                run = hm.Run(tmp_path)
                hm.load(tmp_path)
                seen.append((run.read_checkpoint(hm.RBM(6, 2))["epoch"], len(run.read_metrics())))

    hm.fit(hm.RBM(6, 2), ROWS, epochs=5, batch_size=10, run=tmp_path, callbacks=[Look()], progress=False)
    assert seen == [(k, k) for k in range(1, 5)]
    assert not (Path(tmp_path) / NAME).exists()
