"""Quantities of interactions with their jackknife replicates.

Claims about trained machines compare interactions of visible units. Their errors are those of a jackknife over blocks
of visible units: each block is left out once, with all pairs and triplets that contain one of its units. A quantity is
a tensor (1 + blocks,) whose first entry is the value with all units, so that differences and ratios of quantities have
errors of their own. Claims are decided by three standard errors (``THREE_SIGMA``).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harmonium.estimates import jackknife

from ..judging import Measured, brief

#: least correlation of points that are related by a linear scaling
SCALED = 0.8


def measured(replicated: Tensor) -> Measured:
    """The value and the standard error of a quantity (1 + blocks,) whose first entry is the value.

    >>> measured(torch.tensor([2.0, 2.1, 1.9])).value
    2.0
    """
    return Measured(float(replicated[0]), jackknife(replicated[1:]), max(1, len(replicated) - 2))


def columns(name: str, replicated: Tensor) -> dict[str, float]:
    """Two columns of a table: the value and its standard error.

    >>> list(columns("rms", torch.tensor([2.0, 2.1, 1.9])))
    ['rms', 'rms_se']
    """
    found = measured(replicated)
    return {name: found.value, f"{name}_se": found.error}


def unit_blocks(n: int, blocks: int = 28) -> Tensor:
    """Blocks of neighboring visible units, for 28 × 28 images their lines: the block of each unit, (n,).

    >>> unit_blocks(6, 3).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    return torch.arange(n) * min(blocks, n) // n


def kept(tuples: Tensor, blocks: Tensor) -> Tensor:
    """Which tuples (t, order) are kept: all of them, and those without a unit of each block, (1 + blocks, t)."""
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
        """Compare values (t,) under masks (1 + blocks, t); NaN if nothing is left or one side is constant.

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
        return {
            "number": self.number,
            **columns("slope", self.slope),
            **columns("correlation", self.pearson),
            **columns("relative_error", self.relative_error),
        }

    def words(self) -> str:
        """One line of text."""
        r, slope, error = map(measured, (self.pearson, self.slope, self.relative_error))
        return f"r {brief(r)}, slope {brief(slope)}, error {brief(error)}"
