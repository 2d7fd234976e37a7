"""Mixing diagnostics of chains that have mixed, chains that have not, and chains too few to judge."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import harmonium as hm
from harmonium.errors import NotMixed
from harmonium.machines import enumeration
from harmonium.machines.mixing import Monitor, integrated_autocorrelation_time
from harmonium.machines.phase_masses import unvisited


def coupled(scale: float) -> hm.RBM:
    rbm = hm.RBM(hm.units.Bernoulli(20), hm.units.Bernoulli(10))
    rbm.initialize(weights="normal", scale=scale, seed=0)
    return rbm


def two_wells(depth: float = 0.9) -> hm.RBM:
    """20 spins coupled to one hidden spin: all up or all down."""
    rbm = hm.RBM(hm.units.Spin(20), hm.units.Spin(1))
    torch.nn.init.constant_(rbm.coupling.weight, depth)
    return rbm


def warned(machine: hm.BoltzmannMachine, n: int, steps: int, seed: int = 0, **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        machine.sample(n, sweeps=steps, seed=seed, **options)
    assert all(issubclass(warning.category, NotMixed) for warning in found)
    return [str(warning.message) for warning in found]


@pytest.mark.slow
def test_chains_that_mix_give_no_warning():
    alarms = sum(bool(warned(coupled(0.3), 100, 30, seed)) for seed in range(100))
    assert alarms <= 1


@pytest.mark.slow
def test_wells_that_are_never_left_are_seen():
    (message,) = warned(two_wells(), 100, 500)
    assert "have not mixed" in message


@pytest.mark.slow
def test_the_distance_between_independent_states_is_said():
    machine = two_wells(0.5)
    (message,) = warned(machine, 200, 60)
    assert "sweeps apart" in message or "does not decay" in message
    assert not warned(machine, 200, 4000)


def test_chains_that_all_start_in_the_same_well_are_seen():
    """Their own states do not show it: they forget their initial states, and their mean does not drift."""
    start = torch.ones(100, 20)
    for seed in range(20):
        (message,) = warned(two_wells(1.5), 100, 100, seed, start=start)
        assert "miss phases of the machine with at least 4" in message


def test_chains_that_visit_every_phase_give_no_warning():
    """Exact draws of strongly coupled machines, after sweeps that leave their distribution as it is."""
    for scale in (0.5, 1.0, 2.0, 4.0):
        machine = coupled(scale)
        draws = enumeration.draws(machine, 200, torch.Generator().manual_seed(0))[0]
        assert unvisited(machine, draws) < 0.05


def test_too_few_sweeps_from_given_states():
    start = torch.ones(100, 20)
    start[::2] = -1
    (message,) = warned(two_wells(), 100, 2, start=start)
    assert "the initial states" in message


@pytest.mark.slow
def test_it_can_be_silenced():
    assert not warned(two_wells(), 100, 500, check_mixing=False)


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize(
    ("n", "steps", "needed"),
    [
        (1, 1000, "1 chain of 1000 sweeps is too few; expected at least 1000 sweeps of 2 or more chains"),
        (1, 1, "1 chain of 1 sweep is too few; expected at least 400 sweeps of 2 or more chains"),
        (3, 20, "3 chains of 20 sweeps are too few; expected at least 267 sweeps of 3 or more chains"),
        (100, 1, "100 chains of 1 sweep are too few; expected at least 20 sweeps of 100 or more chains"),
        (100, 0, "100 chains of 0 sweeps"),
    ],
)
def test_too_little_to_judge_is_said(n, steps, needed):
    """Also for machines that mix at once, because the run does not show it."""
    (message,) = warned(coupled(0.01), n, steps)
    assert message.startswith("mixing could not be judged: ") and needed in message
    assert not warned(coupled(0.01), n, steps, check_mixing=False)


@pytest.mark.parametrize(("n", "steps"), [(2, 400), (2, 800), (2, 1200), (3, 267), (10, 80), (10, 1000), (100, 20)])
@pytest.mark.slow
def test_what_is_needed_is_enough(n, steps):
    """No warning for a machine that mixes at once, except by chance for about one seed in a hundred."""
    assert sum(bool(warned(coupled(0.01), n, steps, seed)) for seed in range(12)) <= 1


def test_few_chains_that_stay_apart_are_seen():
    start = torch.ones(2, 20)
    start[1] = -1
    (message,) = warned(two_wells(), 2, 1000, start=start)
    assert "have not mixed" in message


def test_chains_that_drift_together_are_seen():
    monitor = Monitor(100)
    generator = torch.Generator().manual_seed(0)
    monitor.start(torch.randn(100, 5, generator=generator))
    for step in range(1, 101):
        monitor.observe(step, torch.randn(100, 5, generator=generator) + step / 20)
    assert any("still drifts" in problem for problem in monitor.problems)
    assert monitor.drift(0) > monitor.drift(0.5) > 5


@pytest.mark.slow
def test_the_time_is_that_of_the_slowest_direction():
    """A first-order autoregressive process with coefficient a has τ = (1 + a)/(2(1 - a))."""
    generator = torch.Generator().manual_seed(0)
    a, steps = torch.tensor([0.0, 0.0, 0.0, 0.8]), 4000
    monitor = Monitor(steps, records=steps)
    x = torch.randn(64, 4, generator=generator)
    monitor.start(x)
    for step in range(1, steps + 1):
        x = a * x + (1 - a**2).sqrt() * torch.randn(64, 4, generator=generator)
        monitor.observe(step, x)
    assert monitor.time < 4.5 * 1.1  # 4.5 for the slow direction alone; a projection also contains fast ones
    assert monitor.time > 2


@pytest.mark.slow
def test_records_are_thinned_but_times_stay_in_sweeps():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 3, generator=generator)
    monitor = Monitor(40_000, records=400)
    monitor.start(x)
    for step in range(1, 40_001):
        x = 0.995 * x + math.sqrt(1 - 0.995**2) * torch.randn(64, 3, generator=generator)
        monitor.observe(step, x)
    assert monitor.time == pytest.approx(1.995 / (2 * 0.005), rel=0.2)
    assert math.isfinite(integrated_autocorrelation_time(torch.randn(100, 10, generator=generator)))
