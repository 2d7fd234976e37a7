"""Verdicts from numbers: a measured quantity and its standard error against a margin that is fixed in the code.

A claim *holds* if the quantity is on the right side of the margin beyond its error, it *does not hold* if it is on the
wrong side beyond its error, and it is *open* in between. It is also open if nothing was measured, or if the settings
are not those of the paper and may be the reason. A verdict is True, False, or None for open.

"Beyond its error" is a :class:`Level`: the 99 % interval of Student's t by default, or three standard errors, which the
experiments on interactions use. Each published verdict keeps the level at which it was reached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch
from scipy import stats

from harmonium.estimates import jackknife as standard_error
from harmonium.likelihood import LogLikelihood, LogPartition

from .record import Record

Verdict = bool | None

#: what a verdict is called where it is printed
WORDS: dict[Verdict, str] = {True: "holds", False: "does not hold", None: "open"}


class Level(Enum):
    """How far beyond a margin a quantity has to be, in standard errors."""

    PERCENT_99 = 0.99  #: the two-sided interval of 99 % of Student's t
    THREE_SIGMA = 3.0  #: three standard errors, whatever the degrees of freedom

    def errors(self, dof: float = math.inf) -> float:
        """The number of standard errors, for an error with ``dof`` degrees of freedom.

        >>> round(Level.PERCENT_99.errors(), 3), round(Level.PERCENT_99.errors(4), 3), Level.THREE_SIGMA.errors(4)
        (2.576, 4.604, 3.0)
        """
        return self.value if self is Level.THREE_SIGMA else float(stats.t.ppf((1 + self.value) / 2, dof))


PERCENT_99, THREE_SIGMA = Level.PERCENT_99, Level.THREE_SIGMA


@dataclass(frozen=True)
class Measured:
    """A quantity with its standard error, which has ``dof`` degrees of freedom.

    >>> print(Measured(0.31, 0.02))
    0.310 ± 0.020
    >>> [Measured(0.31, 0.02).above(margin) for margin in (0.2, 0.3, 0.4)]
    [True, None, False]
    >>> Measured(0.31, 0.02).above(0.255), Measured(0.31, 0.02).above(0.255, THREE_SIGMA)
    (True, None)
    """

    value: float
    error: float = 0.0
    dof: float = math.inf

    def interval(self, level: Level = PERCENT_99) -> tuple[float, float]:
        """The two-sided interval of a level."""
        reach = 0.0 if self.error == 0 else self.error * level.errors(self.dof)
        return self.value - reach, self.value + reach

    def above(self, margin: float = 0.0, level: Level = PERCENT_99) -> Verdict:
        """Whether the quantity exceeds ``margin``; None if the interval contains it, or is not finite."""
        low, high = self.interval(level)
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        return True if low > margin else False if high < margin else None

    def below(self, margin: float = 0.0, level: Level = PERCENT_99) -> Verdict:
        """Whether the quantity is less than ``margin``."""
        return Measured(-self.value, self.error, self.dof).above(-margin, level)

    def between(self, low: float, high: float, level: Level = PERCENT_99) -> Verdict:
        """Whether the quantity is between two bounds.

        >>> [Measured(value, 0.1).between(0.5, 1.5) for value in (1.0, 1.4, 2.0)]
        [True, None, False]
        """
        return every([self.above(low, level), self.below(high, level)])

    def within(self, margin: float, level: Level = PERCENT_99) -> Verdict:
        """Whether the quantity is closer to zero than ``margin``."""
        return self.between(-margin, margin, level)

    def minus(self, other: Measured) -> Measured:
        """The difference from an independent quantity."""
        return Measured(self.value - other.value, math.hypot(self.error, other.error), min(self.dof, other.dof))

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        return f"{self.value:{spec}} ± {self.error:{spec.lstrip('+')}}"

    def __str__(self) -> str:
        return f"{self}"


def brief(x: Measured, digits: int = 2) -> str:
    """A value with as many decimal places as its error has in ``digits`` significant digits.

    >>> brief(Measured(0.8123, 0.0131)), brief(Measured(12.345, 0.5)), brief(Measured(-116.55, math.inf))
    ('0.812 ± 0.013', '12.35 ± 0.50', '-116.5 ± ∞')
    """
    if not math.isfinite(x.error) or x.error <= 0:
        return f"{x.value:.4g}" + (" ± ∞" if x.error == math.inf else "")
    places = max(0, digits - 1 - math.floor(math.log10(x.error)))
    return f"{x.value:.{places}f} ± {x.error:.{places}f}"


def log_partition(found: LogLikelihood) -> LogPartition:
    """The estimate of ln Z, which is the same for all rows."""
    assert found.log_partition is not None
    return found.log_partition


def sides(found: LogLikelihood) -> tuple[float, float]:
    """The log-likelihoods with ln Z of the forward and of the reverse annealing of ``hm.likelihood.estimate``."""
    parts = (log_partition(found).details[name] for name in ("forward", "reverse"))
    forward, reverse = (found.with_log_partition(part).value for part in parts)
    return forward, reverse


# -- where errors come from ------------------------------------------------------------------------------------------


def mean(values: Iterable[float]) -> Measured:
    """The mean of independent values; the error of a single value is unknown (NaN).

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
    return Measured(value, standard_error(torch.from_numpy(found)), len(found) - 1)


