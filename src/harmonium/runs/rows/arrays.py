"""Rows of an array that was read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from ...machines import layout
from ...training.batches import Labeled, Redrawn, Source
from .. import config as schema
from .base import Rows, Subset
from .holding_out import hold_out, validation_of_file
from .identity import identity
from .shapes import as_image, picture, reshaped, shaped, without_label
from .values import binarization, binarized, check_finite, fitted, inferred, labels_of


@dataclass(frozen=True)
class Contents:
    """The contents of a file: an array of rows, and what is known about them.

    Attributes:
        array: rows (n, *shape).
        visible: name of the visible units; if None, they are inferred from the values.
        image: whether rows may be images.
        names: name of each row.
        letters: the states of the units of sequences.
        words: the units of documents.
        notes: what was changed while reading.
    """

    array: Tensor | np.ndarray
    visible: str | None = None
    image: bool = True
    names: Sequence[str] | None = None
    letters: str | None = None
    words: Sequence[str] | None = None
    notes: tuple[str, ...] = ()


def rows_of(contents: Contents, path: Path, config: schema.Config) -> Rows:
    """Return the rows of an array: binarized, in the shape of the visible layer, and split."""
    chosen, array = config.data, contents.array
    size, digest = identity(path, chosen)
    if array.ndim == 1:
        array = array[:, None]
    check_finite(array, path)
    labels: Tensor | None = None
    if chosen.labels:
        array, labels = labels_of(array, path)
    binarize = binarization(chosen.binarize)
    if binarize is not None:
        array = binarized(array, binarize, config.seed, path)
    redrawn = binarize == "redraw"
    classes: int | None = None
    units = config.machine.visible or ("bernoulli" if redrawn else contents.visible)
    if units is None:
        visible = inferred(array, path)
    else:
        visible, classes = without_label(layout.parse_layer(units), config)
    image = picture(tuple(array.shape[1:]), chosen.image) if contents.image else None
    visible = as_image(visible, image, config)
    whole: Source = Redrawn(reshaped(array, visible)) if redrawn else fitted(array, visible, path)
    whole = whole if labels is None else Labeled(whole, labels, classes)
    train: Source = whole
    held_out = None
    validation, share = validation_of_file(chosen)
    if share is not None:
        train, held_out = hold_out(whole, share, config.seed)
    recorded = replace(
        chosen,
        source=str(path),
        binarize=binarize or "none",
        validation=validation,
        rows=len(whole),
        bytes=size,
        sha256=digest,
        alphabet=contents.letters,
    )
    names = contents.names
    if names is not None and isinstance(train, Subset):
        names = [names[k] for k in train.index.tolist()]
    known = {"letters": contents.letters, "names": names, "notes": contents.notes, "read_words": contents.words}
    return Rows(train, held_out, shaped(visible, whole), image, path.name, recorded, **known)  # type: ignore[arg-type]
