"""Verdicts on claims: a margin, a standard error, and an outcome that can be false or open.

A claim is judged by a number with its standard error against a bound that is written beside the claim. It holds where
the number is on the right side of the bound by more than three standard errors, it does not hold where it is on the
wrong side by as much, and it is *open* (``None``) in between. A claim about nothing is open.

Claims about trained machines compare interactions of visible units. Their errors are those of a jackknife over blocks
of visible units: one block at a time is left out with all pairs and triplets that it takes part in. A quantity is then
a tensor (1 + blocks,), its value with all units first, so that differences and ratios have errors of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from scipy import stats
from torch import Tensor

from ...quality import Measured
from ...quality.measured import jackknife
from ..record import Record

#: True: holds; False: does not hold; None: open
Verdict = bool | None

#: standard errors by which a number has to clear a bound
ERRORS = 3.0
#: one-sided probability of three standard errors, for exact tests
UNLIKELY = float(stats.norm.sf(ERRORS))
#: correlation of points that are related by a linear scaling
SCALED = 0.8
#: factor between numbers that are "around" (∼) each other
AROUND = 1.5
#: factor between numbers that are "roughly of the same order"
ROUGHLY = 3.0


def above(x: Measured, bound: float = 0.0) -> Verdict:
    """Whether ``x`` is above ``bound``; open within three standard errors of it, or where either is not finite.

    >>> above(Measured(1.0, 0.1)), above(Measured(-1.0, 0.1)), above(Measured(0.2, 0.1))
    (True, False, None)
    """
    gap = x.value - bound
    if not (math.isfinite(gap) and math.isfinite(x.error)) or abs(gap) <= ERRORS * x.error:
        return None
    return gap > 0


def below(x: Measured, bound: float = 0.0) -> Verdict:
    """Whether ``x`` is below ``bound``, as :func:`above`."""
    return negate(above(x, bound))


def within(x: Measured, low: float, high: float) -> Verdict:
    """Whether ``x`` is between two bounds.

    >>> within(Measured(1.0, 0.1), 0.5, 1.5), within(Measured(1.0, 0.1), 0.9, 1.5), within(Measured(2.0, 0.1), 0.5, 1.5)
    (True, None, False)
    """
    return every((above(x, low), below(x, high)))


def negate(verdict: Verdict) -> Verdict:
    """The verdict on the opposite; open stays open."""
    return None if verdict is None else not verdict


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """False if one of them is, else open if one of them is or there are none.

    >>> every([True, True]), every([True, None, False]), every([True, None]), every([])
    (True, False, None, None)
    """
    found = list(verdicts)
    if False in found:
        return False
    return None if not found or None in found else True


def increasing(steps: Iterable[Measured]) -> Verdict:
    """Whether every step from one size to the next is upwards; no step, no verdict."""
    return every(above(step) for step in steps)


def unlikely(p_value: float, more_than_chance: bool) -> Verdict:
    """Whether a count exceeds chance: p below that of three standard errors; false where it does not exceed chance.

    >>> unlikely(1e-4, True), unlikely(0.02, True), unlikely(0.7, False)
    (True, None, False)
    """
    if not more_than_chance:
        return False
    return True if p_value < UNLIKELY else None


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The interval of three standard errors about a share of ``hits`` in ``n``, after Wilson (1927).

    >>> low, high = wilson(12, 15)
    >>> 0.3 < low < 0.8 < high < 1
    True
    """
    if n < 1:
        return 0.0, 1.0
    share, square = hits / n, ERRORS**2 / n
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    return middle - half, middle + half


def share_above(hits: int, n: int, bound: float) -> Verdict:
    """Whether a share of ``hits`` in ``n`` is above ``bound``, by its interval of three standard errors.

    >>> share_above(12, 15, 0.3), share_above(2, 100, 0.3), share_above(5, 15, 0.3)
    (True, False, None)
    """
    low, high = wilson(hits, n)
    return True if low > bound else False if high < bound else None


def averaged(repeats: Sequence[Measured]) -> Measured:
    """The mean over trainings that differ in their seeds, judged on the same data.

    The error of the data does not shrink with the number of trainings; their own spread does, and is added to it. Of
    one training the spread is not known and left out.

    >>> averaged([Measured(1.0, 0.3), Measured(3.0, 0.3)])
    Measured(value=2.0, error=1.044...)
    """
    values = torch.tensor([x.value for x in repeats], dtype=torch.float64)
    own = sum(x.error for x in repeats) / len(repeats)
    spread = float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Measured(float(values.mean()), math.hypot(own, spread))


