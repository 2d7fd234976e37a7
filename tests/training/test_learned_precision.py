"""Learned precisions are bounded by the resolution of the data; units that are constant in the data do no harm."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import units
from harmonium.machines import RBM
from harmonium.units import Unit

LEARN = ("bias", "precision")


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(n: int = 200) -> Tensor:
    """Four columns that two hidden causes explain."""
    cause = (torch.rand(n, 2, generator=generator(0)) < 0.5).float()
    return cause @ torch.tensor([[1.5, 1.5, 0.0, 0.0], [0.0, 0.0, 1.5, 1.5]]) + 0.5 * torch.randn(
        n, 4, generator=generator(1)
    )


def trained(visible: Unit, data: Tensor, rate: float, epochs: int) -> RBM:
    machine = RBM(visible, units.Bernoulli(2))
    hm.fit(
        machine,
        data,
        epochs=epochs,
        batch_size=20,
        optimizer=lambda p: torch.optim.SGD(p, lr=rate),
        seed=0,
        progress=False,
    )
    return machine


@torch.no_grad()
def log_likelihood(machine: RBM, data: Tensor, constant: int) -> float:
    """The mean of ln p over all columns but the first ``constant`` ones, which are summed out, in float64."""
    machine = machine.double()
    hidden = machine.hidden.enumerate()
    field = machine.coupling.down(hidden)
    free = machine.visible.log_partition(field)
    prior = machine.hidden.log_weight(hidden).sum(1)
    other = data.double()
    padded = torch.cat([torch.zeros(len(other), constant, dtype=torch.float64), other], 1)
    seen = machine.visible.log_weight(padded)[:, None, constant:] + padded[:, None, constant:] * field[:, constant:]
    joint = prior + free[:, :constant].sum(1) + seen.sum(2)
    return float((joint.logsumexp(1) - (prior + free.sum(1)).logsumexp(0)).mean())


@pytest.mark.slow
def test_constant_columns_are_bounded_and_do_no_harm() -> None:
    data = rows()
    with_constants = torch.cat([torch.zeros(len(data), 2), data], 1)
    machine = trained(units.Gaussian(6, learn=LEARN), with_constants, 0.05, 150)
    alone = trained(units.Gaussian(4, learn=LEARN), data, 0.05, 150)
    precision, bound = machine.visible.precision.detach(), machine.visible.max_precision
    typical = data.double().var(0, correction=0).median().item()
    assert bound is not None and torch.allclose(bound, torch.full((6,), 1e6 / typical), rtol=1e-4)
    assert bool((precision <= bound).all()) and bool((precision[:2] == bound[:2]).all())  # the bound was reached
    assert bool((precision[2:] < 1e-3 * bound[2:]).all())
    assert all(bool(torch.isfinite(p).all()) for p in machine.parameters())
    assert machine.visible.log_precision.abs().max() < 20  # the stored parameter stays at the bound too
    found, expected = log_likelihood(machine, data, 2), log_likelihood(alone, data, 0)
    independent = (-0.5 * (2 * math.pi * math.e * data.double().var(0, correction=0)).log()).sum().item()
    assert expected > independent + 0.5  # the machine has learned
    assert abs(found - expected) < 0.1


@pytest.mark.parametrize("value", [0.5, -2.0])
@pytest.mark.fast_cases(1)
def test_constants_other_than_zero(value: float) -> None:
    """The default rate is stable from the start: the pseudocount keeps the first precision moderate."""
    data = torch.cat([torch.full((200, 1), value), rows()], 1)
    machine = trained(units.Gaussian(5, learn=LEARN), data, 0.005 / value**2, 50)
    assert all(bool(torch.isfinite(p).all()) for p in machine.parameters())
    assert abs(machine.visible.mean(torch.zeros(1, 5))[0, 0].item() - value) < 0.1


CASES: dict[str, Any] = {
    "relu": lambda: units.ReLU(5, learn=LEARN),
    "double-relu": lambda: units.DoubleReLU(5, learn=("bias", "tilt", "precision_plus", "precision_minus")),
    "truncated-gaussian": lambda: units.TruncatedGaussian(5, learn=LEARN),
    "truncated-gauss-bernoulli": lambda: units.TruncatedGaussBernoulli(5, learn=(*LEARN, "log_odds")),
    "mixed": lambda: units.Mixed(units.Gaussian(3, learn=LEARN), units.Gaussian(2, learn=LEARN)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_unit_with_a_learned_precision(name: str) -> None:
    """Many steps with constant columns: no parameter beyond the bound of a precision."""
    data = torch.cat([torch.zeros(200, 1), rows().sigmoid()], 1)
    machine = trained(CASES[name](), data, 0.02, 10 if name.startswith("truncated") else 60)
    values = {name: value.detach() for name, value in machine.visible.natural().items()}
    largest = max(value.abs().max().item() for key, value in values.items() if "precision" in key)
    typical = data[:, 1:].double().var(0, correction=0).median().item()
    assert largest <= 1.01e6 / typical and all(bool(torch.isfinite(value).all()) for value in values.values())


def units_with_bound() -> list[Unit]:
    top = {"max_precision": 4.0, "bias": torch.zeros(3, dtype=torch.float64)}
    values = torch.tensor([1.0, 4.0, 9.0], dtype=torch.float64)
    return [
        units.Gaussian(3, precision=values, learn=LEARN, **top),
        units.ReLU(3, precision=values, learn=LEARN, **top),
        units.DoubleReLU(3, precision_plus=values, precision_minus=values, learn=units.DoubleReLU.naturals, **top),
    ]


@pytest.mark.parametrize("unit", units_with_bound(), ids=lambda unit: unit.name())
def test_the_gradient_at_the_bound(unit: Unit) -> None:
    """Below it the gradient is that of the unbounded unit; at the bound it only points back inside."""
    name = next(name for name in unit.naturals if name.startswith("precision"))
    stored = getattr(unit, f"log_{name}")
    assert getattr(unit, name).tolist() == pytest.approx([1.0, 4.0, 4.0])
    for sign in (1.0, -1.0):
        unit.zero_grad()
        totals = {key: torch.full((3,), sign, dtype=torch.float64) for key in unit.naturals}
        for parameter, value in unit.gradients(totals).items():
            parameter.grad = value
        outside = 4.0 if sign > 0 else 0.0
        assert stored.grad.tolist() == pytest.approx([sign, outside, outside])
    fixed = type(unit)(3, **{name: 9.0}, max_precision=4.0)
    assert getattr(fixed, name).max().item() == pytest.approx(9.0)  # only learned parameters are bounded
    given = unit.with_natural({key: torch.full((3,), 25.0, dtype=torch.float64) for key in unit.naturals})
    assert getattr(given, name).tolist() == pytest.approx([25.0] * 3)  # an annealing path may exceed it


def test_initial_variances() -> None:
    """A small scale next to large ones keeps its variance; constants get a fraction of the typical variance."""
    n = 1000
    scales = torch.tensor([1e4, 1e3, 1e3, 1e-3, 0.0, 0.0], dtype=torch.float64)
    noise = torch.randn(n, 6, generator=generator(2), dtype=torch.float64)
    data = scales * noise + torch.tensor([0.0, 0.0, 5.0, 1.0, 3.0, 0.0])
    data[:, 5] = 1 + 1e-9 * noise[:, 5]  # rounding
    variance = data.var(0, correction=0)
    unit = units.Gaussian(6, bias=torch.zeros(6, dtype=torch.float64), learn=LEARN)
    unit.initialize_from(data)
    free = unit.variance(torch.zeros(6, dtype=torch.float64)).detach()
    typical = variance[:4].median()
    assert bool(((free / variance)[:4] < 2.0).all()) and bool(((free / variance)[:4] > 0.99).all())
    assert torch.allclose(free[4:], typical / (n + 1))
    bound = unit.max_precision
    assert bound is not None and torch.allclose(bound[:3], 1e6 / typical) and torch.allclose(bound[4:], 1e6 / typical)
    assert math.isclose(bound[3].item(), 100 / variance[3].item())
    unit.initialize_from(data, pseudocount=0.0)
    assert torch.allclose(unit.variance(torch.zeros(6, dtype=torch.float64)).detach()[:4], variance[:4])
    unit.initialize_from(torch.full((10, 6), 2.0, dtype=torch.float64))  # only constants
    assert bool(torch.isfinite(unit.precision).all()) and bool(torch.isfinite(unit.bias).all())


def test_the_bound_is_part_of_the_state(tmp_path: Any) -> None:
    machine = RBM(units.Gaussian(4, learn=LEARN), units.Bernoulli(2))
    machine.initialize(rows(), seed=0)
    hm.save(machine, tmp_path / "machine.safetensors")
    again = hm.load(tmp_path / "machine.safetensors")
    assert torch.equal(again.visible.max_precision, machine.visible.max_precision)
    given = RBM(units.Gaussian(4, learn=LEARN, max_precision=50.0), units.Bernoulli(2))
    hm.save(given, tmp_path / "given.safetensors")
    assert hm.load(tmp_path / "given.safetensors").visible.max_precision.tolist() == pytest.approx([50.0] * 4)
