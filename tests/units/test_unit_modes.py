"""The mode of every unit has the largest weight of all states, in fields of every size."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor
from unit_cases import EVERY, F64, SCALAR, t
from unit_reference import compositions

from harmonium import units
from harmonium.units import Unit

FIELDS = [0.0, *(sign * size for size in (0.3, 1.0, 3.0, 10.0, 40.0, 100.0, 1e3, 1e4) for sign in (-1.0, 1.0))]


def test_every_unit_is_tried() -> None:
    ours = {name for name, kind in Unit.registry.items() if kind.__module__.startswith("harmonium.units")}
    elsewhere = {"categories", "ratings"}  # groups of Potts units, compared with these in files of their own
    assert ours - elsewhere <= set(EVERY)


def candidates(unit: Unit, mode: Tensor) -> Tensor:
    """States to compare with: all of a finite support, otherwise a grid, the neighbors of the mode and the mode."""
    states = unit.support.states()
    if states is not None:
        return states
    if unit.name() == "poisson":
        near = mode[:, None] + torch.arange(-3.0, 4.0, dtype=F64)
        return torch.cat([near.flatten(), torch.arange(200, dtype=F64)]).clamp_min(0.0)
    low, high = (getattr(unit.support, end) for end in ("low", "high"))
    steps = torch.cat([10.0 ** torch.arange(-6, 1, dtype=F64), -(10.0 ** torch.arange(-6, 1, dtype=F64))])
    near = mode[:, None] * (1 + 1e-2 * steps) + 1e-2 * steps
    grid = torch.linspace(max(low, -2e4), min(high, 2e4), 4001, dtype=F64)
    return torch.cat([near.flatten(), grid, t(0.0)]).clamp(low, high)


@pytest.mark.parametrize("dtype", [F64, torch.float32])
@pytest.mark.parametrize("name", SCALAR)
def test_scalar_units(name: str, dtype: torch.dtype) -> None:
    """No state has a larger weight, up to rounding of the mode; the reference is in float64."""
    fields = [B for B in FIELDS if name != "poisson" or B <= 10]  # e^B must be finite
    unit, reference = EVERY[name]().to(dtype), EVERY[name]()
    for B in fields:
        field = torch.full((1, 2), B, dtype=dtype)
        mode = unit.mode(field)
        unit.check(mode)
        assert mode.dtype == dtype
        mode64 = mode.detach().to(F64)
        others = candidates(reference, mode64[0])[:, None].expand(-1, 2)
        best = (reference.log_weight(mode64) + B * mode64).detach()
        weights = (reference.log_weight(others) + B * others).detach()
        # the mode of a continuous unit is rounded; the weight decreases with the square of the error
        slack = 1e-12 * (1 + best.abs()) + (0.0 if dtype == F64 or reference.support.states() is not None else 1e-5)
        assert bool((weights.max(0).values <= best + slack).all()), (B, mode, best, weights.max(0))


@pytest.mark.fast_cases(1)
@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_potts_and_mixed(dtype: torch.dtype) -> None:
    for B in itertools.product([-1e4, -3.0, 0.0, 0.5, 1e4], repeat=3):
        potts = EVERY["potts"]().to(dtype)
        field = torch.tensor(B, dtype=dtype).expand(1, 2, 3)
        total = (potts.bias + field)[0].double()
        assert torch.equal((potts.mode(field)[0].double() * total).sum(-1), total.max(-1).values)
        mixed = EVERY["mixed"]().to(dtype)
        field = torch.tensor([[B[0], B[1], *B]], dtype=dtype)
        mode = mixed.mode(field)
        mixed.check(mode)
        assert mode[0, 0] == float(B[0] + 0.25 > 0)
        assert mode[0, 1] == max(0.0, B[1] - 0.5)
        assert (mode[0, 2:] * (field[0, 2:] + t(0.25, -0.5, 0.0).to(dtype))).sum() == max(
            b + c for b, c in zip(B, (0.25, -0.5, 0.0), strict=True)
        )


MULTINOMIAL_FIELDS = [
    [0.0, -200.0, 0.0],
    [0.0, 0.0, 0.0],
    [1e4, 0.0, -1e4],
    [-1e4, -1e4, -1e4],
    [1e4, 1e4, 0.0],
    [math.log(2), 0.0, 0.0],
    [math.log(3), math.log(2), 0.0],
    [0.3, -0.2, 5.0],
    [-0.1, 0.0, 0.1],
    [800.0, 0.0, 799.0],
]


def log_weights(states: Tensor, field: Tensor) -> Tensor:
    """ln of the weight of each state; 0·(-∞) does not occur, because fields are finite."""
    return states @ field - torch.lgamma(states + 1).sum(-1)


@pytest.mark.parametrize("dtype", [F64, torch.float32])
@pytest.mark.parametrize("total", [1, 2, 3, 5, 12])
def test_multinomial_against_all_counts(total: int, dtype: torch.dtype) -> None:
    states = torch.tensor(compositions(total, 3), dtype=F64)
    drawn = 4 * torch.randn(150, 3, generator=torch.Generator().manual_seed(total))
    fields = torch.cat([torch.tensor(MULTINOMIAL_FIELDS, dtype=dtype), drawn.to(dtype)])
    unit = units.Multinomial(3, total=total).to(dtype)
    modes = unit.mode(fields)
    unit.check(modes)
    for field, mode in zip(fields.double(), modes.double(), strict=True):
        field = field - field.max()
        best = log_weights(states, field).max().item()
        assert math.isclose(log_weights(mode, field).item(), best, rel_tol=1e-12, abs_tol=1e-9), (field, mode)


def test_multinomial_of_documents_of_different_lengths() -> None:
    """Each row has its own length, including an empty document."""
    documents = torch.tensor([[0.0, 0, 0, 0], [1, 0, 0, 0], [2, 3, 0, 1], [5, 5, 1, 0], [0, 0, 7, 0]])
    bias = torch.tensor([0.5, -1.0, 0.0, -30.0])
    unit = units.Multinomial(4, bias=bias).conserving(documents)
    field = torch.tensor([[0.0, 0, 0, 0], [0, 9, 0, 0], [1, 2, 1, 31], [0, 0, -200, 0], [-1e3, 1e3, 0, 0]])
    mode = unit.mode(field)
    assert torch.equal(mode.sum(1), documents.sum(1)) and bool((mode >= 0).all())
    for row, length, found in zip((field + bias).double(), documents.sum(1), mode.double(), strict=True):
        states = torch.tensor(compositions(int(length), 4), dtype=F64)
        row = row - row.max()
        assert math.isclose(log_weights(found, row).item(), log_weights(states, row).max().item(), abs_tol=1e-9)


def test_multinomial_of_many_words() -> None:
    """Moving a count to another word does not increase the weight, which for log-concave weights implies the mode."""
    generator = torch.Generator().manual_seed(0)
    for total, size in ((1, 2000), (50, 2000), (5000, 300), (1000, 1000)):
        for field in (torch.zeros(1, size), torch.randn(3, size, generator=generator)):
            unit = units.Multinomial(size, total=total)
            x = unit.mode(field).double()
            unit.check(x)
            field64 = field.double()
            gain = (field64 - (x + 1).log()).max(-1).values
            loss = torch.where(x > 0, field64 - x.log(), math.inf).min(-1).values
            assert bool((gain <= loss + 1e-12).all())


@pytest.mark.parametrize("name", ["binomial-1000", "multinary-255"])
def test_many_levels_in_float32(name: str) -> None:
    """Between its ends the mode changes with the field, where float32 does not resolve neighboring weights."""
    unit, reference = EVERY[name]().float(), EVERY[name]()
    field = torch.linspace(-24.0, 24.0, 2001)[:, None].expand(-1, 2)
    states = reference.support.states()
    mode = unit.mode(field).detach().to(F64)
    best = reference.log_weight(mode) + field * mode
    weights = reference.log_weight(states[:, None, None].expand(-1, 1, 2)) + field * states[:, None, None]
    assert bool((weights.max(0).values <= best + 1e-9).all())
