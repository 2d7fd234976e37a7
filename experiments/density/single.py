"""Test log-likelihood of RBMs on a binary data set, from both sides.

Settings are chosen on the validation rows by a search that changes one setting after the other (``settings.py``). The
test rows are used once, after training with the chosen settings and several seeds. Sets with groups of exclusive
columns have a second row with such groups as units ("categories"). Such a machine uses more knowledge than a model of
binary columns. The planned cost is printed first. Every training is kept, and a stopped run continues after the last
one.
"""

from __future__ import annotations

from ..record import Record
from .settings import NOT_GIVEN
from .tested import report


def run(
    record: Record,
    scale: str,
    updates: int = 0,
    betas: int = 0,
    seeds: int = 0,
    seed: int = 0,
    pieces: str = "",
    visible: str = "",
    hidden: int = 0,
    learning_rate: float = 0.0,
    negative: str = "",
    l2: float = NOT_GIVEN,
    smooth: float = NOT_GIVEN,
    precision: str = "",
) -> None:
    """Choose settings, train and test.

    ``updates``, ``betas``, ``seeds`` and ``precision`` replace those of the scale. ``pieces`` is the folder of finished
    trainings. ``visible`` is "bernoulli" or "categories"; by default both. ``hidden``, ``learning_rate``, ``negative``
    (such as "pcd:5"), ``l2`` and ``smooth`` (negative: not given) are used instead of a search.
    """
    budget = {"updates": updates, "betas": betas, "seeds": seeds, "precision": precision}
    budget |= {"hidden": hidden, "learning_rate": learning_rate, "negative": negative, "l2": l2, "smooth": smooth}
    report(record, scale, seed, pieces, visible, **budget)
