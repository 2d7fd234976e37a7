"""Forward and reverse annealed importance sampling against exact partition functions."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import harmonium as hm
from harmonium.likelihood import Adaptive, LogPartition, Weights, ais, estimate, reverse_ais
from harmonium.likelihood.annealing import from_weights, outlying
from harmonium.likelihood.estimate import PHASES, doubts_of_samples
from harmonium.sampling.path import beta_grid, free

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))
from cases import MACHINES, PAIRS, generator, id_of, rbm
from oracle import joint

SOME = [pair for pair in PAIRS if "bernoulli" in pair or "gaussian" in pair]


def exact_draws(case, machine, n, source):
    exact = joint(machine, case.nodes(machine))
    return exact.draw(n, source)[0], exact.log_partition


def assert_brackets(machine, log_z, start, source, temperatures=60):
    """Both intervals contain the exact value at ±3σ, up to the quadrature error."""
    for found in (
        ais(machine, runs=400, betas=temperatures, seed=source),
        reverse_ais(machine, start, betas=temperatures, seed=source),
    ):
        error = max(found.standard_error, 1e-6)
        assert abs(found.value - log_z) < 4.5 * error, found.method
        assert found.details["effective_runs"] > 100
        assert not found.problems


@pytest.mark.slow
@pytest.mark.parametrize("pair", SOME, ids=id_of)
def test_every_unit(pair):
    case = rbm(*pair)
    machine = case.build()
    source = generator("ais", pair)
    start, log_z = exact_draws(case, machine, 400, source)
    assert_brackets(machine, log_z, start, source)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.fast_cases(3)
def test_every_machine(name):
    case = MACHINES[name]
    machine = case.build()
    source = generator("ais", name)
    exact = joint(machine, case.nodes(machine))
    forward = ais(machine, runs=400, betas=60, seed=source)
    assert abs(forward.value - exact.log_partition) < 4.5 * max(forward.standard_error, 1e-6)


def strong():
    machine = hm.RBM(hm.units.Bernoulli(10), hm.units.Bernoulli(6)).double()
    machine.initialize(scale=1.5, seed=3)
    return machine


@pytest.mark.slow
def test_coverage_and_order_of_the_two_directions():
    machine = strong()
    log_z = machine.log_partition()
    states, log_p = machine.distribution()
    inside, forward, reverse = 0, [], []
    for seed in range(60):
        source = torch.Generator().manual_seed(seed)
        start = states[torch.multinomial(log_p.exp(), 50, replacement=True, generator=source)]
        pair = (
            ais(machine, runs=50, betas=150, seed=source),
            reverse_ais(machine, start, betas=150, seed=source),
        )
        inside += sum(
            low <= log_z <= high for low, high in (estimate.details["conditional_interval"] for estimate in pair)
        )
        forward.append(pair[0].value)
        reverse.append(pair[1].value)
    assert inside >= 117  # of 120 three-sigma intervals
    error = np.std(forward) / 60**0.5, np.std(reverse) / 60**0.5
    assert np.mean(forward) < log_z + 3 * error[0]
    assert np.mean(reverse) > log_z - 3 * error[1]


@pytest.mark.slow
def test_from_data_and_from_an_earlier_machine():
    machine = strong()
    log_z = machine.log_partition()
    data = machine.sample(500, sweeps=100, seed=0)
    earlier = hm.sampling.Path(machine).machine(0.8)
    for base in (data, earlier):
        estimate = ais(machine, runs=200, betas=200, base=base, seed=0)
        low, high = estimate.details["conditional_interval"]
        assert low < log_z < high


def test_steps_so_large_that_the_fast_gain_overflows():
    machine = hm.RBM(hm.units.Bernoulli(3), hm.units.Bernoulli(2))
    with torch.no_grad():
        machine.coupling.weight.fill_(-200.0)
        machine.hidden.bias.fill_(5.0)
    estimate = ais(machine, runs=500, betas=2, seed=0)
    assert np.isfinite(estimate.value)


def test_too_few_temperatures_are_flagged():
    machine = hm.RBM(hm.units.Bernoulli(60), hm.units.Bernoulli(40))
    machine.initialize(scale=1.5, seed=0)
    estimate = ais(machine, betas=3, base=free(machine), seed=0)
    assert "effective sample size" in estimate.problems[0]


def test_outliers():
    weights = torch.tensor([0.0, 0.1, -0.1, 0.05, -0.05, 9.0], dtype=torch.float64)
    assert outlying(weights).tolist() == [False] * 5 + [True]
    kept = from_weights(strong(), Weights(weights), 0.0)
    assert kept.value > 5  # one outlier dominates the estimate, and problems reports it
    assert kept.problems


@pytest.mark.slow
def test_estimate_agrees_with_enumeration_and_says_so():
    data = hm.data.load("digits", binarize="threshold")
    machine = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(10))
    hm.fit(machine, data, epochs=20, seed=0, progress=False)
    found = hm.likelihood.estimate(machine, data, betas=1000, sampling_sweeps=200, seed=0)
    exact, sides = hm.likelihood.exact(machine), found.log_partition.details
    assert sides["forward"].value - 0.2 < exact.value < sides["reverse"].value + 0.2
    assert found.trustworthy and found.interval[0] < exact.log_likelihood(data).value < found.interval[1]


def test_the_likelihood_of_other_data_needs_no_other_annealing():
    machine = strong()
    here, there = (machine.sample(50, sweeps=20, seed=seed, check_mixing=False) for seed in (0, 1))
    first = estimate(machine, here, runs=20, betas=50, sampling_sweeps=20, seed=3)
    again = first.log_partition.log_likelihood(there)
    assert again.log_partition is first.log_partition and again.problems == first.problems
    expected = -machine.free_energy(there).mean().item() - first.log_partition.value
    assert again.value == pytest.approx(expected, abs=1e-12)
    known = first.log_partition.details["checks"]
    alone = estimate(machine, runs=20, betas=50, sampling_sweeps=20, seed=3)
    assert isinstance(alone, LogPartition) and set(known) == {*alone.details["checks"], "the data"}
    assert alone.details["forward"].value == first.log_partition.details["forward"].value


def test_every_annealing_has_its_own_random_numbers(monkeypatch):
    """The pilots share theirs: they compete under the same conditions, and nothing else comes from them."""
    module, seeds = sys.modules["harmonium.likelihood.estimate"], []

    def watched(function):
        def run(*arguments, **options):
            seeds.extend(x.initial_seed() for x in options.values() if isinstance(x, torch.Generator))
            return function(*arguments, **options)

        return run

    for name in ("ais", "reverse_ais", "along", "phases"):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    machine = strong()
    rows = machine.sample(20, sweeps=5, seed=0, check_mixing=False)
    for base, number in ((None, 6), (rows, 6)):
        seeds.clear()
        estimate(machine, rows, base=base, runs=10, betas=20, sampling_sweeps=20)
        assert len(seeds) == number == len(set(seeds))


def test_two_wells_are_measured_by_their_phases():
    machine = two_wells(-39.8)
    wells = torch.cat([torch.zeros(50, 40), torch.ones(50, 40)])
    found = hm.likelihood.estimate(machine, betas=20, samples=wells, seed=0)
    assert doubted(found)
    n = torch.arange(41, dtype=torch.float64)
    ways = math.lgamma(41) - torch.lgamma(n + 1) - torch.lgamma(41 - n)
    log_z = torch.logsumexp(ways - 30 * n + 30 * torch.nn.functional.softplus(2 * n - 39.8), 0).item()
    assert found.method == PHASES and found.value == pytest.approx(log_z, abs=0.05)
    assert found.trustworthy


def doubted(found):
    """The reasons to doubt the samples of an estimate, whatever the phases say."""
    names = "forward", "reverse", "checks", "round_trips", "base"
    return doubts_of_samples(*(found.details[name] for name in names))


def two_wells(hidden_bias):
    """All off, of weight about 1, or all on, of weight e^{30(40 + hidden_bias)}: no chain crosses between them."""
    machine = hm.RBM(hm.units.Bernoulli(40), hm.units.Bernoulli(30))
    with torch.no_grad():
        machine.coupling.weight.fill_(2.0)
        machine.visible.bias.fill_(-30.0)
        machine.hidden.bias.fill_(hidden_bias)
    return machine


@pytest.mark.slow
@pytest.mark.parametrize("temperatures", [2000, Adaptive(2000, 100), torch.linspace(0, 1, 2001).tolist()])
def test_a_well_that_data_and_samples_miss_is_found(temperatures):
    off = torch.zeros(100, 40)
    missed = estimate(two_wells(-39.8), off, betas=temperatures, samples=off, seed=0).log_partition
    assert abs(missed.details["gap"]) < 0.1  # the two directions agree on a value that is wrong by six nats
    doubts = doubted(missed)
    found = {name for name in ("misses states", "masses of modes") for doubt in doubts if name in doubt}
    assert found == {"misses states", "masses of modes"} and len(doubts) == 2
    assert missed.method == PHASES and missed.trustworthy and not missed.details["bounded"]
    seen = estimate(two_wells(-40.2), off, betas=temperatures, samples=off, seed=0)
    assert seen.problems == ()  # here the other mode has no mass
    few = estimate(two_wells(-40.2), off, betas=300, samples=off, seed=0).log_partition
    doubts = doubted(few)
    assert "no power" in doubts[0] and few.trustworthy  # the phases agree


@pytest.mark.slow
def test_no_seed():
    data = torch.zeros(5, 10)
    assert math.isfinite(estimate(strong(), data, runs=20, betas=50, sampling_sweeps=5, seed=None).value)


def test_a_likelihood_has_the_interval_of_ln_z_and_the_error_of_its_rows():
    machine, weights = strong(), Weights(torch.tensor([0.0, 0.1, 0.2, 0.1, 0.1, 0.1], dtype=torch.float64))
    data = machine.sample(30, sweeps=20, seed=0, check_mixing=False)
    log_z = from_weights(machine, weights, 3.0)
    found, free_energy = log_z.log_likelihood(data), machine.free_energy(data)
    assert found.value == pytest.approx(-free_energy.mean().item() - log_z.value, abs=1e-12)
    assert found.interval == pytest.approx((-math.inf, -free_energy.mean().item() - log_z.interval[0]))
    assert found.standard_error == pytest.approx(free_energy.std().item() / 30**0.5)
    frequencies = (data.sum(0) + 1) / 32  # with one count of each value added
    terms = torch.where(data > 0, frequencies, 1 - frequencies).log()
    assert found.baseline == pytest.approx(terms.sum(1).mean().item())
    gain = found.minus(hm.likelihood.exact(machine).log_likelihood(data))
    assert gain.value == pytest.approx(machine.log_partition() - log_z.value)
    assert gain.standard_error == pytest.approx(log_z.standard_error)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite_are_not_trusted(bad):
    weights = torch.zeros(50, dtype=torch.float64)
    assert not Weights(weights).problems()
    weights[7] = bad
    found = from_weights(strong(), Weights(weights), 0.0)
    assert "1 of 50 runs are not finite" in found.problems[0]
    assert found.interval == (-math.inf, math.inf)


@pytest.mark.parametrize("temperatures", [20, Adaptive(20, 10)])
def test_one_run_has_no_error_bar(temperatures):
    start = torch.zeros(1, 10)
    for found in (
        ais(strong(), runs=1, betas=temperatures),
        reverse_ais(strong(), start, betas=temperatures),
    ):
        assert math.isfinite(found.value)
        assert found.interval == (-math.inf, math.inf)
        assert found.problems == ("a single run gives no standard error: use more runs",)


VECTORS = {
    "visible": lambda: hm.RBM(hm.units.Multinomial(3, total=4), hm.units.Bernoulli(3)),
    "hidden": lambda: hm.RBM(hm.units.Bernoulli(4), hm.units.Multinomial(3, total=4)),
    "both": lambda: hm.RBM(hm.units.Multinomial(3, total=4), hm.units.Multinomial(3, total=2)),
    "mixed": lambda: hm.RBM(hm.units.Mixed(hm.units.Multinomial(3, total=2)), hm.units.Gaussian(1)),
}


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.fast_cases(1)
def test_a_layer_of_one_vector_unit(name):
    machine = VECTORS[name]().double()
    machine.initialize(scale=0.6, seed=1)
    for unit in machine.layers:
        unit.shift_bias(torch.linspace(-0.5, 0.5, unit.size, dtype=torch.float64).view(unit.shape))
    states, log_p = machine.distribution()
    source = generator("vector", name)
    start = states[torch.multinomial(log_p.exp(), 400, replacement=True, generator=source)]
    assert_brackets(machine, machine.log_partition(), start, source)


@pytest.mark.slow
def test_the_pilot_has_states_of_its_own(monkeypatch):
    module = sys.modules["harmonium.sampling.annealing"]
    began, anneal = [], module._anneal

    def watched(path, state, *arguments, **options):
        began.append(state[0].clone())
        return anneal(path, state, *arguments, **options)

    monkeypatch.setattr(module, "_anneal", watched)
    machine = strong()
    low, high = ais(machine, runs=200, betas=Adaptive(200, 50), seed=0).details["conditional_interval"]
    assert low < machine.log_partition() < high
    pilot, main = began
    assert not torch.equal(pilot, main)


BAD_ROWS = [
    (torch.full((2, 10), 255.0), "expected binary values"),
    (torch.full((2, 10), torch.nan), "expected finite"),
    (torch.zeros(0, 10), "at least one row"),
    (torch.zeros(2, 9), "expected shape"),
]


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS)
def test_data_that_are_refused(rows, message):
    machine = strong()
    with pytest.raises(hm.errors.InvalidData, match=message):
        ais(machine, runs=5, betas=5).log_likelihood(rows)
    with pytest.raises(hm.errors.InvalidData, match=message):
        estimate(machine, rows, runs=5, betas=5, sampling_sweeps=2)


def test_states_to_start_from_that_are_refused():
    with pytest.raises(hm.errors.InvalidData, match="start: expected binary"):
        reverse_ais(strong(), torch.full((2, 10), 0.5), betas=5)
    with pytest.raises(hm.errors.InvalidData, match="start: expected at least one"):
        reverse_ais(strong(), torch.zeros(0, 10), betas=5)
    with pytest.raises(hm.errors.InvalidData, match="base: expected at least one"):
        ais(strong(), base=torch.zeros(0, 10), betas=5)


def test_bad_options():
    machine = strong()
    with pytest.raises(hm.errors.InvalidOption, match="runs: expected at least one"):
        ais(machine, runs=0)
    with pytest.raises(hm.errors.InvalidOption, match="at least one step"):
        Adaptive(betas=0)
    with pytest.raises(hm.errors.InvalidOption, match="increasing"):
        ais(machine, betas=[0.0, 0.7, 0.6, 1.0])
    with pytest.raises(hm.errors.InvalidOption, match="at least one"):
        beta_grid(0)


def scaled(machine: hm.RBM, factor: float) -> hm.RBM:
    """The machine with weaker couplings, like an earlier checkpoint."""
    earlier = hm.RBM(hm.units.Bernoulli(10), hm.units.Bernoulli(6)).double()
    earlier.load_state_dict(machine.state_dict())
    with torch.no_grad():
        earlier.coupling.weight.mul_(factor)
    return earlier


@pytest.fixture
def stages() -> list[hm.RBM]:
    machine = hm.RBM(hm.units.Bernoulli(10), hm.units.Bernoulli(6)).double()
    machine.initialize(scale=1.5, seed=3)
    return [scaled(machine, 0.3), scaled(machine, 0.7), machine]


@pytest.mark.slow
def test_waypoints_bracket_the_exact_value(stages):
    *early, machine = stages
    exact = machine.log_partition()
    states, log_p = machine.distribution()
    chosen = torch.multinomial(log_p.exp(), 400, replacement=True, generator=torch.Generator().manual_seed(0))
    forward = ais(machine, runs=400, betas=300, waypoints=early, seed=0)
    reverse = reverse_ais(machine, states[chosen], betas=300, waypoints=early, seed=0)
    for found in (forward, reverse):
        low, high = found.details["conditional_interval"]
        assert low < exact < high
        assert high - low < 0.5
    other = ais(machine, runs=400, betas=300, seed=0)
    assert not torch.equal(*(found.details["weights"].log_weights for found in (other, forward)))


@pytest.mark.slow
def test_waypoints_may_lead_anywhere(stages):
    """The path is arbitrary: with an unrelated waypoint, the mean weight is still Z."""
    wild = hm.RBM(hm.units.Bernoulli(10), hm.units.Bernoulli(6)).double()
    wild.initialize(scale=0.5, seed=9)
    found = ais(stages[-1], runs=1000, betas=600, waypoints=[wild], seed=1)
    low, high = found.details["conditional_interval"]
    assert low < stages[-1].log_partition() < high


def test_a_way_needs_a_step_for_every_leg(stages):
    *early, machine = stages
    for wrong in (2, [0.0, 1.0], Adaptive(100)):
        with pytest.raises(hm.errors.InvalidOption, match="3 legs"):
            ais(machine, betas=wrong, waypoints=early)


@pytest.mark.slow
def test_an_estimate_along_the_run(stages):
    *early, machine = stages
    data = machine.sample(500, sweeps=50, seed=0)
    found = estimate(machine, data, betas=300, waypoints=early, sampling_sweeps=200)
    assert found.trustworthy
    assert found.log_partition.value == pytest.approx(machine.log_partition(), abs=0.1)
