"""The convergence criterion: the residual of the undamped update, for every method and damping."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from cases import MACHINES, generator, rbm
from torch import Tensor

import harmonium as hm
from harmonium import meanfield, units
from harmonium.couplings import Dense
from harmonium.errors import InvalidOption
from harmonium.meanfield import Solutions
from harmonium.training.negative import Batch, MeanField

F64 = torch.float64
METHODS = {
    "naive": meanfield.naive,
    "tap": meanfield.tap,
    "adatap": meanfield.adatap,
    "bp": meanfield.bp,
    "bp-exact": lambda machine, starts=None, **options: meanfield.bp(machine, starts, messages="exact", **options),
}
every_method = pytest.mark.parametrize("method", METHODS)
CAREFUL: dict[str, Any] = {"tolerance": 1e-26, "max_iterations": 5000}


def random_rbm(scale: float = 1.0) -> hm.RBM:
    source = generator("convergence")
    weight = scale * torch.randn(6, 5, generator=source, dtype=F64)
    biases = [0.3 * torch.randn(size, generator=source, dtype=F64) for size in (6, 5)]
    return hm.RBM(units.Bernoulli(6, bias=biases[0]), units.Bernoulli(5, bias=biases[1]), Dense(6, 5, weight))


def ferromagnet(coupling: float = 0.15, n: int = 12) -> hm.RBM:
    """Spins without fields and equal weights: m = 0 is a fixed point, unstable if n · coupling is large enough."""
    return hm.RBM(units.Spin(n).double(), units.Spin(n).double(), Dense(n, n, torch.full((n, n), coupling, dtype=F64)))


def distance(found: Solutions, other: Solutions) -> float:
    pairs = zip(found.magnetizations + found.variances, other.magnetizations + other.variances, strict=True)
    return max((x - y).abs().max().item() for x, y in pairs)


def ends(found: Solutions) -> list[Tensor]:
    """The tensors that an iteration of the method changes."""
    if found.messages:
        return found.messages
    if found.method == "adatap":
        return [*found.B, *found.A]
    return [*found.magnetizations, *(found.variances if found.method == "tap" else [])]


@every_method
@pytest.mark.slow
def test_heavy_damping_does_not_converge_at_once(method):
    machine = random_rbm()
    truth = METHODS[method](machine, **CAREFUL)
    starts = machine.independent(3, generator("starts"))
    found = METHODS[method](machine, starts, damping=0.9999, max_iterations=20)
    assert not found.converged.any()
    assert found.free_energy.isnan().all() and found.iterations.tolist() == [20] * 3
    assert METHODS[method](machine, starts, damping=0.9999, iterations=20).converged.tolist() == [False] * 3
    slow = METHODS[method](machine, starts, damping=0.99, max_iterations=5000)
    fast = METHODS[method](machine, starts, damping=0.5, max_iterations=5000)
    assert slow.converged.all() and fast.converged.all()
    # the tolerance is a mean square of 1e-8, so that both are as close to the solution as residuals of 1e-4 allow
    for one in (slow, fast):
        for row in range(3):
            assert distance(one.select(slice(row, row + 1)), truth) < 2e-3


@every_method
@pytest.mark.parametrize("damping", [0.0, 0.3, 0.9, 0.9999])
def test_the_residual_does_not_depend_on_the_damping(method, damping):
    """One iteration from the same point meets a large tolerance and misses a small one, for every damping."""
    machine, start = random_rbm(), torch.full((1, 6), 0.5, dtype=F64)

    def converges(tolerance: float) -> bool:
        return bool(METHODS[method](machine, start, damping=damping, tolerance=tolerance, max_iterations=1).converged)

    assert converges(1.0)
    assert not converges(1e-5)


@pytest.mark.parametrize("damping", [0.0, 0.5, 0.9])
def test_the_residual_is_that_of_the_undamped_update(damping):
    """Naive mean field of one visible and one hidden unit, by hand: (f(a) - a)² of both, in the order of the sweep."""
    w, b, c, start = 0.8, 0.3, -0.2, 0.9
    machine = hm.RBM(
        units.Bernoulli(1, bias=torch.tensor([b], dtype=F64)),
        units.Bernoulli(1, bias=torch.tensor([c], dtype=F64)),
        Dense(1, 1, torch.tensor([[w]], dtype=F64)),
    )
    sigmoid = lambda x: torch.sigmoid(torch.tensor(x, dtype=F64)).item()  # noqa: E731
    hidden = sigmoid(c + w * start)
    lower = sigmoid(b + w * hidden) - start
    upper = sigmoid(c + w * (start + (1 - damping) * lower)) - hidden
    residual = (lower**2 + upper**2) / 2
    for factor, expected in ((0.999, False), (1.001, True)):
        found = meanfield.naive(machine, [[start]], damping=damping, tolerance=factor * residual, max_iterations=1)
        assert found.converged.tolist() == [expected]


@every_method
@pytest.mark.parametrize("damping", [0.0, 0.5, 0.97])
@pytest.mark.fast_cases(4)
def test_what_has_converged_is_a_fixed_point(method, damping):
    """One more undamped iteration changes nothing by more than the tolerance allows."""
    machine = random_rbm()
    tolerance = 1e-12
    found = METHODS[method](machine, 4, seed=0, damping=damping, tolerance=tolerance, max_iterations=20_000)
    assert found.converged.all()
    more = METHODS[method](machine, found, damping=0.0, iterations=1)
    for x, y in zip(found.magnetizations, more.magnetizations, strict=True):
        assert (x - y).square().sum(1).max() < 11 * tolerance * 4


@pytest.mark.fast_cases(4)
@pytest.mark.parametrize("method", ["tap", "bp"])
@pytest.mark.parametrize("damping", [0.0, 0.5, 0.9])
def test_variances_have_to_converge_too(method, damping):
    """At a symmetric start the magnetizations stay at zero while the variances still increase from zero."""
    machine = ferromagnet(0.05)
    found = METHODS[method](machine, torch.zeros(1, 12, dtype=F64), damping=damping, tolerance=1e-20)
    assert found.converged.all()
    for variance in found.variances:
        torch.testing.assert_close(variance, torch.ones_like(variance), rtol=0, atol=1e-8)
    expected = METHODS[method](machine, **CAREFUL)  # starts with the variances of free units
    torch.testing.assert_close(found.free_energy, expected.free_energy, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["deep", "deep-units", "deep-four", "rbm-masked", "rbm-conv2d", "chain"])
@pytest.mark.parametrize("method", ["naive", "tap"])
@pytest.mark.slow
def test_every_machine_free_and_clamped(name, method):
    machine = MACHINES[name].build()
    rows = machine.independent(3, generator(name))
    for options in ({"start": rows}, {"clamped": rows}):
        exact = METHODS[method](machine, damping=0.2, **options, **CAREFUL)
        early = METHODS[method](machine, damping=0.9999, max_iterations=3, tolerance=1e-10, **options)
        assert exact.converged.all()
        if len(machine.layers) > 2 or "clamped" not in options:  # a clamped RBM starts at its solution
            assert not early.converged.any()
        late = METHODS[method](machine, damping=0.9, max_iterations=5000, tolerance=1e-16, **options)
        assert late.converged.all() and distance(exact, late) < 1e-5


@pytest.mark.slow
def test_rows_end_at_their_own_time_with_heavy_damping():
    """A row that starts at a solution converges at once; the others continue."""
    machine = random_rbm(1.5)
    solved = meanfield.tap(machine, **CAREFUL)
    both = replace(
        Solutions.join([solved, solved]),
        magnetizations=[torch.cat([x, torch.full_like(x, 0.9)]) for x in solved.magnetizations],
    )
    found = meanfield.tap(machine, both, damping=0.98, max_iterations=3000)
    assert found.converged.all()
    assert found.iterations[0] == 1 and found.iterations[1] > 100


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tap", "naive"])
def test_training_stops_at_the_undamped_residual(method):
    """With a tolerance, ``k`` is the largest number of iterations; with strong damping, all of them are needed."""
    machine, data = random_rbm(), random_rbm().independent(4, generator("data"))
    phase = MeanField(200, method=method, damping=0.98, tolerance=1e-6)
    with torch.no_grad():
        _, state = phase.step(machine, Batch(data), phase.init(machine, data, None), None)
    found = state["a"]
    expected = METHODS[method](machine, data, iterations=200, damping=0.98).magnetizations
    first = METHODS[method](machine, data, iterations=1, damping=0.98).magnetizations
    assert max((x - y).abs().max().item() for x, y in zip(first, expected, strict=True)) > 0.1
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-2)


def test_denoising_does_not_converge_at_once():
    machine = random_rbm()
    noisy = machine.independent(3, generator("noisy"))
    options: dict[str, Any] = {"method": "tap", "damping": 0.9999, "max_iterations": 25}
    assert not hm.tasks.denoise(machine, noisy, hm.tasks.BinarySymmetric(0.2), **options).converged.any()


@every_method
@pytest.mark.parametrize("damping", [1.0, 1, 1.5, -0.1, float("nan")])
def test_damping_below_one(method, damping):
    with pytest.raises(InvalidOption, match="damping: expected a number from 0 to below 1"):
        METHODS[method](rbm("spin", "spin").build(), damping=damping)


# -- a fixed point that is unstable -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["naive", "tap", "bp", "bp-exact"])  # adaptive TAP: see below
@pytest.mark.parametrize("damping", [0.0, 0.5, 0.9])
@pytest.mark.fast_cases(3)
def test_a_ferromagnet_leaves_the_unstable_point_or_is_called_unstable(method, damping):
    machine, solve = ferromagnet(), METHODS[method]
    start = torch.full((1, 12), 1e-6, dtype=F64)
    strict = solve(machine, start, damping=damping, tolerance=1e-18, max_iterations=5000)
    assert strict.converged.all() and strict.magnetizations[0].min() > 0.5
    found = meanfield.stability(machine, strict)
    assert found.stable.all() and found.abscissa[0] < 1 and found.attractive.all()
    loose = solve(machine, start, damping=damping, tolerance=1e-6, max_iterations=5000)
    assert loose.converged.all()
    left = bool(loose.magnetizations[0].min() > 0.5)
    assert left or loose.magnetizations[0].max() < 1e-2
    assert meanfield.stability(machine, loose).stable.item() == left
    zero = solve(machine, torch.zeros(1, 12, dtype=F64), damping=damping, tolerance=1e-18)
    assert zero.converged.all() and zero.magnetizations[0].abs().max() == 0
    found = meanfield.stability(machine, zero)
    assert not found.stable.any() and not found.attractive.any()
    assert found.abscissa[0] > 1.2 and found.rate[0] > 1


def test_adaptive_tap_of_a_ferromagnet_has_no_solution_at_zero():
    """The iteration converges there, but the Gaussian at that point has no finite integral."""
    found = meanfield.adatap(ferromagnet(), torch.full((1, 12), 1e-6, dtype=F64), tolerance=1e-20)
    assert found.magnetizations[0].abs().max() < 1e-8
    assert not found.converged.any() and found.free_energy.isnan().all()
