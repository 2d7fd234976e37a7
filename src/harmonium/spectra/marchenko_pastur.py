"""The Marchenko–Pastur law: singular values of a random matrix.

For a large matrix (rows, columns) of independent entries with mean 0 and standard deviation std, the singular values
fill the interval between the edges

    w_± = std |√rows ± √columns|.

Singular values above the upper edge w_+ cannot be explained by noise. (Marchenko & Pastur 1967.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidData, InvalidOption

_POINTS = 4001  # nodes of the integral of the density
_ONE_IN_A_THOUSAND = 3.2724  # 0.999 quantile of the Tracy–Widom distribution for real matrices


@dataclass(frozen=True)
class MarchenkoPastur:
    """Distribution of the singular values of a large random matrix (Marchenko & Pastur 1967).

    Modes that are learned from data leave this distribution: Decelle, Fissore & Furtlehner (2017), figure 2.

    Args:
        rows, columns: size of the matrix.
        std: standard deviation of its independent entries, which have mean 0.

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
        """Lower and upper edge (w_-, w_+) of the distribution: std |√rows ∓ √columns|."""
        long, short = math.sqrt(max(self.rows, self.columns)), math.sqrt(min(self.rows, self.columns))
        return self.std * (long - short), self.std * (long + short)

    @property
    def threshold(self) -> float:
        """Value that the largest singular value of random matrices exceeds with probability 0.001.

        It is slightly above the edge, by the Tracy–Widom distribution (Tracy & Widom 1996; Johnstone 2001).

        >>> round(MarchenkoPastur(784, 400, 0.01).threshold, 3)
        0.487
        """
        rows, columns = math.sqrt(self.rows), math.sqrt(self.columns)
        width = self.std**2 * (rows + columns) * (1 / rows + 1 / columns) ** (1 / 3)  # of the square
        return math.sqrt(self.edges[1] ** 2 + _ONE_IN_A_THOUSAND * width)

    def density(self, values: Tensor) -> Tensor:
        """Probability density √((w₊² - w²)(w² - w₋²)) / (π std² min(rows, columns) w) at the values w, of any shape."""
        low, high = self.edges
        values = values.double().clamp(min=0)  # the density is 0 below 0
        square = values.square()
        inside = ((high**2 - square) * (square - low**2)).clamp(min=0).sqrt()
        scale = math.pi * self.std**2 * min(self.rows, self.columns)
        return torch.where(inside > 0, inside / (scale * values.clamp(min=1e-300)), 0.0)

    @property
    def median(self) -> float:
        """Median of the distribution."""
        values, mass = self._distribution()
        return float(np.interp(0.5, mass, values))

    def share_below(self, values: np.ndarray) -> np.ndarray:
        """Cumulative distribution: the fraction of singular values below each of ``values``, of any shape."""
        return np.interp(values, *self._distribution())

    def _distribution(self) -> tuple[np.ndarray, np.ndarray]:
        """Values from the lower to the upper edge, and the cumulative distribution at these values."""
        low, high = self.edges
        # substitute w² = c + r cos φ: the density has no singularities at the edges in φ
        center, radius = (high**2 + low**2) / 2, (high**2 - low**2) / 2
        angle = np.linspace(math.pi, 0.0, _POINTS)
        values = np.sqrt(np.maximum(center + radius * np.cos(angle), 0.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            slope = (radius * np.sin(angle)) ** 2 / values**2
        slope = np.where(np.isfinite(slope), slope, 2 * radius)  # limit for a square matrix at w = 0
        mass = np.concatenate([[0.0], np.cumsum((slope[1:] + slope[:-1]) / 2)])
        return values, mass / mass[-1]

    @classmethod
    def of(cls, values: Tensor, rows: int, columns: int) -> MarchenkoPastur:
        """Fit ``std`` to the median of the singular ``values``; robust if fewer than half of them are outliers.

        >>> w = torch.linalg.svdvals(0.1 * torch.randn(300, 200, generator=torch.Generator().manual_seed(0)))
        >>> round(MarchenkoPastur.of(w, 300, 200).std, 2)
        0.1
        """
        median = values.double().median().item()
        if not median > 0:
            raise InvalidData("values: expected positive singular values, found a set of which half are zero")
        return cls(rows, columns, median / cls(rows, columns, 1.0).median)
