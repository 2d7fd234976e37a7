"""Zero weights, constant, huge and mostly missing columns: no NaN under any transform, alone or with Centered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harmonium.training.transforms import Transform
from torch import Tensor

import harmonium as hm
from harmonium import training, units

NAN = torch.nan
TRANSFORMS: dict[str, Callable[[], Transform]] = {
    "L1": lambda: hm.L1(0.01),
    "L2": lambda: hm.L2(0.01),
    "L1Squared": lambda: hm.L1Squared(0.01),
    "L2ToMean": lambda: hm.L2ToMean(0.01),
    "Smooth": lambda: hm.Smooth(0.01, (2, 3), every=2),
    "Clip": lambda: hm.Clip(1.0),
    "ZeroSum": lambda: hm.ZeroSum(),
    "Average": lambda: hm.Average(0.5),
    "Centered": lambda: hm.Centered(),
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


def chosen() -> list[tuple[str, list[Transform]]]:
    """No transform, each alone, and each with Centered."""
    found: list[tuple[str, list[Transform]]] = [("none", [])]
    for name, make in TRANSFORMS.items():
        found.append((name, [make()]))
        if name != "Centered":
            found.append((f"{name} and Centered", [make(), hm.Centered()]))
    return found


def test_every_transform_is_in_the_list() -> None:
    public = {name for name in training.__all__ if _is_transform(getattr(training, name))}
    assert public - {"Transform", "Penalty"} == set(TRANSFORMS)


def _is_transform(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, Transform)


def layer_of(transforms: list[Transform]) -> units.Unit:
    """A layer for the six columns; for images, all of them are real pixels."""
    if any(isinstance(transform, hm.Smooth) for transform in transforms):
        return units.Gaussian(6)
    return units.Mixed(units.Gaussian(2), units.Bernoulli(1), units.Potts((1, 3)))


@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.fast_cases(1)
def test_no_column_gives_nan_under_any_transform(case: str) -> None:
    rows = CASES[case](ordinary())
    for name, transforms in chosen():
        label = f"{case}, {name}"
        layer = layer_of(transforms)
        rbm = hm.RBM(layer, 3)
        if case == "zero-weights":
            layer.initialize_from(rows)
        options = {"epochs": 3, "batch_size": 20, "seed": 0, "progress": False}
        result = hm.fit(rbm, hm.Incomplete(rows), transforms=transforms, initialize=case != "zero-weights", **options)
        assert all(torch.isfinite(torch.tensor(list(row.values()))).all() for row in result.history), label
        assert all(bool(torch.isfinite(parameter).all()) for parameter in rbm.parameters()), label
        assert bool(torch.isfinite(hm.likelihood.observed(rbm, rows).log_probabilities).all()), label
        imputed = hm.tasks.impute(rbm, rows, method="exact", chains=1, seed=0)
        samples = rbm.sample(20, sweeps=10, seed=0, check_mixing=False)
        for states in (imputed.means, imputed.draws, samples):
            assert bool(torch.isfinite(states).all()), label
