"""Files of ratings: a row for each user."""

from __future__ import annotations

from pathlib import Path

from ... import data
from ...data.rating_files import holds_ratings
from ...data.ratings import parse_scale
from ...errors import InvalidOption
from ...machines.layout import UnitSpec
from ...training.batches import DatasetSource
from .. import config as schema
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
        kept, removed = halves(len(table.user), share, config.seed, "ratings")
        table, held_out = table.subset(kept), table.subset(removed)
    recorded = resolved(path, chosen, validation, len(table))
    source, units = DatasetSource(table, table.shape), [UnitSpec("ratings", table.shape)]
    title = f"{path.name}: {len(table.user):,} ratings of {len(table.items):,} items"
    return Rows(source, None, units, None, title, recorded, ratings=table, held_out_ratings=held_out)
