"""Machines trained on ratings, with the settings of both experiments."""

from __future__ import annotations

from typing import Any

import torch

from harmonium import units
from harmonium.data import RatingTable
from harmonium.machines import RBM, ConditionalRBM
from harmonium.training import CD, Conditional, L2ToMean, Linear, fit


def train(
    ratings: RatingTable,
    *,
    hidden: int,
    epochs: int,
    strength: float,
    learning_rate: float = 0.003,
    batch_size: int = 100,
    k: int = 1,
    context: torch.Tensor | None = None,
    seed: int = 0,
) -> RBM:
    """An RBM of the ratings, or a conditional one given ``context`` (users, items): which items are rated."""
    visible, above = units.Ratings(ratings.shape), units.Bernoulli(hidden)
    machine: RBM = RBM(visible, above)
    rows: Any = ratings.one_hot(dtype=torch.float32)
    if context is not None:
        machine = ConditionalRBM(visible, above, context.shape[1], to_visible=False)
        rows = Conditional(rows, context.float())
    fit(
        machine,
        rows,
        negative=CD(k),
        epochs=epochs,
        batch_size=batch_size,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=learning_rate),
        penalties=[L2ToMean(strength)],
        schedule=Linear(),
        seed=seed,
        progress=False,
    )
    return machine
