"""What is tried, in which order, and how long it is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Settings:
    """One way to train a machine: persistent chains with ``k`` sweeps, and a penalty ``l2``."""

    hidden: int = 64
    learning_rate: float = 0.05
    l2: float = 0.0
    k: int = 1
    visible: str = "bernoulli"  # or "categories": groups of exclusive columns, found in the training rows

    def __str__(self) -> str:
        return f"{self.visible} units, {self.hidden} hidden, rate {self.learning_rate:g}, L2 {self.l2:g}, PCD-{self.k}"


@dataclass(frozen=True)
class Budget:
    """How much is computed: updates of each training of the search and at the end, and annealing steps."""

    search_updates: int
    updates: int
    search_betas: int
    betas: int
    seeds: int = 3
    batch_size: int = 100


BUDGETS = {"quick": Budget(5_000, 30_000, 500, 3_000), "full": Budget(30_000, 300_000, 2_000, 20_000)}
#: hidden units to choose from, for sets that are not in the list 50, 100 and 200
HIDDEN = {"nltcs": (16, 32, 64), "binarized-mnist": (500,), "caltech-silhouettes": (500, 1000), "nips": (16, 50, 100)}
RATES = (0.02, 0.05, 0.2)
PENALTIES = (0.0, 3e-4, 3e-3)
SWEEPS = (1, 5, 20)


def stages(name: str, categories: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The search, one setting after the other: the name of the setting, and the values that are compared.

    >>> [setting for setting, _ in stages("nltcs", categories=False)]
    ['learning_rate', 'hidden', 'l2', 'k']
    """
    if categories:
        yield "visible", ("bernoulli", "categories")
    yield "learning_rate", RATES
    yield "hidden", HIDDEN.get(name, (50, 100, 200))
    yield "l2", PENALTIES
    yield "k", SWEEPS


def first(name: str) -> Settings:
    """Where the search starts: the middle of every list.

    >>> first("nltcs").hidden
    32
    """
    sizes = HIDDEN.get(name, (50, 100, 200))
    return replace(Settings(), hidden=sizes[len(sizes) // 2])
