"""The singular values of a matrix of noise: the law of Marchenko and Pastur."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidData, InvalidOption

_POINTS = 4001  # of the integral of the density
_ONE_IN_A_THOUSAND = 3.2724  # quantile 0.999 of Tracy and Widom's law of real matrices


@dataclass(frozen=True)
class MarchenkoPastur:
    """Singular values of a matrix (rows, columns) of independent entries of mean 0 and the same ``std``, when large.

    Their squares are the eigenvalues of Marchenko and Pastur's law. What learning adds to a noisy start leaves this
    bulk (fig. 2 of the spectral-dynamics paper).

    >>> MarchenkoPastur(784, 400, 0.01).edges
    (0.08, 0.48)
    """

    rows: int
    columns: int
    std: float

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 1 or not 0 < self.std < math.inf:
            raise InvalidOption(
                f"expected rows, columns ≥ 1 and a positive std, found {self.rows}, {self.columns} and {self.std}"
            )

    @property
    def edges(self) -> tuple[float, float]:
        """Where the bulk begins and ends: std |√rows ∓ √columns|."""
        long, short = math.sqrt(max(self.rows, self.columns)), math.sqrt(min(self.rows, self.columns))
        return self.std * (long - short), self.std * (long + short)

    @property
    def threshold(self) -> float:
        """What the largest singular value of such noise exceeds in one matrix of a thousand (Tracy and Widom's law).

        >>> round(MarchenkoPastur(784, 400, 0.01).threshold, 3)
        0.487
        """
        rows, columns = math.sqrt(self.rows), math.sqrt(self.columns)
        width = self.std**2 * (rows + columns) * (1 / rows + 1 / columns) ** (1 / 3)  # of the square
        return math.sqrt(self.edges[1] ** 2 + _ONE_IN_A_THOUSAND * width)

    def density(self, values: Tensor) -> Tensor:
        """Of the singular values w, √((w₊² - w²)(w² - w₋²)) / (π std² min(rows, columns) w): any shape."""
        low, high = self.edges
        values = values.double().clamp(min=0)  # nothing lies below 0
        square = values.square()
        inside = ((high**2 - square) * (square - low**2)).clamp(min=0).sqrt()
        scale = math.pi * self.std**2 * min(self.rows, self.columns)
        return torch.where(inside > 0, inside / (scale * values.clamp(min=1e-300)), 0.0)

    @property
    def median(self) -> float:
        """Half of the singular values lie below it."""
        values, mass = self._distribution()
        return float(np.interp(0.5, mass, values))

    def share_below(self, values: np.ndarray) -> np.ndarray:
        """The share of the singular values below each of ``values``: any shape."""
        return np.interp(values, *self._distribution())

    def _distribution(self) -> tuple[np.ndarray, np.ndarray]:
        """Values from the lower to the upper edge, and the share below each of them."""
        low, high = self.edges
        # w² = c + r cos φ: the density then has no singular ends
        center, radius = (high**2 + low**2) / 2, (high**2 - low**2) / 2
        angle = np.linspace(math.pi, 0.0, _POINTS)
        values = np.sqrt(np.maximum(center + radius * np.cos(angle), 0.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = (radius * np.sin(angle)) ** 2 / values**2
        slope = np.where(np.isfinite(slope), slope, 2 * radius)  # of a square matrix at w = 0
        mass = np.concatenate([[0.0], np.cumsum((slope[1:] + slope[:-1]) / 2)])
        return values, mass / mass[-1]

    @classmethod
    def of(cls, values: Tensor, rows: int, columns: int) -> MarchenkoPastur:
        """The noise whose median is that of ``values``: robust, as long as fewer than half are no noise.

        >>> w = torch.linalg.svdvals(0.1 * torch.randn(300, 200, generator=torch.Generator().manual_seed(0)))
        >>> round(MarchenkoPastur.of(w, 300, 200).std, 2)
        0.1
        """
        median = values.double().median().item()
        if not median > 0:
            raise InvalidData("expected a bulk of noise, found singular values of which half are zero")
        return cls(rows, columns, median / cls(rows, columns, 1.0).median)
