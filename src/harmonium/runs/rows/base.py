"""The rows of a run, and a selection of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Generator, Tensor

from ... import data
from ...data.ratings import RatingTable
from ...machines.layout import UnitSpec
from ...training.batches import Source, Weighted
from ...training.batches.source import Defaults
from ...training.contexts import Windows
from .. import config as schema
from ..config import DataOptions


@dataclass
class Rows:
    """Training rows, held-out rows, the visible layer that fits them, and the image shape of a row.

    With labels, the last part of the visible layer is the label, and the image is that of the other parts. Sequences
    also have letters, documents have words; both have names (of the training rows, if known) and notes on what was
    changed while reading. Ratings also have the table of the training ratings, and a table of those that are held out.
    Tables of columns of several kinds have their encoder. Frames of sequences have the names of their channels, if
    known.
    """

    train: Source
    held_out: Source | None
    visible: list[UnitSpec]
    image: tuple[int, int, int] | None
    title: str
    config: DataOptions
    letters: str | None = None
    names: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    table: data.TableEncoder | None = None
    ratings: RatingTable | None = None
    held_out_ratings: RatingTable | None = None
    read_words: Sequence[str] | None = None
    channels: Sequence[str] | None = None

    @cached_property
    def words(self) -> Sequence[str] | None:
        """The word of each visible unit if the rows are documents."""
        named = not schema.is_path(self.config.source) and self.config.binarize in (None, "none")
        if self.read_words is None and named and data.info(self.config.source).kind == "counts":
            return data.vocabulary(self.config.source)
        return self.read_words

    @cached_property
    def weights(self) -> Tensor | None:
        """Similarity weights of sequences, or robust weights of frames, (n,), if the configuration asks for them."""
        if self.config.robust:
            assert isinstance(self.train, Windows)
            return self.train.robust_weights()
        share = self.config.similarity
        return None if share is None else data.similarity_weights(self.one_hot(), share)

    @property
    def weighted(self) -> Source:
        """The training rows, used in proportion to their weights if they have weights."""
        return self.train if self.weights is None else Weighted(self.train, self.weights)

    @property
    def weighted_held_out(self) -> Source | None:
        """The held-out rows, weighted like the training rows, so that the two can be compared.

        Their weights count similar sequences in both sets: the held-out set alone is smaller and has fewer.
        """
        share = self.config.similarity
        if share is None or self.held_out is None:
            return self.held_out
        both = torch.cat([self.one_hot(), one_hot_rows(self.held_out)])
        return Weighted(self.held_out, data.similarity_weights(both, share)[len(self.train) :])

    def one_hot(self) -> Tensor:
        """All training rows of one-hot units, (n, sites, letters) in uint8."""
        return one_hot_rows(self.train)

    def name(self, row: int) -> str:
        """The name of a training row; its number, counted from 1, if it has none."""
        return str(row + 1) if self.names is None else self.names[row]


def one_hot_rows(rows: Source) -> Tensor:
    """All rows of one-hot units, (n, sites, letters) in uint8."""
    out = torch.empty(len(rows), *rows.shape, dtype=torch.uint8)
    return rows.take(torch.arange(len(rows)), out)


class Subset(Source):
    """Some rows of a source, selected by index."""

    def __init__(self, whole: Source, index: Tensor) -> None:
        super().__init__(index, whole.shape)
        self._whole, self.index = whole, index
        self.complete, self.volatile = whole.complete, whole.volatile

    def defaults(self) -> Defaults:
        return self._whole.defaults()

    def take(self, index: Tensor, out: Tensor, generator: Generator | None = None) -> Tensor:
        return self._whole.take(self.index[index.to(self.index.device)], out, generator)
