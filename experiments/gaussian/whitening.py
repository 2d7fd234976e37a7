"""Whitened coordinates of real-valued rows, in which they have no linear correlations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harmonium.errors import InvalidData, InvalidOption


@dataclass(frozen=True, eq=False)
class Whitening:
    """Whitened coordinates z = C^{-1/2} (x - m)/s of rows x with mean m, deviations s and correlation matrix C.

    A Gaussian–Bernoulli machine without weights that is trained on z is a Gaussian with the full covariance of the
    data; its hidden units only describe what that Gaussian does not. The change of coordinates is linear, so
    ln p(x) = ln p(z) + ``log_determinant`` exactly.

    Attributes:
        location: the mean m (*shape).
        matrix: the matrix (units, units) with z = (x - m) · matrix for flattened rows.
        inverse: its inverse.
        log_determinant: ln |det matrix|.

    >>> rows = torch.randn(500, 3, generator=torch.Generator().manual_seed(0)).cumsum(1)
    >>> whitening = Whitening.fit(rows)
    >>> z = whitening.whitened(rows)
    >>> bool((z.T.cov(correction=0) - torch.eye(3)).abs().max() < 1e-5)
    True
    >>> bool((whitening.restored(z) - rows).abs().max() < 1e-5)
    True
    """

    location: Tensor
    matrix: Tensor
    inverse: Tensor
    log_determinant: float

    @staticmethod
    @torch.no_grad()
    def fit(data: Any, shrinkage: float = 0.0) -> Whitening:
        """The coordinates of rows (n, *shape); correlations are multiplied by 1 - ``shrinkage``.

        With fewer rows than units, or with units that are copies of each other, a correlation matrix has eigenvalues
        that are zero, and ``shrinkage`` must be positive. Choose it by the likelihood of validation rows.
        """
        if not 0 <= shrinkage <= 1:
            raise InvalidOption(f"shrinkage: expected a number from 0 to 1, found {shrinkage!r}")
        rows = torch.as_tensor(data).detach()
        if rows.ndim < 2 or len(rows) < 2 or not bool(torch.isfinite(rows).all()):
            raise InvalidData(f"data: expected two or more rows of finite numbers, found shape {tuple(rows.shape)}")
        x = rows.flatten(1).to(torch.float64)
        mean = x.mean(0)
        covariance = (x - mean).T @ (x - mean) / len(x)
        spread = covariance.diagonal().sqrt()
        spread = torch.where(spread > 0, spread, 1.0)  # a constant unit keeps its scale
        correlation = (1 - shrinkage) * covariance / torch.outer(spread, spread)
        correlation.fill_diagonal_(1.0)
        values, vectors = torch.linalg.eigh(correlation)
        if values[0] <= len(values) * torch.finfo(values.dtype).eps * values[-1]:
            raise InvalidData(
                f"data: expected linearly independent columns, found a correlation matrix with the eigenvalue "
                f"{values[0].item():.2g}; use shrinkage, such as 0.01"
            )
        root = vectors * values.rsqrt() @ vectors.T  # C^{-1/2}, symmetric
        back = vectors * values.sqrt() @ vectors.T
        log_determinant = -(values.log().sum() / 2 + spread.log().sum()).item()
        return Whitening(mean.view(rows.shape[1:]), root / spread[:, None], back * spread, log_determinant)

    def whitened(self, x: Any) -> Tensor:
        """The coordinates z of rows x: (n, *shape) -> (n, *shape)."""
        rows = self._checked(x)
        return ((rows.double() - self.location).flatten(1) @ self.matrix).view_as(rows).to(_real(rows))

    def restored(self, x: Any) -> Tensor:
        """The rows with the coordinates x, such as samples of a machine, in the units of the data."""
        rows = self._checked(x)
        return ((rows.double().flatten(1) @ self.inverse).view_as(rows) + self.location).to(_real(rows))

    def _checked(self, x: Any) -> Tensor:
        rows = torch.as_tensor(x)
        if rows.shape[1:] != self.location.shape:
            expected = ", ".join(map(str, ("n", *self.location.shape)))
            raise InvalidData(f"x: expected shape ({expected}), found {tuple(rows.shape)}")
        return rows


def _real(rows: Tensor) -> torch.dtype:
    return rows.dtype if rows.is_floating_point() else torch.get_default_dtype()
