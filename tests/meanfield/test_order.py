"""The order of the error of ln Z in the weights: second for naive mean field, third for the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from cases import FINITE, MACHINES, SOFTMAX, UNITS, MachineCase, id_of, rbm
from torch import Tensor

from harmonium import meanfield
from harmonium.meanfield import Solutions

SCALES = (0.4, 0.3, 0.2, 0.1)
PAIRS = [(name, "binomial") for name in UNITS if name != "poisson"]
PAIRS += [("spin", name) for name in UNITS if name != "poisson"]
SCALAR = [pair for pair in PAIRS if not set(pair) & set(SOFTMAX)]


def quadratic_error(case: MachineCase, solve: Callable[..., Solutions]) -> float:
    """The coefficient of s² in the error of ln Z with weights s·W, from as many scales as coefficients s² to s⁵."""
    errors = []
    for scale in SCALES:
        machine = case.build()
        with torch.no_grad():
            for coupling in machine.couplings:
                coupling.weight.mul_(scale)
        found = solve(machine, tolerance=1e-22, damping=0.0)
        assert bool(found.converged.all())
        errors.append(-found.free_energy.item() - machine.log_partition())
    s = torch.tensor(SCALES, dtype=torch.float64)
    powers: Tensor = torch.stack([s**n for n in range(2, 2 + len(s))], 1)
    return torch.linalg.solve(powers, torch.tensor(errors, dtype=torch.float64))[0].item()


@cache
def naive_error(case: MachineCase) -> float:
    return quadratic_error(case, meanfield.naive)


def check_third_order(case: MachineCase, solve: Callable[..., Solutions]) -> None:
    naive, better = naive_error(case), quadratic_error(case, solve)
    assert naive < -1e-3  # a lower bound, not tight
    assert abs(better) < 5e-3 * abs(naive)


@pytest.mark.parametrize("pair", PAIRS, ids=id_of)
@pytest.mark.fast_cases(4)
def test_tap(pair):
    check_third_order(rbm(*pair, (2, 2)), meanfield.tap)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.fast_cases(3)
def test_tap_machines(name):
    check_third_order(MACHINES[name], meanfield.tap)


@pytest.mark.slow
@pytest.mark.parametrize("pair", [("potts", "potts"), ("mixed", "multinomial"), ("mixed", "mixed")], ids=id_of)
def test_tap_softmax_on_both_sides(pair):
    check_third_order(rbm(*pair, (2, 1)), meanfield.tap)


@pytest.mark.parametrize("method", ["adatap", "bp"])
@pytest.mark.parametrize("pair", SCALAR, ids=id_of)
@pytest.mark.fast_cases(8)
def test_others(pair, method):
    check_third_order(rbm(*pair, (2, 2)), getattr(meanfield, method))


@pytest.mark.parametrize("name", [name for name in FINITE if name not in ("mixed", "categories")])  # no common values
def test_exact_messages(name):
    check_third_order(rbm(name, "spin", (2, 2)), lambda *a, **k: meanfield.bp(*a, messages="exact", **k))
