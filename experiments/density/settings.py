"""What is tried, in which order, and how long it is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..options import override

BERNOULLI, CATEGORIES = "bernoulli", "categories"
EXACT = "exact"
EXACT_HIDDEN = 16  # largest number of hidden units with exact gradients: 2^16 states
EXACT_SHARE = 10  # an exact update costs as much as many updates with chains, and there are fewer of them


@dataclass(frozen=True)
class Settings:
    """One way to train a machine.

    Attributes:
        hidden: number of hidden units.
        learning_rate: rate at the beginning; it falls to zero in the second half.
        l2: strength of the L2 penalty.
        negative: negative phase: persistent chains ("pcd:K") or exact gradients ("exact").
        visible: "bernoulli", or "categories" for units with the groups of exclusive columns.
    """

    hidden: int = 64
    learning_rate: float = 0.1
    l2: float = 0.0
    negative: str = "pcd:1"
    visible: str = BERNOULLI

    @property
    def sweeps(self) -> int:
        """The number of Gibbs sweeps of an update; 0 for exact gradients."""
        return 0 if self.negative == EXACT else int(self.negative.partition(":")[2])

    def __str__(self) -> str:
        return (
            f"{self.visible} units, {self.hidden} hidden, rate {self.learning_rate:g}, L2 {self.l2:g}, {self.negative}"
        )


@dataclass(frozen=True)
class Budget:
    """How much is computed.

    Attributes:
        search_updates, updates: updates of each training of the search, and of the final trainings.
        search_betas, betas: annealing steps for the validation rows of the search, and for the test rows.
        seeds: number of final trainings.
        batch_size: rows of an update.
        stages: the settings that are searched, in this order.
    """

    search_updates: int
    updates: int
    search_betas: int
    betas: int
    seeds: int = 3
    batch_size: int = 100
    stages: tuple[str, ...] = ("hidden", "learning_rate", "negative", "l2")


BUDGETS = {
    "quick": Budget(3_000, 15_000, 300, 3_000),
    "full": Budget(30_000, 300_000, 2_000, 20_000, stages=("hidden", "learning_rate", "negative", "l2", EXACT)),
}
#: sets with many columns: an update costs ten times as much, so the quick search is shorter
LARGE = ("binarized-mnist", "caltech-silhouettes")
#: hidden units to choose from, for sets that are not in the list 50, 100 and 200
HIDDEN = {
    "nltcs": (16, 32, 64),
    "mushrooms": (16, 50, 100),
    "dna": (8, 16, 50),
    "nips": (8, 16, 50),
    "binarized-mnist": (500,),
    "caltech-silhouettes": (500, 1000),
}
RATES = (0.05, 0.1, 0.3)
PENALTIES = (0.0, 3e-4, 3e-3)
NEGATIVES = ("pcd:1", "pcd:5")
EXACT_RATES = (0.1, 0.5)


def budget_of(name: str, scale: str, updates: int = 0, betas: int = 0, seeds: int = 0) -> Budget:
    """The budget of a data set; numbers that are not 0 replace those of the scale.

    >>> budget_of("nltcs", "quick").search_updates, budget_of("binarized-mnist", "quick").search_updates
    (3000, 1000)
    """
    budget = BUDGETS[scale]
    if scale == "quick" and name in LARGE:
        budget = replace(budget, search_updates=1_000, updates=10_000, stages=("learning_rate", "l2"))
    return override(budget, updates=updates, betas=betas, seeds=seeds)


def sizes(name: str) -> tuple[int, ...]:
    """The numbers of hidden units to choose from."""
    return HIDDEN.get(name, (50, 100, 200))


def candidates(stage: str, name: str, best: Settings, columns: int) -> tuple[Settings, ...]:
    """The settings that a stage of the search compares: ``best`` with other values of one setting.

    The stage "exact" tries exact gradients with several rates, and with at most 16 hidden units, unless the visible
    ``columns`` are that few.

    >>> [found.hidden for found in candidates("hidden", "nltcs", first("nltcs"), 16)]
    [16, 32, 64]
    >>> {found.hidden for found in candidates(EXACT, "plants", first("plants"), 69)}
    {16}
    """
    if stage == EXACT:
        hidden = best.hidden if columns <= EXACT_HIDDEN else min(best.hidden, EXACT_HIDDEN)
        return tuple(replace(best, hidden=hidden, negative=EXACT, learning_rate=rate) for rate in EXACT_RATES)
    values: dict[str, tuple[Any, ...]] = {
        "hidden": sizes(name),
        "learning_rate": RATES,
        "negative": NEGATIVES,
        "l2": PENALTIES,
    }
    return tuple(replace(best, **{stage: value}) for value in values[stage])


def first(name: str, visible: str = BERNOULLI) -> Settings:
    """Where the search starts: the middle of every list, and one sweep.

    >>> first("nltcs").hidden
    32
    """
    found = sizes(name)
    return Settings(hidden=found[len(found) // 2], visible=visible)
