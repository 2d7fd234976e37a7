"""The in-place methods agree with the out-of-place methods, in float32 and in fields of every size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from unit_cases import EVERY, F64
from unit_reference import assert_close

from harmonium import units
from harmonium.units import Unit

EPS = torch.finfo(torch.float32).eps
TINY = 1.2e-38


def fields(unit: Unit, reach: float = 50.0, n: int = 401) -> Tensor:
    """From -reach to reach (n, *shape); the components of a vector unit differ."""
    line = torch.linspace(-reach, reach, n).reshape(-1, *[1] * len(unit.shape))
    return line * torch.linspace(1.0, 0.5, unit.shape[-1]).expand(unit.shape)


def buffers(B: Tensor) -> tuple[Tensor, Tensor]:
    return torch.full_like(B, 77.0), torch.full_like(B, 77.0)


@torch.no_grad()
@pytest.mark.parametrize("quadratic", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_mean_and_variance(name: str, quadratic: bool) -> None:
    unit = EVERY[name]().float()
    B = fields(unit)
    A = torch.full_like(B, 0.125) if quadratic else None
    mean, variance = buffers(B)
    unit.mean_and_variance_(B.clone(), A, mean, variance)
    expected = unit.mean(B, A).to(F64), unit.variance(B, A).to(F64)
    # both methods round: for a continuous unit each is a sum over nodes
    assert_close(mean, expected[0], 16 * EPS, torch.maximum(1e-2 * expected[1].sqrt(), torch.tensor(TINY)))
    assert_close(variance, expected[1], 64 * EPS, TINY / EPS)
    if not quadratic:
        out, _ = buffers(B)
        assert unit.mean_(B.clone(), out) is out
        assert_close(out, expected[0], 16 * EPS, TINY)


@torch.no_grad()
@pytest.mark.parametrize("name", EVERY)
def test_variance_keeps_its_digits(name: str) -> None:
    """Against the same unit in float64, which agrees with the golden values."""
    unit, reference = EVERY[name]().float(), EVERY[name]()
    B = fields(unit)
    mean, variance = buffers(B)
    unit.mean_and_variance_(B.clone(), None, mean, variance)
    expected = reference.variance(B.to(F64))
    # e^B amplifies the rounding of B
    tolerance = 1e-4 if name.startswith(("truncated", "double", "relu", "mixed")) else 300 * EPS
    assert_close(variance, expected, tolerance, TINY / EPS)


def test_binary_variances_in_large_fields() -> None:
    """e^{-20} for Bernoulli units and 4 e^{-40} for spins: not zero."""
    B = torch.tensor([[20.0, -20.0]])
    for unit, expected in ((units.Bernoulli(2), 2.0611536e-9), (units.Spin(2), 4 * 4.2483543e-18)):
        mean, variance = buffers(B)
        with torch.no_grad():
            unit.mean_and_variance_(B, None, mean, variance)
        assert_close(variance, torch.full((1, 2), expected, dtype=F64), 1e-6)


@torch.no_grad()
@pytest.mark.parametrize("name", EVERY)
def test_draws(name: str) -> None:
    """The same draws from the same generator, with or without the mean, in place or not."""
    unit = EVERY[name]().float()
    B = fields(unit) if name != "poisson" else fields(unit, 20.0)

    def seeded() -> torch.Generator:
        return torch.Generator().manual_seed(0)

    expected = unit.sample(B, generator=seeded())
    out, mean = buffers(B)
    unit.mean_(B.clone(), mean)
    unit.sample_(B.clone(), out, seeded(), mean=mean)
    assert torch.equal(out, expected)
    unit.sample_(B.clone(), out, seeded())
    assert torch.equal(out, expected)


@torch.no_grad()
@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0, 14.0, 100.0])
@pytest.mark.parametrize("name", EVERY)
def test_log_partition_gain(name: str, size: float) -> None:
    """ln Z(B) - ln Z(B') for steps of every size, to the rounding of the two; against float64."""
    unit, before = EVERY[name]().float(), EVERY[name]().float()
    with torch.no_grad():
        for bias in before.biases():
            bias.add_(0.125)
    B = fields(unit) if name != "poisson" else fields(unit, 10.0)
    generator = torch.Generator().manual_seed(0)
    step = size * torch.randn(B.shape, generator=generator)
    if name == "poisson":
        step = step.clamp(-5.0, 5.0)
    mean = unit.mean_(B.clone(), torch.empty_like(B))
    found = [unit.log_partition_gain(B.clone(), before, B + step, mean=m) for m in (mean, None)]
    now, then = unit.double().log_partition(B.to(F64)), before.double().log_partition((B + step).to(F64))
    scale = (1 + now.abs() + then.abs()).flatten(1).sum(1) if now.ndim > 1 else 1 + now.abs() + then.abs()
    expected = (now - then).flatten(1).sum(1) if now.ndim > 1 else now - then
    for gain in found:
        assert gain.shape == (len(B),)
        assert bool(((gain.to(F64) - expected).abs() <= 32 * EPS * scale).all()), (
            (gain.to(F64) - expected).abs() / scale
        ).max()
