"""The same seed gives identical results; metrics and callbacks do not change training."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from rich.console import Console
from training_helpers import assert_same, binary, draw, generator, parameters, rbm, sgd

import harmonium as hm
from harmonium import units
from harmonium.machines import RBM
from harmonium.training.batches import as_source
from harmonium.training.loop import Training
from harmonium.training.progress import ProgressBar
from harmonium.training.state import derived_seed, flatten, stream

DATA = draw(binary(5, 3, seed=2), 60).float()
PHASES = {
    "cd": lambda: hm.CD(2),
    "pcd": lambda: hm.PCD(1),
    "pcd-chains": lambda: hm.PCD(2, chains=9),
    "exact": hm.Exact,
}


def trained(phase: str = "pcd", seed: int = 0, **options: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    machine, source = RBM(units.Bernoulli(5), units.Bernoulli(3)), as_source(DATA, RBM(5, 3))
    plan = hm.Plan(negative=PHASES[phase](), epochs=4, batch_size=20, seed=seed).resolved(machine, source)
    training = Training(machine, source, plan, **options)
    training.train()
    _, chains = flatten(training.learners[0].state, "chains")
    return parameters(machine), chains


@pytest.mark.parametrize("phase", PHASES)
def test_the_same_seed_gives_the_same_bits(phase: str) -> None:
    first, chains = trained(phase)
    torch.manual_seed(123)  # torch's global generator is not used
    second, others = trained(phase)
    assert_same(first, second)
    assert_same(chains, others)


@pytest.mark.parametrize("phase", PHASES)
def test_other_seeds_differ(phase: str) -> None:
    first, second = trained(phase, 0)[0], trained(phase, 1)[0]
    for name in first:
        assert not torch.equal(first[name], second[name])


def test_training_draws_nothing_from_the_global_generator() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    trained("pcd")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("phase", PHASES)
def test_measuring_does_not_disturb_training(phase: str) -> None:
    plain, chains = trained(phase)
    for options in ({}, {"validation": DATA[:10]}):
        watched, others = trained(phase, **options)
        assert_same(plain, watched)
        assert_same(chains, others)


def test_metrics() -> None:
    machine = binary(5, 3, seed=1)
    data, test = draw(machine, 60), draw(machine, 30, seed=9)
    result = hm.fit(machine, data, epochs=3, batch_size=20, optimizer=sgd(0.0), validation=test, seed=0)
    last = result.history[-1]
    assert last["epoch"] == 3
    assert last["samples_per_second"] > 0
    with torch.no_grad():
        assert last["weight_norm"] == pytest.approx(machine.coupling.weight.norm().item())
        assert last["reconstruction"] == pytest.approx((machine.reconstruct(data) - data).square().mean().item())
        gap = machine.free_energy(test).mean() - machine.free_energy(data).mean()
        assert last["free_energy_gap"] == pytest.approx(gap.item())
    exact = hm.likelihood.pseudo(machine, data).mean().item() / 5  # few sites: all are measured
    assert last["pseudo_likelihood"] == pytest.approx(exact)


def test_metrics_on_a_schedule() -> None:
    machine = binary(5, 3, seed=1)
    history = hm.fit(machine, draw(machine, 60), epochs=601, batch_size=60).history
    assert [row["epoch"] for row in history if "reconstruction" in row] == [*range(4, 601, 4), 601]
    assert [row["epoch"] for row in history] == list(range(1, 602))


@pytest.mark.slow
def test_metrics_of_layers_with_too_many_states_to_visit() -> None:
    """A document of 100 words of 50 has about 10^40 states: there is no pseudo-likelihood, but training continues."""
    rows = torch.distributions.Multinomial(100, torch.ones(50)).sample((20,))
    for unit in (units.Multinomial(50, total=100), units.Multinomial(50)):
        history = hm.fit(RBM(unit, units.Bernoulli(3)), rows, epochs=1, batch_size=10).history
        assert "pseudo_likelihood" not in history[-1]
        assert history[-1]["reconstruction"] > 0
    mixed = rbm(units.Mixed(units.Bernoulli(2), units.Spin(1)), units.Bernoulli(2), 0)
    assert hm.fit(mixed, draw(mixed, 20), epochs=1, batch_size=10).history[-1]["pseudo_likelihood"] < 0


def test_silent_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    trained("cd", progress=True)
    assert capfd.readouterr() == ("", "")


def test_the_bar_on_a_terminal() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120)
    with ProgressBar(4, 1, True, console) as bar:
        bar.update(2, {"pseudo_likelihood": -0.25, "something": 1.0})
    assert "2/4" in output.getvalue()
    assert "pl/site -0.25" in output.getvalue()
    assert "something" not in output.getvalue()
    silent = io.StringIO()
    with ProgressBar(4, 1, False, Console(file=silent, force_terminal=True)) as bar:
        bar.update(2, {})
    assert silent.getvalue() == ""


def test_streams_never_meet() -> None:
    seeds = {derived_seed(seed, purpose, k) for seed in range(20) for purpose in range(4) for k in range(20)}
    assert len(seeds) == 20 * 4 * 20
    assert derived_seed(1, 2) != derived_seed(2, 1)
    assert all(0 <= seed < 2**63 for seed in seeds)
    first, second = torch.rand(5, generator=stream(3, 1)), torch.rand(5, generator=stream(3, 1))
    assert torch.equal(first, second)
    assert derived_seed(-1) != derived_seed(1)


def test_chains_of_a_seed_do_not_repeat_the_order_of_the_rows() -> None:
    """Row orders of the epochs differ, and every epoch visits each row at most once."""
    seen: list[torch.Tensor] = []

    class Watch(hm.CD):
        def step(self, machine: Any, batch: Any, state: Any, generator: Any) -> Any:
            seen.append(batch.visible.clone())
            return super().step(machine, batch, state, generator)

    rows = torch.eye(30, dtype=torch.float64)[torch.randperm(30, generator=generator(0))]
    machine = RBM(units.Bernoulli(30), units.Bernoulli(2)).double()
    hm.fit(machine, rows, negative=Watch(1), epochs=2, batch_size=10, centered=False, seed=1)
    epochs = [torch.cat(seen[:3]).argmax(1), torch.cat(seen[3:]).argmax(1)]
    for order in epochs:
        assert sorted(order.tolist()) == list(range(30))
    assert epochs[0].tolist() != epochs[1].tolist()
