"""A signal stops training within an epoch with a checkpoint, from which it continues bit-for-bit."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
import torch

import harmonium as hm
from harmonium.training import Run
from harmonium.training.schedules import Setting
from harmonium.training.stopping import Stopping

ROWS = (torch.rand(60, 6, generator=torch.Generator().manual_seed(0)) < 0.4).float()
PHASES = {
    "cd": lambda: hm.CD(2),
    "pcd": lambda: hm.PCD(1, chains=7),
    "mean field": lambda: hm.MeanField(3),
    "tempering": lambda: hm.ParallelTempering(1, rungs=3),
}


class Signals:
    """A schedule that sends a signal to this process at some moments of the training."""

    def __init__(self, *moments: float, number: int = signal.SIGINT) -> None:
        self.moments, self.number = list(moments), number

    def __call__(self, clock: hm.training.Clock) -> Setting:
        if self.moments and clock.fraction >= self.moments[0]:
            self.moments.pop(0)
            signal.raise_signal(self.number)
        return Setting(rate=1 - 0.5 * clock.fraction)


def train(run: Path, phase: str, schedule: Signals, *, resume: bool = False, seed: int = 0) -> None:
    hm.fit(
        hm.RBM(6, 3), ROWS, negative=PHASES[phase](), epochs=4, batch_size=7, schedule=schedule, run=run, resume=resume,
        optimizer="adam", constraints=[hm.Average(0.5)], seed=seed, progress=False,
    )  # fmt: skip


@pytest.mark.fast_cases(1)
@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
@pytest.mark.parametrize("phase", PHASES)
def test_a_stopped_run_continues_within_the_epoch(phase, tmp_path):
    whole, run = Run(tmp_path / "whole"), Run(tmp_path / "run")
    train(whole.folder, phase, Signals())
    with pytest.raises(KeyboardInterrupt):
        train(run.folder, phase, Signals(0.3))
    state = run.read_state()[1]
    assert (state["epoch"], state["step"]) == (1, 3) and len(run.read_metrics()) == 1
    with pytest.raises(KeyboardInterrupt):
        train(run.folder, phase, Signals(0.62), resume=True)
    assert run.read_state()[1]["epoch"] == 2
    train(run.folder, phase, Signals(), resume=True)
    assert run.last.read_bytes() == whole.last.read_bytes()
    assert [row["epoch"] for row in run.read_metrics()] == [1, 2, 3, 4]


def test_a_second_signal_acts_at_once():
    with pytest.raises(KeyboardInterrupt), Stopping() as stopping:
        signal.raise_signal(signal.SIGINT)
        assert stopping.requested
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_others_are_called_afterwards():
    seen = []
    former = signal.signal(signal.SIGTERM, lambda *_: seen.append("called"))
    try:
        with Stopping() as stopping:
            signal.raise_signal(signal.SIGTERM)
            assert not seen
        stopping.deliver()
        assert seen == ["called"]
    finally:
        signal.signal(signal.SIGTERM, former)


def test_other_threads_and_ignored_signals_are_left_alone():
    found = []

    def other() -> None:
        with Stopping() as stopping:
            found.append(stopping.requested)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [False]
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Stopping():
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, former)