def bootstrap(
    statistic: Callable[[np.ndarray], float], values: np.ndarray, *, resamples: int = 400, seed: int = 0
) -> Measured:
    """``statistic`` of ``values`` (n, ...), with the error from resampling the n entries.

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


def averaged(repeats: Sequence[Measured]) -> Measured:
    """The mean over trainings that differ in their seeds and are judged on the same data.

    The error that comes from the data does not shrink with the number of trainings. The spread of the trainings does,
    and is added to it; with one training it is unknown and left out.

    >>> print(averaged([Measured(1.0, 0.3), Measured(3.0, 0.3)]))
    2.000 ± 1.044
    """
    values = np.array([x.value for x in repeats], dtype=float)
    own = sum(x.error for x in repeats) / len(repeats)
    spread = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Measured(float(values.mean()), math.hypot(own, spread))


# -- verdicts --------------------------------------------------------------------------------------------------------


def negate(verdict: Verdict) -> Verdict:
    """The verdict on the opposite; open stays open."""
    return None if verdict is None else not verdict


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """Whether all hold: False if one fails, else None if one is open or there are none.

    >>> every([True, True]), every([True, None]), every([None, False]), every([])
    (True, None, False, None)
    """
    found = list(verdicts)
    if any(verdict is False for verdict in found):
        return False
    return True if found and None not in found else None


def some(verdicts: Iterable[Verdict]) -> Verdict:
    """Whether one holds: True if one does, else None if one is open or there are none.

    >>> some([False, True]), some([False, None]), some([False, False]), some([])
    (True, None, False, None)
    """
    found = list(verdicts)
    if any(verdict is True for verdict in found):
        return True
    return False if found and None not in found else None


def increasing(steps: Iterable[Measured], level: Level = PERCENT_99) -> Verdict:
    """Whether every step from one value to the next is positive; open without steps."""
    return every(step.above(0.0, level) for step in steps)


def unlikely(p_value: float, more_than_chance: bool, level: Level = PERCENT_99) -> Verdict:
    """Whether a count exceeds chance: its p-value is below the one-sided probability of the level.

    >>> unlikely(1e-4, True), unlikely(0.02, True), unlikely(0.7, False)
    (True, None, False)
    """
    if not more_than_chance:
        return False
    return True if p_value < float(stats.norm.sf(level.errors())) else None


def wilson(hits: int, n: int, level: Level = PERCENT_99) -> tuple[float, float]:
    """The interval of a share of ``hits`` in ``n`` (Wilson 1927).

    >>> low, high = wilson(12, 15)
    >>> 0.3 < low < 0.8 < high < 1
    True
    """
    if n < 1:
        return 0.0, 1.0
    share, square = hits / n, level.errors() ** 2 / n
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    return middle - half, middle + half


def share_above(hits: int, n: int, bound: float, level: Level = PERCENT_99) -> Verdict:
    """Whether a share of ``hits`` in ``n`` is above ``bound``, by its Wilson interval.

    >>> share_above(12, 15, 0.3), share_above(2, 100, 0.3), share_above(5, 15, 0.3)
    (True, False, None)
    """
    low, high = wilson(hits, n, level)
    return True if low > bound else False if high < bound else None


# -- settings that are not those of the paper ------------------------------------------------------------------------

#: verdicts that stand even if the settings differ: none; what holds; both
NEVER: tuple[Verdict, ...] = ()
IF_TRUE: tuple[Verdict, ...] = (True,)
ALWAYS: tuple[Verdict, ...] = (True, False)

_OUTCOMES: dict[Verdict, str] = {
    True: "meet the criterion",
    False: "do not meet the criterion",
    None: "are too near it to tell, or cannot decide it",
}


def claim(
    record: Record,
    claimed: str,
    measured: str,
    holds: Verdict,
    difference: str = "",
    stands: tuple[Verdict, ...] = NEVER,
) -> Verdict:
    """Write a verdict, and return it.

    Args:
        record: where to write.
        claimed: the claim of the paper.
        measured: what was measured here.
        holds: the verdict of the criterion on the machines of this run.
        difference: settings that are not those of the paper, in words; empty if there are none.
        stands: the verdicts that ``difference`` does not turn into open: ``NEVER``, ``IF_TRUE`` (what fails here may
            hold with the settings of the paper) or ``ALWAYS``.

    An open verdict names the difference and the verdict of the criterion.
    """
    if difference and holds not in stands:
        measured, holds = f"{measured} (open: {difference}; these machines {_OUTCOMES[holds]})", None
    record.claim(claimed, measured, holds)
    return holds
