"""Estimates of machines that are hard to sample, with data from one mode: trusted estimates are right.

``benchmarks/adversarial.py`` does the same with 300 machines.
"""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from hard_machines import ROWS, exact_draws, make, one_mode, one_mode_of_38_percent

import harmonium as hm
from harmonium.likelihood import Adaptive, Weights, ais, estimate, reverse_ais
from harmonium.likelihood.annealing import from_weights
from harmonium.likelihood.estimate import (
    CHAINS,
    DATA,
    FREE,
    GIVEN,
    base_of_least_work,
    doubts_of_samples,
    log_partition_interval,
)
from harmonium.likelihood.modes import disagreement
from harmonium.sampling.path import fitted, free, matched, uncoupled

WRONG = 0.5  # nats
KINDS = ("binary", "spin_glass", "ferromagnet", "planted", "hopfield", "two_wells", "mixture", "correlated", "biased")


def draws(kind, seed):
    machine, source = make(kind, seed), torch.Generator().manual_seed(seed)
    return machine, one_mode(machine, ROWS, source), exact_draws(machine, ROWS, source)


@cache
def judged():
    """(kind, error, interval minus the true value, trusted) for a machine of every kind, with data from one mode."""
    rows = []
    for kind, seed in (*((kind, 2001) for kind in KINDS), ("two_wells", 2000), ("two_wells", 2002)):
        machine, data, _ = draws(kind, seed)
        found = estimate(machine, data, betas=200, sampling_sweeps=50, seed=seed)
        exact = hm.likelihood.exact(machine, data).value
        low, high = (end - exact for end in found.interval)
        rows.append((kind, found.value - exact, low, high, found.trustworthy))
    return rows


@pytest.mark.slow
def test_what_is_trusted_is_right():
    assert not [row for row in judged() if row[-1] and abs(row[1]) > WRONG]


@pytest.mark.slow
def test_most_right_results_are_trusted():
    right = [trusted for _, error, _, _, trusted in judged() if abs(error) <= WRONG]
    assert len(right) >= 8 and sum(right) >= 0.6 * len(right)


@pytest.mark.slow
def test_no_interval_misses_the_truth():
    assert not [row for row in judged() if not row[2] <= 0 <= row[3]]


@pytest.mark.slow
def test_data_of_a_mode_of_38_percent():
    """With these data as base, both directions agree on a likelihood that is 0.8 to 0.95 nats too large."""
    machine, data = one_mode_of_38_percent()
    log_z = machine.log_partition()
    stuck, exact = ais(machine, base=data, betas=500, seed=0), hm.likelihood.exact(machine, data).value
    assert stuck.value < log_z - 0.8 and stuck.details["effective_runs"] > 90  # the weights do not show it
    assert "phases" in stuck.problems[0]
    for base in (None, data):
        found = estimate(machine, data, base=base, betas=500, sampling_sweeps=100, seed=0)
        low, high = found.interval
        assert low <= exact <= high
        assert found.problems or abs(found.value - exact) < WRONG


def test_one_direction_has_a_one_sided_interval():
    for seed in range(2000, 2006):
        machine, data, exact = draws("two_wells", seed)
        log_z = machine.log_partition()
        for found in (ais(machine, base=rows, betas=100, seed=0) for rows in (data, exact)):
            low, high = found.interval
            assert low <= log_z and high == math.inf
        low, high = reverse_ais(machine, exact, base=data, betas=100, seed=0).interval
        assert low == -math.inf and log_z <= high


# -- the cross-check ----------------------------------------------------------------------------------------------


def made(weights, value=0.0, reverse=False):
    """An estimate of ``value`` with these log-weights."""
    level = torch.logsumexp(weights, 0) - math.log(len(weights))
    return from_weights(make("two_wells", 0), Weights(weights - level), value, reverse=reverse)