def claim(record: Record, claimed: str, measured: str, holds: Verdict, differs: str = "") -> None:
    """Write a verdict; ``differs`` names settings that are not the paper's and leave the claim open either way.

    What the criterion says of the machines at hand is then part of the measurement.
    """
    if differs:
        outcome = {True: "meet the criterion", False: "do not meet the criterion", None: "are too near it to tell"}[
            holds
        ]
        measured, holds = f"{measured} (open: {differs}; these machines {outcome})", None
    record.claim(claimed, measured, holds)


# -- quantities with their jackknife replicates ------------------------------------------------------------------


def measured(replicated: Tensor) -> Measured:
    """The value and the standard error of a quantity (1 + blocks,) whose first entry is the value.

    >>> measured(torch.tensor([2.0, 2.1, 1.9])).value
    2.0
    """
    return Measured(float(replicated[0]), jackknife(replicated[1:]))


def unit_blocks(n: int, blocks: int = 28) -> Tensor:
    """Blocks of neighboring visible units, for 28 × 28 images their lines: the block of each unit, (n,).

    >>> unit_blocks(6, 3).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    return torch.arange(n) * min(blocks, n) // n


def kept(tuples: Tensor, blocks: Tensor) -> Tensor:
    """Which tuples (t, order) are left: all of them, and those without a unit of each block, (1 + blocks, t)."""
    member = blocks[tuples]
    masks = [(member != block).all(1) for block in range(int(blocks.max()) + 1)]
    return torch.stack([torch.ones(len(tuples), dtype=torch.bool), *masks])


def strength(x: Tensor, masks: Tensor) -> Tensor:
    """√⟨x²⟩ with its replicates: (t,), (1 + blocks, t) -> (1 + blocks,)."""
    weight = masks.double()
    return (weight @ x.double().square() / weight.sum(1)).sqrt()


@dataclass(frozen=True)
class Scatter:
    """How ``number`` interactions x follow a reference y, each quantity with its replicates (1 + blocks,).

    The quantities are those of :class:`harmonium.interactions.InteractionComparison`.
    """

    number: int
    pearson: Tensor
    slope: Tensor
    relative_error: Tensor

    @staticmethod
    def of(x: Tensor, y: Tensor, masks: Tensor) -> Scatter:
        """Compare values (t,) under masks (1 + blocks, t); NaN where nothing is left or a side is constant.

        >>> x = torch.arange(6.0)
        >>> both = Scatter.of(2 * x, x, kept(torch.arange(6)[:, None], unit_blocks(6, 3)))
        >>> measured(both.slope).value
        2.0
        """
        x, y, weight = x.detach().double(), y.detach().double(), masks.double()
        columns = torch.stack([torch.ones_like(x), x, y, x * x, y * y, x * y, (x - y) ** 2], 1)
        n, sx, sy, xx, yy, xy, off = (weight @ columns).T
        covariance = xy - sx * sy / n
        pearson = covariance / ((xx - sx**2 / n) * (yy - sy**2 / n)).sqrt()
        return Scatter(len(x), pearson, xy / yy, (off / yy).sqrt())

    def row(self) -> dict[str, float]:
        """The columns of a table."""
        columns = {"slope": self.slope, "correlation": self.pearson, "relative_error": self.relative_error}
        found: dict[str, float] = {"number": self.number}
        for name, values in columns.items():
            value, error = measured(values)
            found |= {name: value, f"{name}_se": error}
        return found

    def words(self) -> str:
        """In a line."""
        r, slope, error = map(measured, (self.pearson, self.slope, self.relative_error))
        return f"r {brief(r)}, slope {brief(slope)}, error {brief(error)}"


def brief(x: Measured, digits: int = 2) -> str:
    """A value with its error in few digits.

    >>> brief(Measured(0.8123, 0.0131)), brief(Measured(12.345, 0.5)), brief(Measured(-116.55, math.inf))
    ('0.812 ± 0.013', '12.35 ± 0.50', '-116.5 ± ∞')
    """
    if not math.isfinite(x.error) or x.error <= 0:
        return f"{x.value:.4g}" + (" ± ∞" if x.error == math.inf else "")
    places = max(0, digits - 1 - math.floor(math.log10(x.error)))
    return f"{x.value:.{places}f} ± {x.error:.{places}f}"
