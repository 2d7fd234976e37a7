"""Rows and visible layers in each other's shape."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ...errors import InvalidOption
from ...machines import layout
from ...machines.layout import UnitSpec
from ...training.batches import Labeled, Source
from ...units.support import OneHot
from .. import config as schema


def shaped(visible: list[UnitSpec], rows: Source) -> list[UnitSpec]:
    """Return the visible layer, with the shape of the rows if it has none, and with their label."""
    if isinstance(rows, Labeled):
        return [*shaped(visible, rows.features), UnitSpec("potts", (1, rows.classes))]
    if len(visible) > 1:
        return visible
    spec = visible[0]
    open_shape = spec.shape is None or (
        isinstance(spec.kind.support, OneHot) and len(spec.shape) == 1 and rows.shape[-1:] == spec.shape
    )
    return [replace(spec, shape=rows.shape) if open_shape else spec]


def without_label(visible: list[UnitSpec], config: schema.Config) -> tuple[list[UnitSpec], int | None]:
    """Return the layer of the features and the number of classes; the latter is None if the layer has no label."""
    shape = visible[-1].shape
    if not config.data.labels or len(visible) < 2 or visible[-1].name != "potts" or shape is None or len(shape) != 2:
        return visible, None
    return visible[:-1], shape[1]


def as_image(visible: list[UnitSpec], image: tuple[int, ...] | None, config: schema.Config) -> list[UnitSpec]:
    """Return the visible layer in the shape of an image if the first hidden layer has feature maps."""
    hidden = config.machine.hidden
    first = hidden[0] if isinstance(hidden, list) else hidden
    if not layout.is_convolutional(layout.parse_hidden(str(first))):
        return visible
    if len(visible) > 1 or config.data.labels:
        found = f"{len(visible)}" if len(visible) > 1 else "features and labels"
        raise InvalidOption(f"hidden: '{first}' expects one type of visible units, found {found}")
    if visible[0].shape is not None and len(visible[0].shape) == 3:
        return visible
    if image is None:
        raise InvalidOption(f"hidden: '{first}' expects rows that are images; give their shape, as in --image 1x28x28")
    return [replace(visible[0], shape=tuple(image))]


def reshaped(array: Any, visible: list[UnitSpec]) -> Any:
    """Return rows in the shape of the visible layer if the sizes agree."""
    shape, row = visible[0].shape, tuple(array.shape[1:])
    if len(visible) > 1 or shape is None or shape == row or math.prod(shape) != math.prod(row):
        return array
    return array.reshape(len(array), *shape)


def picture(row: tuple[int, ...], text: str | None) -> tuple[int, int, int] | None:
    """Return (channels, height, width) of a row that is an image, or ``None``."""
    if text is not None:
        shape = layout.parse_shape(text)
        shape = (1, *shape) if len(shape) == 2 else shape
        if len(shape) != 3 or math.prod(shape) != math.prod(row):
            raise InvalidOption(f"image: expected HxW or CxHxW with {math.prod(row)} values in total, found '{text}'")
        return shape
    if len(row) == 2:
        return (1, *row)
    return row if len(row) == 3 and row[0] in (1, 3) else None