def test_a_cross_check_without_power_is_a_doubt():
    even = 0.1 * torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    few = even.clone()
    few[:3] += 8.0
    forward, reverse = made(even), made(even, reverse=True)
    assert made(few).details["effective_runs"] < 5
    assert doubts_of_samples(forward, reverse, {FREE: made(even)}, None) == []
    for value in (-1.0, 0.0, 1.0):  # an error this large would hide any difference
        (doubt,) = doubts_of_samples(forward, reverse, {FREE: made(few, value)}, None)
        assert "no power" in doubt
    (doubt,) = doubts_of_samples(forward, reverse, {FREE: made(even, -0.7)}, None)
    assert "does not confirm" in doubt
    (doubt,) = doubts_of_samples(forward, reverse, {FREE: made(even), DATA: made(even, 0.7)}, None)
    assert "misses states" in doubt
    assert doubts_of_samples(forward, reverse, {FREE: made(even), DATA: made(few, -3.0)}, None) == []


def test_annealing_from_free_units_needs_power_itself():
    """If it is the estimate, no cross-check from free units confirms it; other bases may be too small."""
    even = 0.1 * torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    few = even.clone()
    few[:8] += 6.0
    reverse = made(even, reverse=True)
    assert doubts_of_samples(made(even), reverse, {CHAINS: made(even, -2.0), DATA: made(few, -3.0)}, None, FREE) == []
    (doubt,) = doubts_of_samples(made(even), reverse, {CHAINS: made(even, 0.7)}, None, FREE)
    assert "misses states" in doubt
    doubts = doubts_of_samples(made(few), reverse, {CHAINS: made(even)}, None, FREE)
    assert any("the annealing from free units has no power" in doubt for doubt in doubts)


def test_which_annealings_widen_the_interval():
    """Free units do, as a check or as the estimate; short chains do not if free units lose less work."""
    even = 0.1 * torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wide = 8 * even
    assert made(wide).details["effective_runs"] > 20

    def high(forward, base, **checks):
        names = {"free": FREE, "chains": CHAINS}
        checks = {names[name]: check for name, check in checks.items()}
        return log_partition_interval(forward, made(even, reverse=True), checks, base, True)[1]

    narrow = high(made(even), CHAINS, free=made(even))
    assert high(made(even), CHAINS, free=made(wide)) > narrow + 0.1
    assert high(made(even), FREE, chains=made(wide)) == narrow
    assert high(made(wide), FREE, chains=made(even)) > narrow + 0.1
    assert high(made(even), GIVEN, free=made(even), chains=made(wide)) > narrow + 0.1


@pytest.mark.parametrize("betas", [40, [0.0, 0.5, 1.0], Adaptive(40, 10)])
def test_the_base_that_loses_less_work_is_chosen(betas):
    machine = make("biased", 0)
    far = uncoupled(machine)
    far.visible.shift_bias(torch.full_like(far.visible.bias, 8.0))
    near = fitted(machine, torch.Generator().manual_seed(0))
    for base, name in ((far, FREE), (near, CHAINS)):
        assert base_of_least_work(machine, {CHAINS: base, FREE: free(machine)}, 50, betas, None) == name


@pytest.mark.slow
def test_the_chosen_base_is_named():
    machine, data, exact = draws("two_wells", 2000)
    options = {"betas": 20, "sampling_sweeps": 5}
    assert estimate(machine, base=data, **options).details["base"] == GIVEN
    found = estimate(machine, exact, **options).log_partition.details
    assert found["base"] in (CHAINS, FREE) and found["base"] not in found["checks"]


@pytest.mark.slow
def test_which_bases_are_compared():
    machine, data, _ = draws("two_wells", 2000)
    options = {"betas": 20, "sampling_sweeps": 5}
    for base, others in ((None, {DATA}), (data, {CHAINS})):
        found = estimate(machine, data, base=base, **options).log_partition
        assert set(found.details["checks"]) == {FREE, *others}


# -- modes --------------------------------------------------------------------------------------------------------


