"""The decay of the weight of a unit at infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tail:
    """The decay of the weight of each unit of a layer at infinity (tensors of the layer's flat size).

    ``gaussian``: the weight decays as e^{-precision x²/2}. ``factorial``: it decays as 1/x!. Neither: the support is
    bounded. ``one_sided``: the support is unbounded only toward +∞. These properties determine whether the partition
    function of a machine is finite.
    """

    gaussian: Tensor
    factorial: Tensor
    one_sided: Tensor
    precision: Tensor

    @property
    def unbounded(self) -> Tensor:
        """The units with unbounded support."""
        return self.gaussian | self.factorial

    @staticmethod
    def bounded(n: int) -> Tail:
        """The tail of units with bounded support."""
        no = torch.zeros(n, dtype=torch.bool)
        return Tail(no, no, no, torch.full((n,), math.inf, dtype=torch.float64))

    @staticmethod
    def normal(precision: Tensor, one_sided: bool = False) -> Tail:
        """A Gaussian tail of the given precision, on both sides or on the right only."""
        precision = precision.detach().double().cpu().flatten()
        yes = torch.ones(precision.numel(), dtype=torch.bool)
        return Tail(yes, ~yes, yes if one_sided else ~yes, precision)

    @staticmethod
    def poisson(n: int) -> Tail:
        """The tail 1/x! of counts."""
        yes = torch.ones(n, dtype=torch.bool)
        return Tail(~yes, yes, yes, torch.full((n,), math.inf, dtype=torch.float64))

    @staticmethod
    def join(tails: Iterable[Tail]) -> Tail:
        """The concatenated tails of several groups of units."""
        tails = list(tails)
        fields = ("gaussian", "factorial", "one_sided", "precision")
        return Tail(*(torch.cat([getattr(tail, name) for tail in tails]) for name in fields))

    def allows(self, A: Tensor) -> Tensor:
        """Mask, of the shape (..., size) of A, of the units with finite ∫ e^{-U(x) + Bx - Ax²/2} (for any B)."""
        gaussian, factorial, precision = (x.to(A.device) for x in (self.gaussian, self.factorial, self.precision))
        return ~(gaussian & (precision.to(A.dtype) + A <= 0)) & ~(factorial & (A < 0))
