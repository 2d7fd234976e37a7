"""Optimizers as values: their names and options. ``make`` returns one for groups of parameters with learning rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ..errors import InvalidOption
from . import descent
from .descent import AnyOptimizer

Groups = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class Optimizer:
    """Base class; a subclass is a frozen dataclass with :meth:`make`."""

    #: usual learning rate; None: chosen from the data
    rate: ClassVar[float | None] = None

    def make(self, groups: Groups) -> AnyOptimizer:
        """Return the optimizer of ``groups``, dicts with ``params`` and ``lr``."""
        raise NotImplementedError


@dataclass(frozen=True)
class SGD(Optimizer):
    """w ← w - lr·a with the sum a ← momentum·a + g of past gradients.

    >>> SGD(momentum=0.9)
    SGD(momentum=0.9)
    """

    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check_momentum(self.momentum)

    def make(self, groups: Groups) -> AnyOptimizer:
        return descent.SGD(groups, momentum=self.momentum)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Steps divided by the root mean square of past gradients (Kingma & Ba 2015)."""

    rate: ClassVar[float | None] = 1e-3

    def make(self, groups: Groups) -> AnyOptimizer:
        return descent.Adam(groups)


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with a weight decay beside the gradient (Loshchilov & Hutter 2019), ``torch.optim.AdamW``."""

    rate: ClassVar[float | None] = 1e-3
    weight_decay: float = 0.01

    def make(self, groups: Groups) -> AnyOptimizer:
        return torch.optim.AdamW([dict(group) for group in groups], weight_decay=self.weight_decay)


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """Steps divided by the root mean square of recent gradients (Tieleman & Hinton 2012), ``torch.optim.RMSprop``."""

    rate: ClassVar[float | None] = 1e-3
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check_momentum(self.momentum)

    def make(self, groups: Groups) -> AnyOptimizer:
        return torch.optim.RMSprop([dict(group) for group in groups], momentum=self.momentum)


def _check_momentum(momentum: float) -> None:
    if not 0 <= momentum < 1:
        raise InvalidOption(f"momentum: expected a number from 0 to below 1, found {momentum}")


#: optimizers by their names in files and on the command line
OPTIMIZERS = {"sgd": SGD, "adam": Adam, "adamw": AdamW, "rmsprop": RMSprop}