def test_masses_of_modes_agree_between_draws_of_the_same_model():
    source = torch.Generator().manual_seed(0)
    errors = []
    for seed in range(40):
        machine = make(KINDS[seed % len(KINDS)], seed)
        weights = torch.randn(100, generator=source, dtype=torch.float64)
        forward = exact_draws(machine, 100, source)
        errors.append(disagreement(machine, forward, weights, exact_draws(machine, 100, source)))
    assert max(errors) < 4 and sum(error > 3 for error in errors) <= 2


@pytest.mark.parametrize("seed", range(3))
def test_a_mode_that_the_samples_miss_is_found(seed):
    """Half of the states of one mode are removed from the samples; the weights do not change."""
    source = torch.Generator().manual_seed(seed)
    machine = make("ferromagnet", seed)
    wells = exact_draws(machine, 4000, source)
    up, down = (wells[wells.mean(1) * sign > 0] for sign in (1, -1))
    both = torch.cat([up[:50], down[:50]])
    missing = torch.cat([up[50:125], down[50:75]])
    weights = torch.zeros(100, dtype=torch.float64)
    assert disagreement(machine, both, weights, torch.cat([up[50:100], down[50:100]])) < 3
    assert disagreement(machine, both, weights, missing) > 3
    assert disagreement(machine, both, weights, up[50:150]) > 6


# -- the base -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["biased", "potts", "binary"])
def test_short_chains_are_a_better_base_than_free_units(kind):
    machine = make(kind, 2001)
    found = (ais(machine, betas=100, base=base, seed=0, check=False) for base in (None, free(machine)))
    near, far = (one.details["effective_runs"] for one in found)
    assert near > max(60, 1.3 * far)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["chains", "data"])
def test_a_fitted_base_leaves_z_unbiased(base):
    """With few steps, ln Z has a bias that the test can measure, but Z has none."""
    machine = hm.RBM(hm.units.Bernoulli(8), hm.units.Bernoulli(5)).double()
    machine.initialize(scale=3.0, seed=3)
    log_z = machine.log_partition()
    source = torch.Generator().manual_seed(0)
    given = None if base == "chains" else machine.sample(50, sweeps=2, seed=0, check_mixing=False)
    found = [ais(machine, runs=2, betas=2, base=given, check=False, seed=source) for _ in range(400)]
    ratios = torch.tensor([math.exp(one.value - log_z) for one in found])
    assert ratios.log().mean() < -4 * ratios.log().std() / math.sqrt(len(ratios))
    assert abs(ratios.mean().item() - 1) < 4 * ratios.std().item() / math.sqrt(len(ratios))


def test_a_base_has_the_statistics_of_all_layers():
    machine, data, _ = draws("binary", 2003)
    base = matched(machine, data, torch.Generator().manual_seed(0))
    zero = torch.zeros(1, 20, dtype=torch.float64), torch.zeros(1, 12, dtype=torch.float64)
    assert torch.allclose(base.visible.mean(zero[0])[0], data.mean(0), atol=0.02)
    hidden = machine.hidden.mean(machine.coupling.up(data)).mean(0)
    assert torch.allclose(base.hidden.mean(zero[1])[0], hidden, atol=0.1)
    assert not base.coupling.weight.any()


def test_the_base_has_random_numbers_of_its_own():
    machine = make("spin_glass", 2000)
    first, second = (torch.Generator().manual_seed(4) for _ in range(2))
    assert torch.equal(fitted(machine, first).visible.bias, fitted(machine, second).visible.bias)
    assert torch.equal(torch.rand(5, generator=first), torch.rand(5, generator=second))
    taken = torch.Generator().manual_seed(4)
    torch.randint(2**62, (1,), generator=taken)
    fitted(machine, start := torch.Generator().manual_seed(4))
    assert torch.equal(torch.rand(5, generator=start), torch.rand(5, generator=taken))
    with pytest.raises(hm.errors.InvalidData, match="base: expected at least one row"):
        matched(machine, torch.zeros(0, 30))
