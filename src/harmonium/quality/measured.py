"""Values with standard errors, and how the errors are estimated."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SIGMAS = 4.0  # a difference counts above this many standard errors: a table has ten tests, so false alarms must be rare

_ROUNDING = 1e-9


class Measured(NamedTuple):
    """A value and its standard error.

    >>> print(Measured(0.5123, 0.0042))
    0.512 ± 0.004
    """

    estimate: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.estimate:.3f} ± {self.standard_error:.3f}"

    def above(self, ideal: float) -> bool:
        """Whether the value exceeds ``ideal`` by more than four standard errors."""
        return self.estimate > ideal + SIGMAS * self.standard_error + _ROUNDING

    def below(self, ideal: float) -> bool:
        """Whether the value is below ``ideal`` by more than four standard errors."""
        return self.estimate < ideal - SIGMAS * self.standard_error - _ROUNDING


def jackknife(replicates: Tensor) -> float:
    """Jackknife standard error, from the values (G,) of a statistic without each of G groups of rows.

    >>> x = torch.arange(10.0)
    >>> error = jackknife((x.sum() - x) / 9)  # of a mean: std/√n
    >>> abs(error - float(x.std() / 10**0.5)) < 1e-6
    True
    """
    n = len(replicates)
    deviation = replicates.double() - replicates.double().mean()
    return float(((n - 1) / n * deviation.square().sum()).sqrt())


def spread(values: Tensor) -> Measured:
    """Mean and standard error of a statistic, given its values (splits,) on random halves of n rows.

    The standard deviation over random halves equals the standard error of the statistic on all n rows.
    """
    return Measured(float(values.double().mean()), float(torch.std(values.double())))
