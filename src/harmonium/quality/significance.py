"""Which differences from an ideal value count."""

from __future__ import annotations

import torch
from torch import Tensor

from ..estimates import Estimate

SIGMAS = 4.0  # a difference counts above this many standard errors: a table has ten tests, so false alarms must be rare
_ROUNDING = 1e-9


def above(x: Estimate, ideal: float) -> bool:
    """Whether a number exceeds ``ideal`` by more than four standard errors."""
    return x.value > ideal + SIGMAS * x.standard_error + _ROUNDING


def below(x: Estimate, ideal: float) -> bool:
    """Whether a number is below ``ideal`` by more than four standard errors."""
    return x.value < ideal - SIGMAS * x.standard_error - _ROUNDING


def spread(values: Tensor) -> Estimate:
    """Mean and standard error of a statistic, given its values (splits,) on random halves of n rows.

    The standard deviation over random halves equals the standard error of the statistic on all n rows.
    """
    return Estimate(float(values.double().mean()), float(torch.std(values.double())))
