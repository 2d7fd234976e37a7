"""Whitened coordinates: no correlations, the same density, and rows that are restored."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from experiments.gaussian.whitening import Whitening

F64 = torch.float64


def rows(n: int = 400, shape: tuple[int, ...] = (4,)) -> torch.Tensor:
    """Correlated columns of different scales and locations."""
    source = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=source, dtype=F64).cumsum(1) * torch.tensor([1.0, 1e3, 1e-3, 10.0], dtype=F64)
    return (x + torch.tensor([0.0, 5e3, 2.0, -300.0], dtype=F64)).view(n, *shape)


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_whitened_rows_have_no_correlations_and_are_restored(shape) -> None:
    x = rows(shape=shape)
    found = Whitening.fit(x)
    z = found.whitened(x)
    assert z.shape == x.shape
    torch.testing.assert_close(z.flatten(1).T.cov(correction=0), torch.eye(4, dtype=F64), rtol=0, atol=1e-9)
    torch.testing.assert_close(found.restored(z), x)
    assert found.whitened(x.float()).dtype == torch.float32
    assert found.whitened(x.long()).is_floating_point()


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_the_standard_normal_of_z_is_the_gaussian_of_x(shrinkage) -> None:
    x = rows()
    found = Whitening.fit(x, shrinkage)
    S = x.T.cov(correction=0)
    shrunk = (1 - shrinkage) * S + shrinkage * torch.diag(S.diagonal())
    expected = torch.distributions.MultivariateNormal(x.mean(0), shrunk).log_prob(x)
    normal = torch.distributions.Normal(torch.tensor(0.0, dtype=F64), torch.tensor(1.0, dtype=F64))
    log_density = normal.log_prob(found.whitened(x)).sum(1) + found.log_determinant
    torch.testing.assert_close(log_density, expected)


def test_units_of_measurement_do_not_matter() -> None:
    x = rows()
    scale = torch.tensor([2.0, 1e-6, 1e6, 3.0], dtype=F64)
    one, other = Whitening.fit(x, 0.1), Whitening.fit(x * scale + 7, 0.1)
    torch.testing.assert_close(other.whitened(x * scale + 7), one.whitened(x), rtol=1e-6, atol=1e-6)


def test_difficult_rows() -> None:
    x = rows()
    constant = torch.cat([x, torch.full((len(x), 1), 3.0, dtype=F64)], 1)
    found = Whitening.fit(constant)
    assert bool((found.whitened(constant)[:, 4] == 0).all()) and bool((found.restored(constant * 0)[:, 4] == 3).all())
    copied = torch.cat([x, x[:, :1]], 1)
    with pytest.raises(hm.errors.InvalidData, match=r"linearly independent columns.*use shrinkage"):
        Whitening.fit(copied)
    assert bool(torch.isfinite(Whitening.fit(copied, 0.01).whitened(copied)).all())
    with pytest.raises(hm.errors.InvalidData, match="finite numbers"):
        Whitening.fit(torch.full((3, 2), torch.nan))
    with pytest.raises(hm.errors.InvalidOption, match="shrinkage: expected a number from 0 to 1, found 2"):
        Whitening.fit(x, 2)
    with pytest.raises(hm.errors.InvalidData, match=r"x: expected shape \(n, 5\), found \(400, 4\)"):
        found.whitened(x)
