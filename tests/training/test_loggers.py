"""Callbacks for TensorBoard and Weights & Biases, with stand-ins for the two packages."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidOption, MissingExtra
from harmonium.training import MixingTime, TensorBoard, WeightsAndBiases

pytestmark = pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
ROWS = torch.eye(4).repeat(10, 1)


def trained(*callbacks: hm.Callback) -> list[dict[str, float]]:
    return hm.fit(hm.RBM(4, 2), ROWS, epochs=4, batch_size=10, callbacks=callbacks, progress=False).history


def test_tensorboard_gets_every_metric(monkeypatch, tmp_path) -> None:
    written: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            written.append(folder)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def close(self) -> None:
            written.append("closed")

    stand_in = ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    history = trained(TensorBoard(tmp_path, every=2))
    assert written[0] == str(tmp_path) and written[-1] == "closed"
    points = [part for part in written if isinstance(part, tuple)]
    assert {step for _, _, step in points} == {1, 2, 4}
    assert ("reconstruction", history[1]["reconstruction"], 2) in points


def test_weights_and_biases_gets_metrics_and_configuration(monkeypatch) -> None:
    logged: list[Any] = []
    run = SimpleNamespace(finish=lambda: logged.append("finished"))

    def init(**options: Any) -> Any:
        logged.append(options)
        return run

    stand_in: Any = ModuleType("wandb")
    stand_in.run, stand_in.init = None, init
    stand_in.log = lambda values, step: logged.append((step, values))
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    trained(MixingTime(sweeps=20), WeightsAndBiases("digits", name="first"))
    assert logged[0]["project"] == "digits" and logged[0]["name"] == "first"
    assert logged[0]["config"]["negative"] == "Exact()"
    assert [part[0] for part in logged[1:-1]] == [1, 2, 3, 4] and "chain_drift" in logged[1][1]
    assert logged[-1] == "finished"
    logged.clear()
    stand_in.run = run  # a run of the program itself
    trained(WeightsAndBiases())
    assert len(logged) == 4 and "finished" not in logged


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_named_with_its_extra(name, monkeypatch, tmp_path) -> None:
    for module in (name, "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard")
    make = {"tensorboard": lambda: TensorBoard(tmp_path), "wandb": lambda: WeightsAndBiases("x")}[name]
    with pytest.raises(MissingExtra, match=rf"needs {name}: pip install {name}"):
        make()


def test_the_interval_is_checked(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", ModuleType("wandb"))
    with pytest.raises(InvalidOption, match="every: expected at least 1, found 0"):
        WeightsAndBiases("x", every=0)
