"""A training uses no more threads than there are free cores, says so, and records it; a given number is not changed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import warnings

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidOption
from harmonium.training import Callback, Run, threads


class Seen(Callback):
    """Notes the number of threads during training."""

    def on_epoch(self, progress):
        self.threads = torch.get_num_threads()


@pytest.fixture
def two_threads(monkeypatch):
    """Two threads, as PyTorch chooses on two cores, and no number that a user gave."""
    before = torch.get_num_threads()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads.os, "cpu_count", lambda: 2)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def load(monkeypatch, tmp_path):
    """A function that sets the number of running threads, with that of the training."""
    monkeypatch.setattr(threads, "_LOAD", tmp_path / "loadavg")

    def put(running: int) -> None:
        (tmp_path / "loadavg").write_text(f"0.50 0.40 0.30 {running}/200 999\n")

    put(1)
    return put


def train(**options):
    seen, rbm = Seen(), hm.RBM(6, 2)
    hm.fit(rbm, torch.eye(6), epochs=1, callbacks=[seen], progress=False, **options)
    return seen.threads, rbm


def test_busy_cores_leave_one_thread(two_threads, load, tmp_path):
    load(2)
    with pytest.warns(UserWarning, match=r"other processes use 1 of 2 cores.* 1 of 2 threads.*OMP_NUM_THREADS=2"):
        used, rbm = train(run=tmp_path / "run", negative="pcd:1", learning_rate=0.1, seed=0)
    assert used == 1 and torch.get_num_threads() == 2  # as before the call
    assert Run(tmp_path / "run").read_config()["machine"]["threads"] == 1
    torch.set_num_threads(1)
    _, alone = train(negative="pcd:1", learning_rate=0.1, seed=0)
    assert torch.equal(alone.coupling.weight, rbm.coupling.weight)


def test_quiet_cores_change_nothing(two_threads, load):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "threads")
        assert train()[0] == 2


def test_a_system_that_does_not_say_it(two_threads, monkeypatch, tmp_path):
    monkeypatch.setattr(threads, "_LOAD", tmp_path / "missing")
    assert threads.running_elsewhere() == 0 and threads.choose_threads() == 2


@pytest.mark.skipif(not threads._LOAD.exists(), reason="needs Linux")
def test_a_process_that_computes_is_seen():
    code = "while True: pass"
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    try:
        time.sleep(0.2)
        assert threads.running_elsewhere() >= 3
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.mark.parametrize("how", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_a_given_number_is_not_questioned(two_threads, load, monkeypatch, how):
    load(9)
    monkeypatch.setenv(how, "2")
    assert train()[0] == 2


def test_a_resumed_run_uses_its_number(two_threads, load, tmp_path):
    load(9)
    with pytest.warns(UserWarning, match="other processes use"):
        train(run=tmp_path / "run")
    load(1)
    seen = Seen()
    hm.fit(hm.RBM(6, 2), torch.eye(6), epochs=2, callbacks=[seen], run=tmp_path / "run", resume=True, progress=False)
    assert seen.threads == 1


def test_two_threads_cannot_train_one_machine():
    rbm, errors = hm.RBM(6, 2), []

    def train_too() -> None:
        try:
            hm.fit(rbm, torch.eye(6), epochs=1, progress=False)
        except InvalidOption as error:
            errors.append(str(error))

    class Other(Callback):
        def on_epoch(self, progress):
            thread = threading.Thread(target=train_too)
            thread.start()
            thread.join()

    hm.fit(rbm, torch.eye(6), epochs=1, progress=False, callbacks=[Other()])
    assert len(errors) == 1 and "expected one that no other thread trains" in errors[0]
    train_too()
    assert len(errors) == 1
