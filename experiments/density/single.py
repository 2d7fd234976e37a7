"""Test log-likelihood of RBMs on a binary data set, from both sides.

Settings are chosen on the validation rows by a search that changes one setting after the other (``settings.py``). The
test rows are used once, after training with the chosen settings and several seeds. Rows with "categories" use groups of
exclusive columns, found in the training rows: such a machine knows more about the data than a model of binary columns.
"""

from __future__ import annotations

from ..options import override
from ..record import Record
from .settings import BUDGETS
from .tested import claims, one


def run(record: Record, scale: str, updates: int = 0, betas: int = 0, seeds: int = 0, seed: int = 0) -> None:
    """Choose settings, train and test; ``updates``, ``betas`` and ``seeds`` replace those of the scale."""
    budget = override(BUDGETS[scale], updates=updates, betas=betas, seeds=seeds)
    name = record.name.partition("/")[2]
    claims(record, name, one(record, name, budget, seed))
