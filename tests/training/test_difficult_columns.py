"""Zero weights, constant, huge and mostly missing columns: no NaN under any transform, alone or with Centered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import harmonium as hm
from harmonium import training, units
from harmonium.training import Constraint, Penalty

NAN = torch.nan
PARTS: dict[str, Penalty | Constraint] = {
    "L1": hm.L1(0.01),
    "L2": hm.L2(0.01),
    "L1Squared": hm.L1Squared(0.01),
    "L2ToMean": hm.L2ToMean(0.01),
    "Smooth": hm.Smooth(0.01, (2, 3), every=2),
    "ZeroSum": hm.ZeroSum(),
    "Average": hm.Average(0.5),
}


def ordinary(n: int = 60) -> Tensor:
    """Two real columns, a bit and a category of three states, which depend on a common cause."""
    source = torch.Generator().manual_seed(0)
    cause = torch.randint(2, (n,), generator=source)
    real = 2.0 * cause[:, None] + torch.randn(n, 2, generator=source)
    category = torch.nn.functional.one_hot(cause + torch.randint(2, (n,), generator=source), 3)
    return torch.cat([real, cause[:, None].float(), category.float()], 1)


def mostly_missing(rows: Tensor) -> Tensor:
    gone = torch.arange(len(rows)) % 10 > 0
    return torch.cat([torch.where(gone, NAN, rows[:, 0])[:, None], rows[:, 1:]], 1)


def replaced(rows: Tensor, column: Tensor) -> Tensor:
    return torch.cat([column[:, None], rows[:, 1:]], 1)


CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "zero-weights": lambda rows: rows,
    "constant": lambda rows: replaced(rows, torch.full_like(rows[:, 0], 3.25)),
    "large": lambda rows: replaced(rows, 5e6 + 1e6 * rows[:, 0]),
    "missing": mostly_missing,
}


def chosen() -> list[tuple[str, dict[str, Any]]]:
    """No penalty or constraint, and each alone, in plain and in centered coordinates."""
    found: list[tuple[str, dict[str, Any]]] = []
    for centered in (False, True):
        found.append((f"none, centered {centered}", {"centered": centered}))
        for name, part in PARTS.items():
            argument = "penalties" if isinstance(part, Penalty) else "constraints"
            found.append((f"{name}, centered {centered}", {argument: [part], "centered": centered}))
    return found


def test_every_part_is_in_the_list() -> None:
    public = {name for name in training.__all__ if _is_part(getattr(training, name))}
    assert public - {"Constraint", "Penalty"} == set(PARTS)


def _is_part(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, (Penalty, Constraint))


def layer_of(name: str) -> units.Unit:
    """A layer for the six columns; for images, all of them are real pixels."""
    if name.startswith("Smooth"):
        return units.Gaussian(6)
    return units.Mixed(units.Gaussian(2), units.Bernoulli(1), units.Potts((1, 3)))


@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.slow
def test_no_column_gives_nan_under_any_transform(case: str) -> None:
    rows = CASES[case](ordinary())
    for name, parts in chosen():
        label = f"{case}, {name}"
        layer = layer_of(name)
        rbm = hm.RBM(layer, 3)
        if case == "zero-weights":
            layer.initialize_from(rows)
        options = {"epochs": 3, "batch_size": 20, "seed": 0, "progress": False, **parts}
        options |= {"initialize": "keep"} if case == "zero-weights" else {}
        result = hm.fit(rbm, hm.Incomplete(rows), **options)
        assert all(torch.isfinite(torch.tensor(list(row.values()))).all() for row in result.history), label
        assert all(bool(torch.isfinite(parameter).all()) for parameter in rbm.parameters()), label
        assert bool(torch.isfinite(hm.likelihood.exact(rbm, rows, mask=~rows.isnan()).per_row).all()), label
        imputed = hm.tasks.impute(rbm, rows, method="exact", chains=1, seed=0)
        samples = rbm.sample(20, sweeps=10, seed=0, check_mixing=False)
        for states in (imputed.means, imputed.draws, samples):
            assert bool(torch.isfinite(states).all()), label
