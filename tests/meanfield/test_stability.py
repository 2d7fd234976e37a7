"""Eigenvalues of the linearized iterations, against dense Jacobians of the iterations themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from cases import MACHINES, SOFTMAX, UNITS, generator, rbm
from test_convergence import CAREFUL, METHODS, ends, every_method, ferromagnet, random_rbm
from torch import Tensor

import harmonium as hm
from harmonium import meanfield, units
from harmonium.couplings import Dense
from harmonium.meanfield import Solutions

F64 = torch.float64
STEP = 1e-5


def with_state(found: Solutions, state: list[Tensor]) -> Solutions:
    """Return the rows at another state."""
    depth = len(found.magnetizations)
    n = len(state[0])
    found = found.select(torch.zeros(n, dtype=torch.int64))
    if found.messages:
        return replace(found, messages=state)
    if found.method == "adatap":
        return replace(found, B=state[:depth], A=state[depth:])
    free = int(found.clamped)
    magnetizations = [*found.magnetizations[:free], *state[: depth - free]]
    if found.method == "tap":
        return replace(
            found, magnetizations=magnetizations, variances=[*found.variances[:free], *state[depth - free :]]
        )
    return replace(found, magnetizations=magnetizations)


def moving(found: Solutions) -> list[Tensor]:
    if found.clamped:
        return [*found.magnetizations[1:], *(found.variances[1:] if found.method == "tap" else [])]
    return ends(found)


def jacobian(solve: Any, machine: hm.BoltzmannMachine, found: Solutions, damping: float) -> Tensor:
    """Jacobian of one iteration by central differences: (width, width)."""
    state = moving(found)
    flat = torch.cat([x[0].flatten() for x in state])
    shifts = STEP * torch.eye(len(flat), dtype=F64)
    points = torch.cat([flat + shifts, flat - shifts])
    parts = [
        x.reshape(-1, *y.shape[1:]) for x, y in zip(points.split([x[0].numel() for x in state], 1), state, strict=True)
    ]
    options: dict[str, Any] = {"iterations": 1, "damping": damping}
    if found.clamped:
        options["clamped"] = found.magnetizations[0][:1].repeat_interleave(len(points), 0)
    after = moving(solve(machine, with_state(found, parts), **options))
    images = torch.cat([x.flatten(1) for x in after], 1)
    return ((images[: len(flat)] - images[len(flat) :]) / (2 * STEP)).T


def parallel(solve: Any, machine: hm.BoltzmannMachine, found: Solutions) -> Tensor:
    """The Jacobian of the update of all layers at once, from iterations layer by layer.

    With two groups updated in turn, the Jacobian of an iteration is I + s (J - I) + s² K with s = 1 - damping, so two
    values of the damping determine J.
    """
    eye = torch.eye(sum(x[0].numel() for x in moving(found)), dtype=F64)
    if found.method == "adatap":
        return jacobian(solve, machine, found, 0.0)
    whole, half = ((jacobian(solve, machine, found, 1 - s) - eye) / s for s in (1.0, 0.5))
    return eye + 2 * half - whole


def assert_agrees(solve: Any, machine: hm.BoltzmannMachine, found: Solutions, damping: float) -> None:
    assert found.converged.all() and found.damping == damping
    stability = meanfield.stability(machine, found)
    for row in range(len(found)):
        one = found.select(slice(row, row + 1))
        undamped, used = (torch.linalg.eigvals(jacobian(solve, machine, one, d)) for d in (0.0, damping))
        flow = torch.linalg.eigvals(parallel(solve, machine, one))
        assert stability.radius[row].item() == pytest.approx(undamped.abs().max().item(), abs=1e-6)
        assert stability.rate[row].item() == pytest.approx(used.abs().max().item(), abs=1e-6)
        assert stability.abscissa[row].item() == pytest.approx(flow.real.max().item(), abs=1e-6)
        assert stability.stable[row].item() == bool(flow.real.max() < 1)
        assert stability.attractive[row].item() == bool(used.abs().max() < 1)


def pairs(method: str) -> list[tuple[str, str]]:
    names = [name for name in UNITS if name != "poisson" or method == "naive"]
    if method in ("adatap", "bp"):
        names = [name for name in names if name not in SOFTMAX]
    if method == "bp-exact":
        names = ["bernoulli", "spin", "binomial", "potts", "multinary"]
    return [(name, "bernoulli" if name == "spin" else "spin") for name in names]


@pytest.mark.parametrize(
    ("method", "pair"), [(m, p) for m in METHODS for p in pairs(m)], ids=lambda x: x if isinstance(x, str) else x[0]
)
@pytest.mark.fast_cases(6)
def test_dense_jacobian(method, pair):
    """The largest eigenvalues for every method and unit type, with two units each."""
    machine = rbm(*pair, (2, 2)).build()
    with torch.no_grad():
        machine.coupling.weight.mul_(1.5)
    solve = METHODS[method]
    assert_agrees(solve, machine, solve(machine, damping=0.3, **CAREFUL), 0.3)


@every_method
@pytest.mark.fast_cases(1)
def test_dense_jacobian_of_a_larger_machine(method):
    """Several solutions in parallel, with complex and negative eigenvalues."""
    machine, solve = random_rbm(2.5), METHODS[method]
    found = solve(machine, machine.independent(6, generator("larger")), damping=0.6, **CAREFUL)
    assert_agrees(solve, machine, found.select(found.converged), 0.6)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("method", ["naive", "tap"])
@pytest.mark.fast_cases(3)
def test_dense_jacobian_of_every_machine(name, method):
    """Deep, masked and convolutional machines, free and clamped."""
    machine, solve = MACHINES[name].build(), METHODS[method]
    assert_agrees(solve, machine, solve(machine, damping=0.4, **CAREFUL), 0.4)
    rows = machine.independent(2, generator(name))
    assert_agrees(solve, machine, solve(machine, clamped=rows, damping=0.4, **CAREFUL), 0.4)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("method", ["naive", "tap", "bp", "bp-exact"])
def test_unstable_fixed_points_agree_too(method):
    machine, solve = ferromagnet(n=6, coupling=0.3), METHODS[method]
    found = solve(machine, torch.zeros(1, 6, dtype=F64), damping=0.5, **CAREFUL)
    assert found.magnetizations[0].abs().max() == 0
    assert_agrees(solve, machine, found, 0.5)
    assert not meanfield.stability(machine, found).stable.any()


def test_the_rate_is_that_of_the_iteration():
    """Late in the iteration, distances to the solution shrink by the rate."""
    machine = random_rbm()
    truth = meanfield.tap(machine, **CAREFUL)
    start = truth.magnetizations[0] + 1e-3 * torch.randn(1, 6, generator=generator("rate"), dtype=F64)
    distances = []
    for steps in (100, 101):
        found = meanfield.tap(machine, start, iterations=steps, damping=0.8)
        distances.append((found.magnetizations[0] - truth.magnetizations[0]).norm().item())
    rate = meanfield.stability(machine, replace(truth, damping=0.8)).rate.item()
    assert distances[1] / distances[0] == pytest.approx(rate, rel=1e-3)


def test_a_naive_solution_is_stable_where_the_free_energy_is_minimal():
    """``stable`` means that C⁻¹ - W is positive definite."""
    signs = set()
    for coupling in (0.1, 0.3, 0.35, 0.5):
        machine = ferromagnet(coupling, n=3)
        for start in (0.0, 1.0):
            found = meanfield.naive(machine, torch.full((1, 3), start, dtype=F64), **CAREFUL)
            C = torch.cat([1 - x[0].square() for x in found.magnetizations])
            hessian = torch.diag(1 / C)
            hessian[:3, 3:] = hessian[3:, :3] = -coupling
            minimal = bool(torch.linalg.eigvalsh(hessian).min() > 0)
            assert meanfield.stability(machine, found).stable.item() == minimal
            signs.add(minimal)
    assert signs == {True, False}


@pytest.mark.slow
def test_undamped_tap_converges_up_to_the_line_of_de_almeida_and_thouless():
    """Random weights without biases: every unit has h = 0, and the squared radius is σ⁴."""
    n, m = 300, 200
    weight = torch.randn(n, m, generator=generator("glass"), dtype=F64) / (n * m) ** 0.25
    for sigma in (0.6, 0.9, 1.2):
        machine = hm.RBM(units.Spin(n).double(), units.Spin(m).double(), Dense(n, m, sigma * weight))
        found = meanfield.tap(machine, torch.zeros(1, n, dtype=F64), damping=0.0)
        stability = meanfield.stability(machine, found)
        assert stability.radius.item() ** 2 == pytest.approx(sigma**4, rel=0.1)
        assert stability.attractive.item() == (sigma < 1)


@pytest.mark.slow
def test_a_row_does_not_depend_on_the_others():
    machine = random_rbm(1.5)
    starts = machine.independent(4, generator("rows"))
    limit = int(meanfield.tap(machine, starts).iterations.sort().values[1])
    found = meanfield.tap(machine, starts, max_iterations=limit)
    assert set(found.converged.tolist()) == {True, False}
    together = meanfield.stability(machine, found)
    for row in range(4):
        alone = meanfield.stability(machine, found.select(slice(row, row + 1)))
        for name in ("radius", "rate", "abscissa"):
            x, y = getattr(together, name)[row], getattr(alone, name)[0]
            torch.testing.assert_close(x, y, rtol=0, atol=1e-7, equal_nan=True)
            assert bool(x.isnan()) == (not found.converged[row])
        assert together.stable[row].item() == bool(found.converged[row])


def test_single_precision_and_parameters_that_change_later():
    machine = random_rbm().float()
    found = meanfield.tap(machine)
    stability = meanfield.stability(machine, found)
    expected = meanfield.stability(machine, found).radius
    with torch.no_grad():
        machine.coupling.weight.mul_(3.0)
    assert found.magnetizations[0].dtype == torch.float32 and stability.radius.dtype == F64
    torch.testing.assert_close(stability.radius, expected)
    assert all(parameter.requires_grad for parameter in machine.parameters())


def test_nothing_is_coupled():
    machine = hm.RBM(units.Bernoulli(3), units.Bernoulli(2))
    found = meanfield.stability(machine, meanfield.tap(machine, damping=0.25))
    assert found.radius.tolist() == [0.0] and found.abscissa.tolist() == [0.0]
    assert found.rate.item() == pytest.approx(0.25)
    none = meanfield.stability(machine, meanfield.tap(machine).select(torch.zeros(0, dtype=torch.int64)))
    assert len(none.stable) == len(none.rate) == 0


@pytest.mark.slow
def test_documents_of_any_length():
    weight = 0.3 * torch.randn(4, 3, generator=generator("documents"), dtype=F64)
    free = hm.RBM(units.Multinomial(4), units.Bernoulli(3), Dense(4, 3, weight))
    rows = torch.tensor([[1, 2, 0, 0], [0, 0, 5, 1]], dtype=F64)
    together = meanfield.stability(free, meanfield.tap(free, rows, **CAREFUL))
    for row, start in enumerate(rows):
        fixed = hm.RBM(units.Multinomial(4, total=int(start.sum())), units.Bernoulli(3), Dense(4, 3, weight))
        alone = meanfield.stability(fixed, meanfield.tap(fixed, start[None], **CAREFUL))
        assert together.abscissa[row].item() == pytest.approx(alone.abscissa.item(), abs=1e-8)
