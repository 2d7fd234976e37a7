"""Verdicts from numbers: a measured quantity and its standard error against a margin that is fixed in the code.

A verdict is True, False, or None for *open*: the error is too large to tell, nothing was measured, or the settings are
not those that the claim is about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

CONFIDENCE = 0.99  # of the two-sided intervals that decide

Verdict = bool | None


@dataclass(frozen=True)
class Measured:
    """A quantity with its standard error, which has ``dof`` degrees of freedom.

    >>> print(Measured(0.31, 0.02))
    0.310 ± 0.020
    >>> [Measured(0.31, 0.02).above(margin) for margin in (0.2, 0.3, 0.4)]
    [True, None, False]
    """

    value: float
    error: float = 0.0
    dof: float = math.inf

    @property
    def interval(self) -> tuple[float, float]:
        """The two-sided interval of confidence."""
        reach = 0.0 if self.error == 0 else self.error * float(student.ppf((1 + CONFIDENCE) / 2, self.dof))
        return self.value - reach, self.value + reach

    def above(self, margin: float) -> Verdict:
        """Whether the quantity exceeds ``margin``; None where the interval holds it, or is not finite."""
        low, high = self.interval
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        return True if low > margin else False if high < margin else None

    def below(self, margin: float) -> Verdict:
        """Whether the quantity is less than ``margin``."""
        return Measured(-self.value, self.error, self.dof).above(-margin)

    def within(self, margin: float) -> Verdict:
        """Whether the quantity is nearer to zero than ``margin``."""
        return every([self.above(-margin), self.below(margin)])

    def minus(self, other: Measured) -> Measured:
        """The difference from an independent quantity."""
        return Measured(self.value - other.value, math.hypot(self.error, other.error), min(self.dof, other.dof))

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        return f"{self.value:{spec}} ± {self.error:{spec.lstrip('+')}}"

    def __str__(self) -> str:
        return f"{self}"


def mean(values: Iterable[float]) -> Measured:
    """The mean of independent values; the error of a single one is unknown (NaN).

    >>> print(mean([1.0, 2.0, 3.0]))
    2.000 ± 0.577
    """
    found = np.asarray(list(values), dtype=float)
    if len(found) == 0:
        return Measured(math.nan, math.nan)
    error = found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return Measured(float(found.mean()), float(error), max(1, len(found) - 1))


def jackknife(value: float, parts: Sequence[float] | np.ndarray) -> Measured:
    """``value`` of all data, with the error from its values when one of several equal groups is left out.

    >>> data = np.array([1.0, 2.0, 3.0])
    >>> print(jackknife(data.mean(), [np.delete(data, k).mean() for k in range(3)]))
    2.000 ± 0.577
    """
    found = np.asarray(parts, dtype=float)
    if len(found) < 2:
        return Measured(value, math.nan)
    error = math.sqrt((len(found) - 1) * float(found.var()))
    return Measured(value, error, len(found) - 1)


def bootstrap(
    statistic: Callable[[np.ndarray], float], values: np.ndarray, *, resamples: int = 400, seed: int = 0
) -> Measured:
    """``statistic`` of ``values`` (n, ...), with the error from drawing the n entries again.

    >>> draw = np.random.default_rng(0).normal(size=400)
    >>> round(bootstrap(np.mean, draw).error, 2)
    0.05
    """
    values = np.asarray(values)
    if len(values) < 2:
        return Measured(float(statistic(values)) if len(values) else math.nan, math.nan)
    draw = np.random.default_rng(seed)
    again = [statistic(values[draw.integers(len(values), size=len(values))]) for _ in range(resamples)]
    return Measured(float(statistic(values)), float(np.std(again)), len(values) - 1)


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """Whether all hold: False where one fails, None where one is open or there are none.

    >>> every([True, True]), every([True, None]), every([None, False]), every([])
    (True, None, False, None)
    """
    found = list(verdicts)
    if any(verdict is False for verdict in found):
        return False
    return True if found and None not in found else None


def some(verdicts: Iterable[Verdict]) -> Verdict:
    """Whether one holds: True where one does, None where one is open or there are none.

    >>> some([False, True]), some([False, None]), some([False, False]), some([])
    (True, None, False, None)
    """
    found = list(verdicts)
    if any(verdict is True for verdict in found):
        return True
    return False if found and None not in found else None


def open_if(difference: str, verdict: Verdict) -> Verdict:
    """None where the settings differ from those of the claim in the way that ``difference`` describes.

    >>> open_if("", True), open_if("fewer updates", True)
    (True, None)
    """
    return None if difference else verdict


def open_not_false(difference: str, verdict: Verdict) -> Verdict:
    """None in the place of False where the settings differ: what fails there may hold for those of the claim.

    >>> open_not_false("", False), open_not_false("fewer updates", False), open_not_false("fewer updates", True)
    (False, None, True)
    """
    return None if difference and verdict is False else verdict


def explain(measured: str, verdict: Verdict, difference: str) -> str:
    """What was measured, with the difference in the settings where that leaves the verdict open.

    >>> explain("3 of 5", None, "fewer updates")
    '3 of 5; settings: fewer updates'
    """
    return f"{measured}; settings: {difference}" if verdict is None and difference else measured
