"""Numbers with standard errors, and how the errors are estimated."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

__all__ = ["Estimate"]

LEVEL = math.erf(3 / math.sqrt(2))  # of intervals: the probability within three standard errors of a normal number


class Estimate(NamedTuple):
    """A number and its standard error, which has ``dof`` degrees of freedom.

    ``standard_error`` is 0 for an exact number, and infinite or NaN if it is unknown.

    >>> print(Estimate(0.5123, 0.0042))
    0.512 ± 0.004
    >>> [Estimate(0.31, 0.02).above(margin) for margin in (0.2, 0.3, 0.4)]
    [True, None, False]
    """

    value: float
    standard_error: float = 0.0
    dof: float = math.inf

    @property
    def interval(self) -> tuple[float, float]:
        """The two-sided interval at the level of three standard errors."""
        return self.interval_at(LEVEL)

    def interval_at(self, level: float) -> tuple[float, float]:
        """The two-sided interval of a level between 0 and 1, by Student's t distribution.

        >>> low, high = Estimate(0.0, 1.0).interval_at(0.99)
        >>> round(high, 3)
        2.576
        """
        reach = 0.0 if self.standard_error == 0 else self.standard_error * quantile(level, self.dof)
        return self.value - reach, self.value + reach

    def above(self, margin: float = 0.0, level: float = LEVEL) -> bool | None:
        """Whether the number exceeds ``margin``; None if the interval contains it, or is not finite."""
        low, high = self.interval_at(level)
        if not math.isfinite(high - low):
            return None
        return True if low > margin else False if high < margin else None

    def below(self, margin: float = 0.0, level: float = LEVEL) -> bool | None:
        """Whether the number is less than ``margin``; None if the interval contains it, or is not finite."""
        above = self.above(margin, level)
        return None if above is None else not above

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference from the estimate of an independent number."""
        error = math.hypot(self.standard_error, other.standard_error)
        return Estimate(self.value - other.value, error, min(self.dof, other.dof))

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        return f"{self.value:{spec}} ± {self.standard_error:{spec.lstrip('+')}}"

    def __str__(self) -> str:
        return f"{self}"


def quantile(level: float, dof: float = math.inf) -> float:
    """Half the width of the two-sided interval of a level, in standard errors with ``dof`` degrees of freedom.

    >>> round(quantile(LEVEL), 6), round(quantile(0.99, 4), 3)
    (3.0, 4.604)
    """
    import scipy.stats  # slow to import

    return float(scipy.stats.t.isf((1 - level) / 2, dof))


def jackknife(replicates: Tensor) -> float:
    """Jackknife standard error, from the values (G,) of a statistic without each of G groups of rows.

    >>> import torch
    >>> x = torch.arange(10.0)
    >>> error = jackknife((x.sum() - x) / 9)  # of a mean: std/√n
    >>> abs(error - float(x.std() / 10**0.5)) < 1e-6
    True
    """
    n = len(replicates)
    deviation = replicates.double() - replicates.double().mean()
    return float(((n - 1) / n * deviation.square().sum()).sqrt())


def mean_of(values: Tensor) -> Estimate:
    """The mean of independent values (n,); its error is infinite for a single one, or if they are not finite.

    >>> import torch
    >>> print(mean_of(torch.tensor([1.0, 2.0, 3.0])))
    2.000 ± 0.577
    """
    values, n = values.double(), len(values)
    error = values.std().item() / math.sqrt(n) if n > 1 else math.inf
    return Estimate(values.mean().item(), error if math.isfinite(error) else math.inf, max(1, n - 1))
