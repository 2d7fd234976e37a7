"""What is tried, in which order, and how long it is trained."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from harmonium.errors import InvalidOption
from harmonium.training.precision import AUTO

from ..options import override

BERNOULLI, CATEGORIES = "bernoulli", "categories"
EXACT, PENALTY, SMOOTH = "exact", "l2", "smooth"
EXACT_HIDDEN = 12  # largest number of hidden units with exact gradients: 2^12 states
SMALL = 16  # hidden units; exact gradients are tried on sets whose smallest machine has at most as many
EXACT_SHARE = 30  # updates with chains for each exact update after them, which costs about ten times as much
EXACT_BATCH, EXACT_RATE = 500, 1.0
RATES = (0.05, 0.1, 0.3)
NEGATIVES = ("pcd:1", "pcd:5")
MODES, SMALL_WEIGHTS = "modes", "normal"
NOT_GIVEN = -1.0


@dataclass(frozen=True)
class Settings:
    """One way to train a machine.

    Attributes:
        hidden: number of hidden units.
        learning_rate: rate at the beginning; it falls to zero in the second half.
        l2: strength of the L2 penalty.
        negative: negative phase: persistent chains ("pcd:K"), or these and then exact gradients ("pcd:K+exact").
        visible: "bernoulli", or "categories" for units with the groups of exclusive columns.
        precision: of the matrix products of the training.
        initialize: initial weights: along the "modes" of the data, or "normal" for small random ones.
        smooth: strength of the penalty on differences of neighboring pixels, for images.
    """

    hidden: int = 64
    learning_rate: float = 0.1
    l2: float = 0.0
    negative: str = "pcd:1"
    visible: str = BERNOULLI
    precision: str = "float32"
    initialize: str = MODES
    smooth: float = 0.0

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
        """One line; initial weights are named if they are not along the modes, and smoothing if there is any.

        >>> print(Settings(), Settings(hidden=500, initialize=SMALL_WEIGHTS, smooth=0.001), sep="\\n")
        bernoulli units, 64 hidden, rate 0.1, L2 0, pcd:1
        bernoulli units, 500 hidden, rate 0.1, L2 0, smooth 0.001, pcd:1, small random weights
        """
        start = "" if self.initialize == MODES else ", small random weights"
        smooth = f", smooth {self.smooth:g}" if self.smooth else ""
        way = f"rate {self.learning_rate:g}, L2 {self.l2:g}{smooth}, {self.negative}"
        return f"{self.visible} units, {self.hidden} hidden, {way}{start}"


@dataclass(frozen=True)
class Budget:
    """What is tried on a data set, and how much is computed.

    Attributes:
        search_updates, updates: updates of each training of the search, and of the final trainings.
        search_betas, betas: annealing steps for the validation rows of the search, and for the test rows.
        seeds: number of final trainings.
        batch_size: rows of an update.
        stages: the settings that are searched, in this order.
        hidden, rates, negatives, penalties, smooth: the values to choose from. A single value is used without a
            search.
        first_penalty: L2 penalty at the beginning of the search.
        penalty_updates: updates of the trainings that choose the penalties, if these are longer than those of the
            search, because the effect of a penalty shows late; then with ``betas`` annealing steps.
        precision: of the matrix products of all trainings; by default "auto" for images in quick runs.
        initialize: initial weights of all trainings.
    """

    search_updates: int
    updates: int
    search_betas: int
    betas: int
    seeds: int = 3
    batch_size: int = 100
    stages: tuple[str, ...] = ("hidden", "learning_rate", "negative", EXACT, PENALTY)
    hidden: tuple[int, ...] = (50, 100, 200)
    rates: tuple[float, ...] = RATES
    negatives: tuple[str, ...] = NEGATIVES
    penalties: tuple[float, ...] = (0.0, 3e-4, 3e-3, 3e-2)
    smooth: tuple[float, ...] = (0.0,)
    first_penalty: float = 0.0
    penalty_updates: int = 0
    precision: str = "float32"
    initialize: str = MODES

    def lengths(self, stage: str) -> tuple[int, int]:
        """The updates and the annealing steps of each training of a stage of the search.

        >>> Budget(30, 300, 20, 200).lengths("l2"), Budget(30, 300, 20, 200, penalty_updates=300).lengths("l2")
        ((30, 20), (300, 200))
        """
        if stage in (PENALTY, SMOOTH) and self.penalty_updates:
            return self.penalty_updates, self.betas
        return self.search_updates, self.search_betas

    def first(self, visible: str = BERNOULLI) -> Settings:
        """Where the search starts: the middle of the numbers of hidden units and rates, and the first other values.

        >>> budget_of("nltcs", "quick").first().hidden, budget_of("dna", "quick").first().l2
        (32, 0.03)
        """
        hidden, rate = (values[len(values) // 2] for values in (self.hidden, self.rates))
        kept: dict[str, Any] = {"precision": self.precision, "initialize": self.initialize, "smooth": self.smooth[0]}
        return Settings(int(hidden), rate, self.first_penalty, self.negatives[0], visible, **kept)

    def candidates(self, stage: str, best: Settings) -> tuple[Settings, ...]:
        """The settings that a stage of the search compares: ``best`` with several values of one setting.

        The stage "exact" tries to end with exact gradients, with few hidden units and every rate: exact gradients
        correct machines that mix badly, so that larger rates than before may be the best. Sets on which only larger
        machines are tried do not have it, nor has a search with a single negative phase.

        >>> budget = budget_of("mushrooms", "quick")
        >>> [found.hidden for found in budget.candidates("hidden", budget.first())]
        [16, 50, 100]
        >>> for found in budget.candidates(EXACT, budget.first()):
        ...     print(found)
        bernoulli units, 12 hidden, rate 0.05, L2 0, pcd:1+exact
        bernoulli units, 12 hidden, rate 0.1, L2 0, pcd:1+exact
        bernoulli units, 12 hidden, rate 0.3, L2 0, pcd:1+exact
        """
        if stage == EXACT:
            if min(self.hidden) > SMALL or len(self.negatives) == 1:
                return ()
            small = replace(best, hidden=min(best.hidden, EXACT_HIDDEN), negative=f"{self.negatives[0]}+{EXACT}")
            return tuple(replace(small, learning_rate=rate) for rate in self.rates)
        values: dict[str, tuple[Any, ...]] = {
            "hidden": self.hidden,
            "learning_rate": self.rates,
            "negative": self.negatives,
            PENALTY: self.penalties,
            SMOOTH: self.smooth,
        }
        if len(values[stage]) == 1:
            return ()
        return tuple(replace(best, **{stage: value}) for value in values[stage])


BUDGETS = {
    "quick": Budget(3_000, 15_000, 300, 6_000),
    "full": Budget(30_000, 300_000, 2_000, 20_000),
}
MNIST, OCR, SILHOUETTES, PUMSB = "binarized-mnist", "ocr-letters", "caltech-silhouettes", "pumsb-star"
#: images: with many columns, so that an update costs ten times as much and less is searched
IMAGES = (MNIST, SILHOUETTES)
IMAGE_SHAPE = (28, 28)
IMAGE_STAGES = ("learning_rate", SMOOTH, PENALTY)
#: sets on which long trainings differ from short ones: they overfit, because there are few rows for the columns, or
#: give machines that mix too slowly for an estimate
LATE_EFFECTS = (SILHOUETTES, "dna", "jester", "mushrooms", "nips", OCR, PUMSB)
#: what differs from ``Budget`` in both scales, by data set
OWN: dict[str, dict[str, Any]] = {
    "nltcs": {"hidden": (16, 32, 64)},
    "accidents": {"hidden": (100, 200)},
    "mushrooms": {"hidden": (16, 50, 100), "penalties": (0.0, 3e-4, 3e-3)},
    "dna": {"hidden": (50, 100), "penalties": (3e-3, 3e-2), "first_penalty": 3e-2},
    "nips": {"hidden": (50, 100, 200), "penalties": (3e-3, 3e-2), "first_penalty": 3e-2},
    PUMSB: {"hidden": (50, 100), "penalties": (3e-4, 3e-3), "first_penalty": 3e-4},
    OCR: {"hidden": (200, 500), "penalties": (3e-4, 1e-3), "first_penalty": 3e-4},
    MNIST: {
        **{"hidden": (500,), "penalties": (2e-4,), "first_penalty": 2e-4, "smooth": (5e-4, 1e-3)},
        "stages": IMAGE_STAGES,
    },
    # with larger rates, fewer sweeps or initial weights along the modes, machines of silhouettes have a disordered
    # phase, with most of the probability, that persistent chains from the data do not visit
    SILHOUETTES: {
        **{"hidden": (2000,), "penalties": (1e-3,), "first_penalty": 1e-3, "smooth": (5e-3,)},
        **{"rates": (0.03,), "negatives": ("pcd:2",), "initialize": SMALL_WEIGHTS, "stages": IMAGE_STAGES},
    },
}
#: what differs in quick runs: shorter for sets with few rows, many rows or slow updates; more annealing steps where the
#: interval is too wide for a verdict, fewer for images
QUICK: dict[str, dict[str, Any]] = {
    "adult": {"betas": 12_000},
    "accidents": {"updates": 10_000},
    "dna": {"search_updates": 2_000, "updates": 6_000},
    "nips": {"search_updates": 1_000, "updates": 2_000},
    PUMSB: {"updates": 10_000},
    OCR: {"updates": 20_000, "betas": 12_000},
    MNIST: {"updates": 25_000, "betas": 6_000, "precision": AUTO},
    SILHOUETTES: {"search_updates": 1_000, "updates": 6_000, "betas": 3_000, "precision": AUTO},
}


def budget_of(
    name: str,
    scale: str,
    updates: int = 0,
    betas: int = 0,
    seeds: int = 0,
    hidden: int = 0,
    learning_rate: float = 0.0,
    negative: str = "",
    l2: float = NOT_GIVEN,
    smooth: float = NOT_GIVEN,
    precision: str = "",
) -> Budget:
    """The budget of a data set; numbers that are not 0 replace those of the scale.

    ``hidden``, ``learning_rate``, ``negative``, ``l2`` and ``smooth`` (at least 0) replace the values to choose from.

    >>> budget_of("nltcs", "quick").search_updates, budget_of("caltech-silhouettes", "quick").search_updates
    (3000, 1000)
    """
    if negative and not re.fullmatch(r"pcd:[1-9]\d*", negative):
        raise InvalidOption(f"negative: expected persistent chains, such as pcd:5, found {negative!r}")
    budget = replace(BUDGETS[scale], **OWN.get(name, {}), **(QUICK.get(name, {}) if scale == "quick" else {}))
    budget = override(budget, updates=updates, betas=betas, seeds=seeds, precision=precision)
    if name in LATE_EFFECTS:
        budget = replace(budget, penalty_updates=budget.updates)
    if name == MNIST:  # a training costs a quarter of an hour, so that no more can be compared
        budget = replace(budget, search_updates=max(1_000, budget.updates // 20), penalty_updates=budget.updates // 4)
    if hidden:
        budget = replace(budget, hidden=(hidden,))
    if learning_rate:
        budget = replace(budget, rates=(learning_rate,))
    if negative:
        budget = replace(budget, negatives=(negative,))
    if l2 >= 0:
        budget = replace(budget, penalties=(l2,), first_penalty=l2)
    if smooth > 0 and name not in IMAGES:
        raise InvalidOption(f"smooth: expected 0 for {name}, whose rows are no images, found {smooth:g}")
    if smooth >= 0:
        budget = replace(budget, smooth=(smooth,))
    return budget
