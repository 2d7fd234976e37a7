"""``mean_and_variance_``, which units override for speed, agrees with ``mean`` and ``variance``."""

from __future__ import annotations

import pytest
import torch
from cases import UNITS, generator


@pytest.mark.parametrize("quadratic", [False, True], ids=["A=None", "A"])
@pytest.mark.parametrize("name", UNITS)
def test_mean_and_variance(name, quadratic):
    unit = UNITS[name].build((3,), generator(name))
    B = 2 * torch.randn(5, *unit.shape, generator=generator(name, "B"), dtype=torch.float64)
    A = torch.rand(5, *unit.shape, generator=generator(name, "A"), dtype=torch.float64) if quadratic else None
    if A is not None and name != "poisson":
        A -= 0.5
    mean, variance = torch.full_like(B, torch.nan), torch.full_like(B, torch.nan)
    kept = B.clone()
    with torch.no_grad():
        unit.mean_and_variance_(B, A, mean, variance)
        torch.testing.assert_close(mean, unit.mean(B, A), rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(variance, unit.variance(B, A), rtol=1e-11, atol=1e-14)
    assert torch.equal(B, kept)
