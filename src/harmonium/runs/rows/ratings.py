"""Files of ratings: a row for each user."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ... import data, paths
from ...data.rating_files import holds_ratings
from ...data.ratings import parse_scale
from ...errors import InvalidOption
from ...options import TrainingOptions
from ...training.batches import DatasetSource
from ...training.specs import default_negative
from .. import config as schema
from ..specs import UnitSpec
from .accepted import check_accepted
from .base import Rows
from .holding_out import halves, validation_of_file
from .identity import resolved


def load(path: Path, config: schema.Config) -> Rows | None:
    """Rows of a file of ratings, one for each user; a share of the ratings may be held out."""
    if not holds_ratings(path):
        return None
    chosen, what = config.data, f"the ratings in {path.name}"
    check_accepted(chosen, what, ("ratings", "columns"))
    if config.machine.visible and not config.machine.visible.startswith("ratings"):
        raise InvalidOption(f"visible: expected none for {what}, found '{config.machine.visible}'")
    table = data.read_ratings(path, None if chosen.ratings is None else parse_scale(chosen.ratings))
    validation, share = validation_of_file(chosen, "ratings")
    held_out = None
    if share is not None:
        kept, removed = halves(len(table.user), share, config.training.seed, "ratings")
        table, held_out = table.subset(kept), table.subset(removed)
    recorded = resolved(path, chosen, validation, len(table))
    source, units = DatasetSource(table, table.shape), [UnitSpec("ratings", table.shape)]
    title = f"{path.name}: {len(table.user):,} ratings of {len(table.items):,} items"
    return Rows(source, None, units, None, title, recorded, ratings=table, held_out_ratings=held_out)


def training_defaults(config: schema.Config) -> TrainingOptions:
    """Return the training options, with those for ratings filled in if the data are ratings.

    The settings were chosen on held-out ratings of MovieLens 100k (``docs/recommendation.md``).
    """
    chosen = config.training
    if not (schema.is_path(config.data.source) and holds_ratings(paths.expanded(config.data.source))):
        return chosen
    if chosen.optimizer is None and chosen.momentum is None:
        rate, schedule = chosen.learning_rate or 0.003, chosen.schedule or "linear:0.5"
        chosen = replace(chosen, optimizer="adam", learning_rate=rate, schedule=schedule)
    penalized = any(value is not None for value in (chosen.l1, chosen.l2, chosen.l1_squared, chosen.l2_to_mean))
    return replace(
        chosen,
        negative=chosen.negative or default_negative(1, by_row=True),
        l2_to_mean=chosen.l2_to_mean if penalized else 0.01,
    )
