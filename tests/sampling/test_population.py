"""Population annealing: unbiased Z, expectations, families, and the detection of collapse."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from cases import MACHINES, UNITS, generator, id_of, rbm
from hard_machines import make
from oracle import joint

import harmonium as hm
from harmonium.likelihood import Weights, population
from harmonium.sampling.path import uncoupled
from harmonium.sampling.population import population_annealing, resample

CASES = {
    **{id_of(pair): rbm(*pair) for name in UNITS for pair in ((name, "bernoulli"), ("bernoulli", name))},
    **MACHINES,
}
every_case = pytest.mark.parametrize("name", CASES)


def strong(scale=1.5, shape=(8, 5)):
    machine = hm.RBM(*(hm.units.Bernoulli(size) for size in shape)).double()
    machine.initialize(scale=scale, seed=3)
    return machine


def two_wells():
    """All units off or, with three quarters of the mass, all on."""
    machine = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(3)).double()
    with torch.no_grad():
        machine.coupling.weight.fill_(3.0)
        machine.visible.bias.fill_(-4.5)
        machine.hidden.bias.fill_(-17.6)
    return machine


# -- ln Z and expectations --------------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.fast_cases(15)
def test_every_machine(name, dtype):
    case = CASES[name]
    machine = case.build()
    exact = joint(machine, case.nodes(machine))
    machine = machine.to(dtype)
    found = population(machine, 4000, betas=8, seed=generator("population", name))
    draws = found.details["draws"]
    assert draws.samples.dtype == dtype
    low, high = found.details["conditional_interval"]
    assert low < exact.log_partition < high
    assert found.standard_error < 0.05
    p, x = exact.marginal(0), exact.points[0].flatten(1)
    mean = p @ x
    error = (p @ (x - mean).square()).sqrt() / math.sqrt(found.details["weights"].effective_families)
    assert ((draws.mean(draws.samples.double()).flatten() - mean).abs() < 4.5 * error).all()
    assert not found.problems


def small_populations(threshold, runs=600, populations=None):
    """Ẑ/Z of many populations of four states and three temperatures, where ln Ẑ is far from normal."""
    machine = strong(2.0, (5, 4))
    log_z = machine.log_partition()
    source = torch.Generator().manual_seed(0)
    options = {"threshold": threshold, "populations": populations}
    draws = (population_annealing(machine, 4, betas=3, seed=source, **options) for _ in range(runs))
    return torch.tensor([math.exp(Weights(one.log_partitions).log_mean.item() - log_z) for one in draws])


@pytest.mark.slow
@pytest.mark.parametrize(("threshold", "populations"), [(None, 1), (0.0, 1), (0.5, 1), (1.0, 1), (0.5, 2), (1.0, 2)])
def test_z_is_unbiased(threshold, populations):
    ratios = small_populations(threshold, populations=populations)
    error = ratios.std().item() / math.sqrt(len(ratios))
    assert error < 0.05
    assert abs(ratios.mean().item() - 1) < 4 * error
    assert ratios.log().mean().item() < -4 * error  # ln Ẑ is biased, so the test has power


@pytest.mark.slow
def test_wrong_weights_are_found(monkeypatch):
    module = sys.modules["harmonium.sampling.population"]
    right = module._gain
    monkeypatch.setattr(
        module, "_gain", lambda path, state, before: lambda beta: 0.9 * right(path, state, before)(beta)
    )
    ratios = small_populations(0.5)
    assert abs(ratios.mean().item() - 1) > 4 * ratios.std().item() / math.sqrt(len(ratios))


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [None, 0.5])
@pytest.mark.fast_cases(1)
def test_the_error_is_that_of_repeated_runs(threshold):
    machine = strong()
    log_z = machine.log_partition()
    source = torch.Generator().manual_seed(1)
    found = [population(machine, 200, betas=15, threshold=threshold, seed=source) for _ in range(100)]
    spread = torch.tensor([one.value - log_z for one in found]).square().mean().sqrt().item()
    stated = sum(one.standard_error for one in found) / len(found)
    assert spread < 1.2 * stated < 3 * spread  # with resampling the stated error may be too large, but not too small


def test_both_wells_in_the_right_proportion():
    machine = two_wells()
    states, log_p = machine.distribution()
    exact = log_p.exp()[states.mean(1) > 0.5].sum().item()
    assert 0.6 < exact < 0.9
    for threshold in (None, 0.5):
        found = population(machine, 5000, threshold=threshold, seed=1)
        draws, effective = found.details["draws"], found.details["weights"].effective_families
        share = draws.mean((draws.samples.mean(1) > 0.5).double()).item()
        assert abs(share - exact) < 4.5 * math.sqrt(exact * (1 - exact) / effective)
        assert not found.problems


def test_from_data_and_from_an_uncoupled_machine():
    machine = strong()
    log_z = machine.log_partition()
    data = machine.sample(500, sweeps=100, seed=0, check_mixing=False)
    for base in (data, data.numpy(), uncoupled(machine)):
        found = population(machine, 1000, base=base, seed=0)
        assert abs(found.value - log_z) < 4 * found.standard_error


# -- temperatures -----------------------------------------------------------------------------------------------


def test_chosen_temperatures():
    found = population_annealing(strong(), 1000, seed=0)
    assert found.betas[0] == 0.0 and found.betas[-1] == 1.0
    assert all(a < b for a, b in zip(found.betas, found.betas[1:], strict=False))
    weak, hot = (len(population_annealing(strong(scale), 1000, seed=0).betas) for scale in (0.5, 3.0))
    assert weak < len(found.betas) < hot  # more steps for stronger couplings
    again = population_annealing(strong(), 1000, seed=0, betas=found.betas)
    assert again.betas == found.betas


@pytest.mark.slow
def test_the_threshold_says_how_often():
    machine = strong(4.0)
    counts = [population_annealing(machine, 500, betas=20, threshold=t, seed=0).resampled for t in (0, 0.5, 1)]
    assert counts[0] == 1 < counts[1] < counts[2] == 20
    assert population_annealing(machine, 500, betas=20, threshold=None, seed=0).resampled == 0


# -- families ---------------------------------------------------------------------------------------------------


def test_families():
    found = population_annealing(strong(), 400, betas=20, threshold=1.0, seed=0)
    assert found.shares.sum().item() == pytest.approx(1)
    assert 1 < Weights(found.log_partitions, found.shares).effective_families < 400
    assert len(found.families.unique()) <= int((found.shares > 0).sum()) < 400
    assert (found.shares[found.families] > 0).all()
    assert torch.equal(found.log_weights, torch.zeros(400, dtype=torch.float64))


def test_without_selection_every_state_is_a_family():
    found = population(strong(), 400, betas=20, threshold=None, seed=0)
    weights, draws = found.details["weights"], found.details["draws"]
    assert torch.equal(draws.families, torch.arange(400)) and bool((draws.shares > 0).all())
    assert weights.effective_families == pytest.approx(Weights(draws.log_weights).effective.item())
    w = draws.log_weights.exp()
    error = (w.std() / w.mean() / 20).item() * math.sqrt(399 / 397)
    assert found.standard_error == pytest.approx(math.hypot(error, found.details["missed"]))


def test_populations_do_not_see_each_other():
    found = population_annealing(strong(3.0), 400, betas=20, threshold=1.0, populations=4, seed=0)
    assert found.log_partitions.shape == (4,)
    by_population = found.shares.view(4, 100).sum(1)
    assert torch.allclose(by_population, torch.softmax(found.log_partitions, 0))


@pytest.mark.slow
def test_the_interval_is_that_of_the_populations():
    machine = strong()
    log_z = machine.log_partition()
    source = torch.Generator().manual_seed(1)
    found = [population(machine, 500, betas=15, seed=source) for _ in range(100)]
    intervals = [one.details["conditional_interval"] for one in found]
    assert sum(low <= log_z <= high for low, high in intervals) >= 97
    assert all(one.interval == (low, math.inf) for one, (low, _) in zip(found, intervals, strict=True))
    assert not any(one.problems for one in found)


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize(("kind", "seed"), [("spin_glass", 1014), ("binomial", 1009), ("poisson", 1012)])
def test_families_that_die_out_by_chance_are_no_reason_for_distrust(kind, seed):
    """Fewer than one family in ten survives, and the independent populations agree on the correct value."""
    machine = make(kind, seed)
    found = population(machine, 1000, seed=seed)
    weights = found.details["weights"]
    assert weights.effective_families < 100 and weights.effective > 8
    low, high = found.details["conditional_interval"]
    assert low < machine.log_partition() < high < low + 1.5
    assert not found.problems


def test_one_population_has_only_its_families():
    found = population(strong(), 40, betas=10, seed=0)
    weights = found.details["weights"]
    assert len(weights) == 1
    error = math.sqrt((40 / weights.effective_families - 1) / 39)
    assert found.standard_error == pytest.approx(math.hypot(error, found.details["missed"]))


def test_collapse_is_flagged():
    found = population(strong(6.0, (40, 30)), 200, betas=3, seed=0)
    assert "independent populations contribute to ln Z" in found.problems[0]
    assert "families contribute to the population" in found.problems[1]
    assert population(strong(), 1, betas=5, threshold=None, seed=0).standard_error == math.inf


# -- resampling -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_copies_are_systematic():
    source = torch.Generator().manual_seed(0)
    n, total = 50, torch.zeros(50)
    log_w = 2 * torch.randn(n, generator=source, dtype=torch.float64)
    asked = n * torch.softmax(log_w, 0)
    for _ in range(4000):
        copies = torch.bincount(resample(log_w, source), minlength=n)
        assert ((copies >= asked.floor()) & (copies <= asked.ceil())).all()
        total += copies
    part = asked - asked.floor()
    error = (part * (1 - part) / 4000).sqrt()
    assert ((total / 4000 - asked).abs() <= 4.5 * error + 1e-12).all()


def test_equal_weights_keep_everyone():
    assert torch.equal(resample(torch.zeros(777, dtype=torch.float64)), torch.arange(777))


def test_extreme_weights():
    log_w = torch.full((100,), -1e4, dtype=torch.float64)
    log_w[99] = 0.0
    assert torch.equal(resample(log_w), torch.full((100,), 99))


# -- options ----------------------------------------------------------------------------------------------------


def test_same_seed_same_population():
    first, second = (population_annealing(strong(), 50, seed=4) for _ in range(2))
    assert torch.equal(first.samples, second.samples) and torch.equal(first.log_partitions, second.log_partitions)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n ≥ 1"),
        ({"sweeps": 0}, "sweeps ≥ 1"),
        ({"betas": 0}, "at least one step"),
        ({"betas": [0.0, 0.6, 0.5, 1.0]}, "increasing"),
        ({"betas": [0.0, 0.5]}, "from 0 to 1"),
        ({"threshold": 1.5}, "between 0 and 1"),
        ({"n": 10, "populations": 11}, "populations: expected 1 to n = 10, found 11"),
        ({"base": strong()}, "without couplings"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(hm.errors.InvalidOption, match=message):
        population_annealing(strong(), **options)


def test_machines_without_a_partition_function_are_refused():
    machine = hm.RBM(hm.units.Poisson(1), hm.units.Poisson(1))
    torch.nn.init.constant_(machine.coupling.weight, 0.1)
    with pytest.raises(hm.errors.NotNormalizable):
        population_annealing(machine, 10)
