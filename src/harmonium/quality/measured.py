"""A number with its standard error, and where the error comes from."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SIGMAS = 4.0  # standard errors beyond which a difference counts: a table has ten tests, and none should cry wolf

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
        """Whether the value exceeds ``ideal`` by more than chance explains."""
        return self.estimate > ideal + SIGMAS * self.standard_error + _ROUNDING

    def below(self, ideal: float) -> bool:
        """Whether the value falls short of ``ideal`` by more than chance explains."""
        return self.estimate < ideal - SIGMAS * self.standard_error - _ROUNDING


def jackknife(replicates: Tensor) -> float:
    """The standard error from the values of a statistic with one of G groups of rows left out at a time: (G,).

    >>> x = torch.arange(10.0)
    >>> error = jackknife((x.sum() - x) / 9)  # of a mean: the known formula
    >>> abs(error - float(x.std() / 10**0.5)) < 1e-6
    True
    """
    n = len(replicates)
    deviation = replicates.double() - replicates.double().mean()
    return float(((n - 1) / n * deviation.square().sum()).sqrt())


def spread(values: Tensor) -> Measured:
    """The mean and the standard deviation of a statistic over random halves: (splits,).

    A half drawn from n rows varies as much as a mean over all n of them does, so the deviation is the standard error
    at the full size.
    """
    return Measured(float(values.double().mean()), float(torch.std(values.double())))
