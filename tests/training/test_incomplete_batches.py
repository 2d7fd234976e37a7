"""The last batch of an epoch: fewer rows, the exact gradient of their mean, and every row of the data used once."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from training_helpers import binary, draw, generator, gradients, step

import harmonium as hm
from harmonium.training.batches import TensorSource
from harmonium.training.gradient import CouplingGradient, Gradient


def at_its_states(machine: hm.RBM, gradient: Gradient, state: dict[str, Any], data: Tensor) -> Tensor:
    return gradient.loss()


def exact(machine: hm.RBM, gradient: Gradient, state: dict[str, Any], data: Tensor) -> Tensor:
    return machine.free_energy(data).mean() + torch.logsumexp(-machine.free_energy(machine.visible.enumerate()), 0)


PHASES: dict[str, Any] = {
    "cd": (lambda: hm.CD(2), at_its_states),
    "pcd": (lambda: hm.PCD(1), at_its_states),
    "pcd-chains": (lambda: hm.PCD(1, chains=7), at_its_states),
    "parallel-tempering": (lambda: hm.ParallelTempering(1, rungs=3), at_its_states),
    "exact": (hm.Exact, exact),
    "tap": (lambda: hm.MeanField(3), at_its_states),
    "tap-restarted": (lambda: hm.MeanField(3, persistent=False), at_its_states),
}


@pytest.mark.parametrize("name", PHASES)
def test_the_gradient_is_that_of_the_rows_in_the_batch(name: str) -> None:
    build, loss = PHASES[name]
    machine, phase = binary(5, 3, seed=1, weight=0.5), build()
    data = draw(machine, 12)
    phase = phase.resolved(10)
    with torch.no_grad():
        state = phase.init(machine, data, generator(2))
    _, state = step(phase, machine, data[:10], generator(3), state=state)
    gradient, state = step(phase, machine, data[8:], generator(4), state=state)
    found = gradients(machine)
    machine.zero_grad()
    loss(machine, gradient, state, data[8:]).backward()
    for key, value in gradients(machine).items():
        torch.testing.assert_close(found[key], value, rtol=1e-9, atol=1e-11)
    hidden = gradient.hidden[0]
    torch.testing.assert_close(hidden, machine.hidden_mean(data[8:]).mean(0).detach(), rtol=1e-9, atol=1e-11)


def test_every_row_is_used_once_in_an_epoch() -> None:
    class Counted(TensorSource):
        taken: list[int] = []  # noqa: RUF012

        def take(self, index: Tensor, out: Tensor, generator: Any = None) -> Tensor:
            if generator is not None:
                self.taken += index.tolist()
            return super().take(index, out, generator)

    machine = binary(5, 3, seed=1)
    source = Counted(draw(machine, 47), (5,))
    hm.fit(machine, source, epochs=2, batch_size=10, progress=False)
    assert sorted(Counted.taken) == sorted([*range(47)] * 2)


def test_the_speed_counts_the_rows_of_all_batches_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = binary(5, 3, seed=1)
    clock = itertools.count(step=1.0)
    monkeypatch.setattr("harmonium.training.loop.time.perf_counter", lambda: next(clock))
    (row,) = hm.fit(machine, draw(machine, 47), epochs=1, batch_size=10, progress=False).history
    assert row["samples_per_second"] == 47 / 2  # the clock is read twice after the beginning


def test_a_few_rows_are_one_batch() -> None:
    machine = binary(5, 3, seed=1)
    history = hm.fit(machine, draw(machine, 30), epochs=2, progress=False).history
    assert [row["epoch"] for row in history] == [1, 2]


def test_an_incomplete_batch_moves_the_weights_by_its_share() -> None:
    """Plain SGD over one epoch of batches with a fixed gradient: Σ rows, not Σ batches."""

    class Fixed(hm.Exact):
        def step(self, machine: Any, batch: Any, state: Any, generator: Any) -> Any:
            gradient, state = super().step(machine, batch, state, generator)
            gradient.couplings[0] = CouplingGradient.of_matrix(machine.coupling, torch.ones_like(machine.weight))
            return gradient, state

    machine = binary(5, 3, seed=1)
    before = machine.coupling.weight.detach().clone()
    hm.fit(machine, draw(machine, 25), negative=Fixed(), epochs=1, batch_size=10, centered=False, progress=False,
           optimizer=lambda p: torch.optim.SGD(p, lr=0.1))  # fmt: skip
    torch.testing.assert_close(before - machine.coupling.weight.detach(), torch.full_like(before, 0.25))
