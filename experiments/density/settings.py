"""What is tried, in which order, and how long it is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..options import override

BERNOULLI, CATEGORIES = "bernoulli", "categories"
EXACT, PENALTY = "exact", "l2"
EXACT_HIDDEN = 12  # largest number of hidden units with exact gradients: 2^12 states
SMALL = 16  # hidden units; exact gradients are tried on sets whose smallest machine has at most as many
EXACT_SHARE = 30  # updates with chains for each exact update after them, which costs about ten times as much
EXACT_BATCH, EXACT_RATE = 500, 1.0


@dataclass(frozen=True)
class Settings:
    """One way to train a machine.

    Attributes:
        hidden: number of hidden units.
        learning_rate: rate at the beginning; it falls to zero in the second half.
        l2: strength of the L2 penalty.
        negative: negative phase: persistent chains ("pcd:K"), or these and then exact gradients ("pcd:K+exact").
        visible: "bernoulli", or "categories" for units with the groups of exclusive columns.
    """

    hidden: int = 64
    learning_rate: float = 0.1
    l2: float = 0.0
    negative: str = "pcd:1"
    visible: str = BERNOULLI

    @property
    def chains(self) -> str:
        """The negative phase with chains, such as "pcd:5"."""
        return self.negative.partition("+")[0]

    @property
    def sweeps(self) -> int:
        """The number of Gibbs sweeps of an update with chains."""
        return int(self.chains.partition(":")[2])

    @property
    def exact(self) -> bool:
        """Whether training ends with exact gradients."""
        return self.negative.endswith(EXACT)

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
        penalty_at_length: whether the penalty is chosen with final trainings, because short ones do not overfit.
    """

    search_updates: int
    updates: int
    search_betas: int
    betas: int
    seeds: int = 3
    batch_size: int = 100
    stages: tuple[str, ...] = ("hidden", "learning_rate", "negative", EXACT, PENALTY)
    penalty_at_length: bool = False

    def lengths(self, stage: str) -> tuple[int, int]:
        """The updates and the annealing steps of each training of a stage of the search.

        >>> Budget(30, 300, 20, 200).lengths("l2"), Budget(30, 300, 20, 200, penalty_at_length=True).lengths("l2")
        ((30, 20), (300, 200))
        """
        if stage == PENALTY and self.penalty_at_length:
            return self.updates, self.betas
        return self.search_updates, self.search_betas


BUDGETS = {
    "quick": Budget(3_000, 15_000, 300, 3_000),
    "full": Budget(30_000, 300_000, 2_000, 20_000),
}
#: sets with many columns: an update costs ten times as much, so the quick search is shorter
LARGE = ("binarized-mnist", "caltech-silhouettes")
#: sets with few training rows for their columns, on which short trainings do not overfit, but long ones do
FEW_ROWS = ("caltech-silhouettes", "dna", "nips")
#: updates of the quick search and of a quick final training, for sets with few or many rows
UPDATES = {"nips": (1_000, 2_000), "dna": (2_000, 6_000), "ocr-letters": (3_000, 60_000)}
#: hidden units to choose from, for sets that are not in the list 50, 100 and 200
HIDDEN = {
    "nltcs": (16, 32, 64),
    "mushrooms": (16, 50, 100),
    "dna": (50, 100),
    "nips": (50, 100, 200),
    "ocr-letters": (200, 500),
    "binarized-mnist": (500,),
    "caltech-silhouettes": (500, 1000),
}
RATES = (0.05, 0.1, 0.3)
PENALTIES = (0.0, 3e-4, 3e-3, 3e-2)
#: penalty at the beginning of the search, for sets with few rows for their columns; 0 for the others
FIRST_PENALTY = {"dna": 3e-2, "nips": 3e-2}
NEGATIVES = ("pcd:1", "pcd:5")


def budget_of(name: str, scale: str, updates: int = 0, betas: int = 0, seeds: int = 0) -> Budget:
    """The budget of a data set; numbers that are not 0 replace those of the scale.

    >>> budget_of("nltcs", "quick").search_updates, budget_of("binarized-mnist", "quick").search_updates
    (3000, 1000)
    """
    budget = replace(BUDGETS[scale], penalty_at_length=name in FEW_ROWS)
    if scale == "quick" and name in LARGE:
        budget = replace(budget, search_updates=1_000, updates=10_000, stages=("learning_rate", PENALTY))
    if scale == "quick" and name in UPDATES:
        search, final = UPDATES[name]
        budget = replace(budget, search_updates=search, updates=final)
    return override(budget, updates=updates, betas=betas, seeds=seeds)


def sizes(name: str) -> tuple[int, ...]:
    """The numbers of hidden units to choose from."""
    return HIDDEN.get(name, (50, 100, 200))


def candidates(stage: str, name: str, best: Settings) -> tuple[Settings, ...]:
    """The settings that a stage of the search compares: ``best`` with other values of one setting.

    The stage "exact" tries to end with exact gradients, with few hidden units and every rate: exact gradients correct
    machines that mix badly, so that larger rates than before may be the best. Sets on which only larger machines are
    tried do not have it.

    >>> [found.hidden for found in candidates("hidden", "nltcs", first("nltcs"))]
    [16, 32, 64]
    >>> for found in candidates(EXACT, "mushrooms", first("mushrooms")):
    ...     print(found)
    bernoulli units, 12 hidden, rate 0.05, L2 0, pcd:1+exact
    bernoulli units, 12 hidden, rate 0.1, L2 0, pcd:1+exact
    bernoulli units, 12 hidden, rate 0.3, L2 0, pcd:1+exact
    """
    if stage == EXACT:
        if min(sizes(name)) > SMALL:
            return ()
        small = replace(best, hidden=min(best.hidden, EXACT_HIDDEN), negative=f"{NEGATIVES[0]}+{EXACT}")
        return tuple(replace(small, learning_rate=rate) for rate in RATES)
    values: dict[str, tuple[Any, ...]] = {
        "hidden": sizes(name),
        "learning_rate": RATES,
        "negative": NEGATIVES,
        PENALTY: PENALTIES,
    }
    return tuple(replace(best, **{stage: value}) for value in values[stage])


def first(name: str, visible: str = BERNOULLI) -> Settings:
    """Where the search starts: the middle of every list, one sweep, and the first penalty of the set.

    >>> first("nltcs").hidden, first("dna").l2
    (32, 0.03)
    """
    found = sizes(name)
    return Settings(hidden=found[len(found) // 2], visible=visible, l2=FIRST_PENALTY.get(name, 0.0))
