"""States of negative phases: what is saved, what grows, and that an interrupted step leaves the machine valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from training_helpers import assert_same, binary, draw, generator, parameters

import harmonium as hm
from harmonium import units
from harmonium.training.state import continued, flatten

DATA = draw(binary(6, 3, seed=2), 60)


def test_a_ladder_that_has_grown_continues(tmp_path: Path) -> None:
    """With a large acceptance, a copy of the machine is added in every tenth step."""

    class Stop(hm.Callback):
        def on_epoch(self, progress: Any) -> None:
            progress.stop = progress.epoch == 8

    def train(folder: str, **options: Any) -> dict[str, torch.Tensor]:
        rbm, phase = binary(6, 3, seed=4), hm.TrajectoryTempering(1, acceptance=0.999, rungs=4)
        hm.fit(rbm, DATA, negative=phase, epochs=16, batch_size=10, learning_rate=0.3, seed=1, progress=False,
               run=tmp_path / folder, **options)  # fmt: skip
        return parameters(rbm)

    whole = train("whole")
    train("parts", callbacks=[Stop()])
    (state,) = hm.Run(tmp_path / "parts").read_state()[1]["processes"][0]["negative"]
    assert len(state["copies"]) > 1
    assert_same(train("parts", resume=True), whole)


def test_the_states_of_an_enumeration_are_not_saved() -> None:
    state = hm.Exact().init(binary(6, 3), DATA, None)
    plain, tensors = flatten(state, "state")
    assert plain == {} and tensors == {}
    assert continued(plain, state)["known"] is state["known"]


def test_memory_is_not_saved() -> None:
    state = hm.PCD(1, chains=7).init(binary(6, 3), DATA, generator(0))
    _, tensors = flatten(state, "state")
    assert list(tensors) == ["state.h"]


class Broken(torch.optim.SGD):
    """An optimizer that fails in its second step."""

    steps = 0

    def step(self, closure: Any = None) -> None:
        self.steps += 1
        if self.steps == 3:  # the first is an empty one
            raise RuntimeError("broken")
        super().step(closure)


@pytest.mark.parametrize("visible", [units.Bernoulli(6), units.Gaussian(6)], ids=["centered", "standardized"])
def test_a_failed_step_leaves_the_usual_coordinates(visible: units.Unit) -> None:
    """The parameters are those after the first step, not those in the coordinates of the optimizer."""
    rows = 50 + 10 * DATA if visible.affine else DATA
    results = []
    for kind in (Broken, torch.optim.SGD):
        rbm = hm.RBM(type(visible)(6), 3).double()
        rbm.initialize(rows, seed=0)
        optimizer = kind(rbm.parameters(), lr=1e-4, momentum=0.5)
        options = {"negative": "exact" if visible.cardinality else "cd:1", "batch_size": 60, "seed": 0}
        if kind is Broken:
            with pytest.raises(RuntimeError, match="broken"):
                hm.fit(rbm, rows, epochs=2, optimizer=optimizer, progress=False, **options)
        else:
            hm.fit(rbm, rows, epochs=1, optimizer=optimizer, progress=False, **options)
        results.append(parameters(rbm))
    for name, value in results[1].items():
        torch.testing.assert_close(results[0][name], value, rtol=1e-9, atol=1e-9)
