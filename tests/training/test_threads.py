"""On a busy machine a training uses one thread, says so, and records it; a given number of threads is used as it is."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch

import harmonium as hm
from harmonium.errors import BusyMachine, InvalidOption
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
    monkeypatch.setattr(threads, "_last", None)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def busy(monkeypatch, slowdown: float) -> list[int]:
    """Let products with several threads be slower by a factor; returns the list of measurements."""
    asked: list[int] = []

    def seconds(number):
        asked.append(number)
        return slowdown if number > 1 else 1.0

    monkeypatch.setattr(threads, "_product_seconds", seconds)
    return asked


def train(**options):
    seen, rbm = Seen(), hm.RBM(6, 2)
    hm.fit(rbm, torch.eye(6), epochs=1, callbacks=[seen], progress=False, **options)
    return seen.threads, rbm


def test_busy_cores_leave_one_thread(two_threads, monkeypatch, tmp_path):
    busy(monkeypatch, 5.0)
    with pytest.warns(BusyMachine, match=r"2 threads are 5\.0 times slower than one.*threads=2"):
        used, rbm = train(run=tmp_path / "run", negative="pcd:1", learning_rate=0.1)
    assert used == 1 and torch.get_num_threads() == 2  # as before the call
    assert Run(tmp_path / "run").read_config()["training"]["threads"] == 1
    _, alone = train(threads=1, negative="pcd:1", learning_rate=0.1)
    assert torch.equal(alone.coupling.weight, rbm.coupling.weight)


def test_quiet_cores_change_nothing(two_threads, monkeypatch):
    asked = busy(monkeypatch, 0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BusyMachine)
        assert train()[0] == train()[0] == 2
    assert asked == [2, 1] * threads._FEW  # one measurement for several trainings within a minute


@pytest.mark.parametrize("how", ["argument", "OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_a_given_number_is_not_questioned(two_threads, monkeypatch, how):
    asked = busy(monkeypatch, 5.0)
    if how != "argument":
        monkeypatch.setenv(how, "2")
    assert train(**({"threads": 2} if how == "argument" else {}))[0] == 2
    assert not asked


def test_a_resumed_run_uses_its_number(two_threads, monkeypatch, tmp_path):
    busy(monkeypatch, 5.0)
    with pytest.warns(BusyMachine):
        train(run=tmp_path / "run")
    asked = busy(monkeypatch, 0.6)
    seen = Seen()
    hm.fit(hm.RBM(6, 2), torch.eye(6), epochs=2, callbacks=[seen], run=tmp_path / "run", resume=True, progress=False)
    assert seen.threads == 1 and not asked
    hm.fit(hm.RBM(6, 2), torch.eye(6), epochs=3, threads=2, run=tmp_path / "run", resume=True, progress=False)
    assert Run(tmp_path / "run").read_config()["training"]["threads"] == 2


def test_the_measurement_restores_the_number(two_threads):
    assert threads.suitable() in (1, 2) and torch.get_num_threads() == 2


@pytest.mark.parametrize("number", [0, 10**6, 1.5])
def test_impossible_numbers(number):
    with pytest.raises(InvalidOption, match="threads: expected"):
        train(threads=number)


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
