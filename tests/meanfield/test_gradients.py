"""The gradient at a fixed solution equals the total derivative of the free energy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from cases import MACHINES, SOFTMAX, UNITS, MachineCase, generator, id_of, rbm

import harmonium as hm
from harmonium import meanfield
from harmonium.meanfield import Solutions

PAIRS = [(name, "binomial") for name in UNITS if name != "poisson"]
PAIRS += [("spin", name) for name in UNITS if name != "poisson"]
SCALAR = [pair for pair in PAIRS if not set(pair) & set(SOFTMAX)]
STEP = 2e-3


def exact_messages(machine: hm.BoltzmannMachine, **options: object) -> Solutions:
    return meanfield.bp(machine, messages="exact", **options)  # type: ignore[arg-type]


def check(case: MachineCase, solve: Callable[..., Solutions]) -> None:
    """Compare with fourth-order finite differences along a random direction in parameter space."""
    machine = case.build()

    def free_energy() -> Solutions:
        found = solve(machine, tolerance=1e-26, damping=0.2, max_iterations=3000)
        assert bool(found.converged.all())
        return found

    parameters = list(machine.parameters())
    assert all(parameter.requires_grad for parameter in parameters)
    meanfield.free_energy(machine, free_energy()).sum().backward()
    directions = [torch.randn(p.shape, generator=generator(case), dtype=p.dtype) for p in parameters]
    slope = sum((p.grad * d).sum().item() for p, d in zip(parameters, directions, strict=True))

    def at(distance: float) -> float:
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=distance)
            value = free_energy().free_energy.item()
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.sub_(direction, alpha=distance)
        return value

    near, far = at(STEP) - at(-STEP), at(2 * STEP) - at(-2 * STEP)
    assert slope == pytest.approx((8 * near - far) / (12 * STEP), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("pair", PAIRS, ids=id_of)
@pytest.mark.fast_cases(4)
def test_tap(pair):
    check(rbm(*pair), meanfield.tap)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.fast_cases(3)
def test_tap_machines(name):
    check(MACHINES[name], meanfield.tap)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.fast_cases(4)
def test_naive(name):
    check(rbm("spin", name), meanfield.naive)


@pytest.mark.parametrize("pair", SCALAR, ids=id_of)
@pytest.mark.fast_cases(3)
def test_adatap(pair):
    check(rbm(*pair), meanfield.adatap)


@pytest.mark.parametrize("name", ["rbm-conv2d", "rbm-masked", "deep", "deep-masked", "deep-relu"])
@pytest.mark.slow
def test_adatap_machines(name):
    check(MACHINES[name], meanfield.adatap)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("pair", [("bernoulli", "spin"), ("potts", "binomial"), ("multinomial", "potts")], ids=id_of)
def test_exact_messages(pair):
    check(rbm(*pair, (2, 2)), exact_messages)


@pytest.mark.fast_cases(2)
@pytest.mark.parametrize("name", ["rbm-conv2d", "rbm-masked", "deep", "deep-masked", "deep-four"])
def test_exact_messages_machines(name):
    check(MACHINES[name], exact_messages)


@pytest.mark.parametrize("name", ["bernoulli", "binomial", "gaussian", "relu", "truncated-gaussian"])
@pytest.mark.slow
def test_relaxed_bp(name):
    check(rbm(name, "spin"), meanfield.bp)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rbm-conv2d", "rbm-masked", "deep", "deep-masked"])
def test_relaxed_bp_machines(name):
    check(MACHINES[name], meanfield.bp)
