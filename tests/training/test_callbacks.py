"""Callbacks: when they are called, what they see, and what they may change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_helpers import binary, draw

import harmonium as hm
from harmonium.errors import InvalidOption
from harmonium.training import Run
from harmonium.training.callbacks import HOOKS, Callback, Metric, Progress, check_callbacks


def train(callbacks: list[Callback], epochs: int = 4, **options: Any) -> hm.training.Result:
    machine = binary(5, 3, seed=1)
    return hm.fit(machine, draw(machine, 60), epochs=epochs, batch_size=20, callbacks=callbacks, **options)


class Log(Callback):
    def __init__(self, name: str, log: list[Any]) -> None:
        self.name, self.log = name, log

    def on_start(self, progress: Progress) -> None:
        self.log.append((self.name, "start", progress.epoch, len(progress.history)))

    def on_epoch(self, progress: Progress) -> None:
        self.log.append((self.name, "epoch", progress.epoch, len(progress.history)))

    def on_end(self, progress: Progress) -> None:
        self.log.append((self.name, "end", progress.epoch, len(progress.history)))


def test_order() -> None:
    log: list[Any] = []
    train([Log("a", log), Log("b", log)], epochs=2)
    assert log == [
        ("a", "start", 0, 0),
        ("b", "start", 0, 0),
        ("a", "epoch", 1, 0),
        ("b", "epoch", 1, 0),
        ("a", "epoch", 2, 1),
        ("b", "epoch", 2, 1),
        ("a", "end", 2, 2),
        ("b", "end", 2, 2),
    ]


def test_what_a_callback_sees() -> None:
    class Look(Callback):
        def on_epoch(self, progress: Progress) -> None:
            assert progress.epochs == 4
            assert progress.machine is result_machine[0]
            assert isinstance(progress.negative, hm.training.Exact)
            assert progress.metrics["epoch"] == progress.epoch
            assert "reconstruction" in progress.metrics
            assert [row["epoch"] for row in progress.history] == list(range(1, progress.epoch))

    machine = binary(5, 3, seed=1)
    result_machine = [machine]
    result = hm.fit(machine, draw(machine, 60), epochs=4, batch_size=20, callbacks=[Look()])
    assert result.machine is machine


@pytest.mark.parametrize("every", [1, 2, 3])
def test_metric(every: int) -> None:
    history = train([Metric("norm", lambda machine: machine.coupling.weight.norm(), every)], epochs=5).history
    expected = [epoch for epoch in range(1, 6) if epoch % every == 0 or epoch == 5]
    assert [row["epoch"] for row in history if "norm" in row] == expected
    assert all(type(row["norm"]) is float for row in history if "norm" in row)
    assert history[-1]["norm"] == pytest.approx(history[-1]["weight_norm"])


def test_stop() -> None:
    class Stop(Callback):
        ended = False

        def on_epoch(self, progress: Progress) -> None:
            progress.stop = progress.epoch == 2

        def on_end(self, progress: Progress) -> None:
            self.ended = True

    stop = Stop()
    assert [row["epoch"] for row in train([stop], epochs=10).history] == [1, 2]
    assert stop.ended


def test_stop_before_the_first_step() -> None:
    class Stop(Callback):
        def on_start(self, progress: Progress) -> None:
            progress.stop = True

    assert train([Stop()]).history == []


def test_metrics_of_any_number_type_survive_the_table(tmp_path: Path) -> None:
    """NumPy and torch numbers become Python numbers, so that the table can be read back."""

    class Add(Callback):
        def on_epoch(self, progress: Progress) -> None:
            progress.metrics["numpy"] = np.float64(0.1)
            progress.metrics["torch"] = torch.tensor(0.5)
            progress.metrics["count"] = 3
            progress.metrics["none"] = float("nan")
            if progress.epoch == 2:
                progress.metrics["late"] = np.float32(2.0)

    history = train([Add()], epochs=3, run=tmp_path / "run").history
    kept = Run(tmp_path / "run").read_metrics()
    assert [row.keys() for row in kept] == [row.keys() for row in history]
    for row, read in zip(history, kept, strict=True):
        assert all(type(value) in (int, float) for value in row.values())
        assert {k: v for k, v in read.items() if k != "none"} == {k: v for k, v in row.items() if k != "none"}
        assert np.isnan(read["none"])
    assert "late" in kept[1]
    assert "late" not in kept[0]


def test_an_error_in_a_callback_ends_training() -> None:
    class Broken(Callback):
        def on_epoch(self, progress: Progress) -> None:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train([Broken()])


@pytest.mark.parametrize(
    ("name", "close"),
    [("on_epoch_end", "on_epoch"), ("on_train_begin", "on_"), ("on_ends", "on_end"), ("on_batch", "on_")],
)
def test_unknown_hooks_are_rejected(name: str, close: str) -> None:
    with pytest.raises(InvalidOption, match=f"hooks on_start, on_epoch, on_end, found {name}.*did you mean {close}"):
        type("Mine", (Callback,), {name: lambda self, progress: None})
    callback = Callback()
    setattr(callback, name, lambda progress: None)
    with pytest.raises(InvalidOption, match=f"found {name}"):
        check_callbacks([callback])


def test_hooks_of_other_bases_are_seen() -> None:
    class Other:
        def on_batch_end(self, progress: Progress) -> None: ...

    class Both(Callback, Other): ...

    with pytest.raises(InvalidOption, match="found on_batch_end"):
        check_callbacks([Both()])


def test_known_hooks_and_other_methods_pass() -> None:
    assert HOOKS == ("on_start", "on_epoch", "on_end")

    class Mine(Metric):
        def on_end(self, progress: Progress) -> None: ...

        def once(self) -> None: ...

    callbacks = [Mine("x", lambda machine: 0.0), Callback()]
    assert check_callbacks(iter(callbacks)) == callbacks
    assert check_callbacks(()) == []


@pytest.mark.parametrize("wrong", [[print], [Callback], ["metric"], [None], Callback(), None, 3])
def test_objects_that_are_no_callbacks(wrong: Any) -> None:
    with pytest.raises(InvalidOption, match="callbacks: expected"):
        check_callbacks(wrong)
