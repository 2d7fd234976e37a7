"""Data sets by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from ... import data
from ...errors import RunError, unknown
from ...machines import layout
from ...machines.layout import UnitSpec
from ...training.batches import Labeled, Redrawn, Source, TensorSource
from .. import config as schema
from .accepted import check_accepted
from .base import Rows
from .holding_out import hold_out, share_of
from .shapes import as_image, reshaped, shaped, without_label
from .values import binarization


def load_by_name(config: schema.Config) -> Rows:
    """Load the rows of a data set by name, and those held out: another split, or a share of the rows."""
    chosen = config.data
    info = data.info(chosen.source)
    check_accepted(chosen, f"the data set '{info.name}'", ("binarize", "image", "labels", "ratings", "columns"))
    split = chosen.split or "train"
    image = info.shape if info.is_image else None
    visible, classes = without_label(layout.parse_layer(config.machine.visible or info.suggested_visible), config)
    visible = as_image(visible, image, config)
    binary = all(spec.name == "bernoulli" for spec in visible)
    binarize = binarization(chosen.binarize)
    if chosen.binarize is None and binary and info.kind == "image":
        binarize = "threshold"
    train = whole = _split(config, split, binarize, visible, classes, training=True)
    held_out: Source | None = None
    validation = chosen.validation
    if validation is None:
        others = [s for s in ("validation", "test") if s in info.splits]
        validation = others[0] if split == "train" and others else "none"
    share = share_of(validation)
    if share is not None:
        train, held_out = hold_out(train, share, config.seed)
    elif validation != "none":
        if validation not in info.splits:
            raise unknown(f"validation split of data set '{info.name}'", str(validation), [*info.splits, "none"])
        classes = whole.classes if isinstance(whole, Labeled) else None
        held_out = _split(config, str(validation), binarize, visible, classes)
    if chosen.rows is not None and chosen.rows != len(train):
        raise RunError(f"data: expected the {chosen.rows} rows of the run, found {len(train)} in '{info.name}'")
    resolved = replace(chosen, binarize=binarize or "none", split=split, validation=validation, rows=len(train))
    return Rows(train, held_out, shaped(visible, whole), image, info.title, resolved, info.alphabet)  # type: ignore[arg-type]


def load_test_split(config: schema.Config, rows: Rows) -> Source:
    """Load the test split of a data set by name."""
    features, classes = without_label(rows.visible, config)
    return _split(config, "test", config.data.binarize, features, classes)


def _split(
    config: schema.Config,
    split: str,
    binarize: str | None,
    visible: list[UnitSpec],
    classes: int | None = None,
    *,
    training: bool = False,
) -> Source:
    """Load the rows of a split. Only training redraws binary values each epoch; elsewhere they are drawn once."""
    kind = layout.dtype(config.machine.dtype)
    how: Any = binarization(binarize)
    redrawn = how == "redraw" and training
    if how == "redraw":
        how = None if training else "sample"
    options: dict[str, Any] = {"split": split, "binarize": how, "seed": config.seed, "dtype": kind}
    labels: Tensor | None = None
    if config.data.labels:
        values, labels = data.load(config.data.source, labels=True, **options)
    else:
        values = data.load(config.data.source, **options)
    if data.info(config.data.source).is_image:
        values = _with_levels(values, visible)
    values = reshaped(values, visible)
    found = Redrawn(values) if redrawn else TensorSource(values.contiguous(), tuple(values.shape[1:]))
    return found if labels is None else Labeled(found, labels, classes)


def _with_levels(values: Tensor, visible: list[UnitSpec]) -> Tensor:
    """Gray values from 0 to 1 as the integers 0 … N of units with N levels; unchanged for other units."""
    levels = visible[0].options.get("levels", visible[0].options.get("trials")) if len(visible) == 1 else None
    return values if levels is None else (values * levels).round()
