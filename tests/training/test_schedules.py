"""Schedules: their values, and their use in the loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from training_helpers import adam, assert_same, binary, draw, parameters

import harmonium as hm
from harmonium.errors import InvalidOption
from harmonium.training.batches import as_source
from harmonium.training.callbacks import Callback, Progress
from harmonium.training.loop import Training
from harmonium.training.schedules import Clock, Constant, Growing, Linear, Setting


def test_values() -> None:
    assert Constant()(Clock(3, 10, 0.25)) == Setting(1.0, None, None)
    decay = Linear(0.2)
    assert [decay(Clock(1, 10, f)).rate for f in (0.0, 0.2)] == [1.0, 1.0]
    assert decay(Clock(6, 10, 0.6)).rate == pytest.approx(0.5)
    assert decay(Clock(10, 10, 1.0)).rate == 0.0
    grow = Growing(10)
    assert [grow(Clock(e, 100, 0.0)).k for e in (1, 10, 11, 20, 21, 100)] == [1, 1, 2, 2, 3, 10]
    assert [grow(Clock(e, 100, 0.0)).rate for e in (10, 11, 21)] == [1.0, 1 / 2, 1 / 3]


@pytest.mark.parametrize("constant", [-0.1, 1.0, float("nan")])
def test_impossible_decays_are_refused(constant: float) -> None:
    with pytest.raises(InvalidOption, match="constant: expected a fraction"):
        Linear(constant)


def test_impossible_growth_is_refused() -> None:
    with pytest.raises(InvalidOption, match="every: expected at least 1 epoch, found 0"):
        Growing(0)


class Rates(torch.optim.SGD):
    """Record the learning rates of every step."""

    def step(self, closure: Any = None) -> None:
        self.rates = [group["lr"] for group in self.param_groups]
        super().step()


def watch(schedule: hm.training.Schedule, negative: Any, epochs: int) -> list[Any]:
    """Epoch, fraction, learning rates, k and number of rows of every step."""
    machine = binary(5, 3, seed=1)
    groups = [
        {"params": [machine.coupling.weight], "lr": 0.1},
        {"params": [machine.visible.bias, machine.hidden.bias], "lr": 0.02},
    ]
    optimizer, seen = Rates(groups), []
    source = as_source(draw(machine, 40), machine)
    plan = hm.Plan(
        negative=negative, epochs=epochs, batch_size=10, optimizer=optimizer, schedule=schedule, centered=False
    )
    training = Training(machine, source, plan.resolved(machine, source), initialize=False, progress=False)
    (learner,) = training.learners
    gradient = learner.gradient

    def recorded(batch: Any, clock: Clock, *rest: Any) -> Any:
        if seen:
            seen[-1][2] = optimizer.rates
        assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.02]  # unchanged between the steps
        seen.append([clock.epoch, clock.fraction, None, getattr(learner.phase, "k", None), len(batch.visible)])
        return gradient(batch, clock, *rest)

    learner.gradient = recorded  # type: ignore[method-assign]
    training.train()
    seen[-1][2] = optimizer.rates
    return seen


def test_the_optimizer_follows_the_rate_step_by_step() -> None:
    seen = watch(Linear(0.5), hm.CD(1), 4)
    assert len(seen) == 16
    assert [fraction for _, fraction, *_ in seen] == pytest.approx([k / 16 for k in range(16)])
    for _, fraction, (weights, biases), _, _ in seen:
        rate = min(1.0, (1 - fraction) / 0.5)
        assert weights == pytest.approx(0.1 * rate)
        assert biases == pytest.approx(0.02 * rate)


@pytest.mark.parametrize("negative", [hm.CD(1), hm.PCD(1)])
def test_the_sweeps_grow(negative: Any) -> None:
    seen = watch(Growing(2), negative, 6)
    assert [k for epoch, _, _, k, _ in seen] == [k for k in (1, 2, 3) for _ in range(8)]
    assert all(rates == pytest.approx([0.1 / k, 0.02 / k]) for _, _, rates, k, _ in seen)


def larger_batches(clock: Clock) -> Setting:
    return Setting(batch_size=10 if clock.epoch <= 2 else 20 if clock.epoch <= 4 else 8)


@pytest.mark.parametrize("negative", [hm.CD(2), hm.PCD(1), hm.PCD(1, chains=7), hm.Exact()])
def test_the_batch_changes_half_way(negative: Any) -> None:
    seen = watch(larger_batches, negative, 5)
    assert [batch for *_, batch in seen] == [10] * 8 + [20] * 4 + [8] * 5


@pytest.mark.parametrize("stop_after", [1, 2, 3, 4])
@pytest.mark.parametrize("method", ["cd", "pcd", "pcd-7", "exact"])
@pytest.mark.fast_cases(3)
def test_changing_batches_resume_exactly(method: str, stop_after: int, tmp_path: Path) -> None:
    class Stop(Callback):
        def on_epoch(self, progress: Progress) -> None:
            progress.stop = progress.epoch == stop_after

    phases = {"cd": lambda: hm.CD(2), "pcd": hm.PCD, "pcd-7": lambda: hm.PCD(1, chains=7), "exact": hm.Exact}
    data = draw(binary(5, 3, seed=2), 40)

    def train(run: str, **options: Any) -> dict[str, torch.Tensor]:
        machine, negative = binary(5, 3, seed=1), phases[method]()
        hm.fit(
            machine,
            data,
            negative=negative,
            epochs=6,
            batch_size=10,
            seed=0,
            optimizer=adam(0.01),
            schedule=larger_batches,
            run=tmp_path / run,
            **options,
        )
        return parameters(machine)

    whole = train("whole")
    train("broken", callbacks=[Stop()])
    assert_same(whole, train("broken", resume=True))


def test_a_batch_larger_than_the_data_is_all_of_the_data() -> None:
    seen = watch(lambda clock: Setting(batch_size=50 if clock.epoch == 2 else None), hm.CD(1), 2)
    assert [batch for *_, batch in seen] == [10] * 4 + [40]


def test_the_last_batch_of_an_epoch_takes_the_rest_with_its_share_of_the_rate() -> None:
    seen = watch(lambda clock: Setting(batch_size=12), hm.PCD(1), 1)
    assert [batch for *_, batch in seen] == [12, 12, 12, 4]
    assert [rates for _, _, rates, _, _ in seen] == [[0.1, 0.02]] * 3 + [pytest.approx([0.1 / 3, 0.02 / 3])]


@pytest.mark.slow
@pytest.mark.parametrize("plain", [True, False], ids=["sgd", "momentum"])
def test_the_rate_of_the_optimizer_at_the_time_of_the_step_counts(plain: bool) -> None:
    """Also when it was changed after the optimizer's first use: by hand, or by a scheduler of torch."""
    data, momentum = draw(binary(5, 3, seed=1), 40), 0.0 if plain else 0.5

    def train(rates: list[float]) -> dict[str, torch.Tensor]:
        machine = binary(5, 3, seed=2)
        optimizer = torch.optim.SGD(machine.parameters(), lr=123.0, momentum=momentum)
        for rate in rates:
            for group in optimizer.param_groups:
                group["lr"] = rate
            hm.fit(machine, data, negative=hm.Exact(), epochs=1, batch_size=40, optimizer=optimizer, progress=False)
        return parameters(machine)

    def scheduled() -> dict[str, torch.Tensor]:
        machine = binary(5, 3, seed=2)
        optimizer = torch.optim.SGD(machine.parameters(), lr=0.4, momentum=momentum)
        halving = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        class Halve(Callback):
            def on_epoch(self, progress: Progress) -> None:
                halving.step()

        hm.fit(machine, data, negative=hm.Exact(), epochs=3, batch_size=40, optimizer=optimizer, progress=False,
               callbacks=[Halve()], centered=False)  # fmt: skip
        assert halving.get_last_lr() == [0.05]
        return parameters(machine)

    by_hand = binary(5, 3, seed=2)
    optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.4, momentum=momentum)
    for rate in (0.4, 0.2, 0.1):
        for group in optimizer.param_groups:
            group["lr"] = rate
        hm.fit(by_hand, data, negative=hm.Exact(), epochs=1, batch_size=40, optimizer=optimizer, progress=False,
               centered=False)  # fmt: skip
    for name, value in scheduled().items():
        torch.testing.assert_close(value, parameters(by_hand)[name], rtol=1e-12, atol=1e-12)
    assert not torch.equal(train([0.1])["coupling.weight"], train([0.2])["coupling.weight"])


def test_a_rate_of_zero_moves_nothing() -> None:
    machine, data = binary(5, 3, seed=2), draw(binary(5, 3, seed=1), 40)
    before = parameters(machine)
    hm.fit(machine, data, epochs=1, batch_size=10, schedule=lambda clock: Setting(rate=0.0), progress=False)
    assert_same(parameters(machine), before)
