"""Sequences of frames: a row for each frame, given the frames before it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ... import data
from ...data import Frames
from ...errors import InvalidOption, RunError, unknown
from ...machines import layout
from ...machines.layout import UnitSpec
from ...training.batches import Source
from ...training.contexts import Windows
from .. import config as schema
from .accepted import check_accepted
from .base import Rows
from .holding_out import share_of, validation_of_file
from .identity import resolved


def load(path: Path, config: schema.Config) -> Rows | None:
    """Return the frames of a file, or of a folder of files, if the configuration has a window."""
    chosen = config.data
    if chosen.window is None:
        return None
    check_accepted(chosen, f"the sequences in {path.name}", ("window", "robust"))
    frames = data.read_frames(path)
    frames.check_longer_than(chosen.window)
    validation, share = validation_of_file(chosen, "frames of every sequence")
    held_out = None
    if share is not None:
        frames, held_out = frames.cut(share, chosen.window)
    rows = _rows(frames, held_out, config, path.name, "gaussian")
    return replace(rows, config=resolved(path, chosen, validation, len(rows.train)))


def load_by_name(config: schema.Config) -> Rows:
    """Return the frames of a data set by name; those held out are another split, or the last share of each sequence."""
    chosen = config.data
    info = data.info(chosen.source)
    check_accepted(chosen, f"the sequences of '{info.name}'", ("window", "robust"))
    split = chosen.split or "train"
    frames, held_out = data.load_frames(chosen.source, split), None
    frames.check_longer_than(_window(config))
    validation = chosen.validation
    if validation is None:
        validation = "test" if split == "train" and "test" in info.splits else "none"
    share = share_of(validation)
    if share is not None:
        frames, held_out = frames.cut(share, _window(config))
    elif validation != "none":
        if validation not in info.splits:
            raise unknown(f"validation split of data set '{info.name}'", str(validation), [*info.splits, "none"])
        held_out = data.load_frames(chosen.source, str(validation))
    rows = _rows(frames, held_out, config, info.title, info.suggested_visible)
    if chosen.rows is not None and chosen.rows != len(rows.train):
        raise RunError(f"data: expected the {chosen.rows} frames of the run, found {len(rows.train)} in '{info.name}'")
    recorded = replace(chosen, binarize="none", split=split, validation=validation, rows=len(rows.train))
    return replace(rows, config=recorded)


def load_test_split(config: schema.Config, rows: Rows) -> Source:
    """Load the test split of a data set by name, in the units of the training frames."""
    frames = data.load_frames(config.data.source, "test")
    assert isinstance(rows.train, Windows)
    return _windows(frames, _window(config), rows.train)


def _rows(frames: Frames, held_out: Frames | None, config: schema.Config, title: str, units: str) -> Rows:
    visible = layout.parse_layer(config.machine.visible or units)
    if len(visible) > 1:
        raise InvalidOption(f"visible: expected one type of units for sequences, found '{config.machine.visible}'")
    spec = visible[0]
    scaled = spec.kind.affine
    if config.data.robust and not scaled:
        raise InvalidOption(f"robust: expected gaussian units, found {spec.name}")
    if scaled and "learn" not in spec.options:  # the spread of the data given the past is not known before training
        spec = replace(spec, options={**spec.options, "learn": ("bias", "precision")})
    train = _windows(frames, _window(config), scaled)
    rest = None if held_out is None else _windows(held_out, _window(config), train)
    spec = spec if spec.shape is not None else UnitSpec(spec.name, train.shape, spec.options)
    return Rows(train, rest, [spec], None, title, config.data, channels=frames.channels)


def _windows(frames: Frames, window: int, standardize: bool | Windows) -> Windows:
    frames.check_longer_than(window)
    floats: list[Any] = [sequence.float() for sequence in frames.sequences]
    return Windows(floats, window, standardize=standardize)


def _window(config: schema.Config) -> int:
    assert config.data.window is not None
    return config.data.window
