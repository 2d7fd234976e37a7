"""Description of a data set, and the result of its loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Kind = Literal["image", "binary", "counts", "one-hot", "real"]
Hashed = Literal["file", "decompressed", "arrays"]

Content = Any
"""A decoded file: bytes, or a dictionary of arrays (see :mod:`harmonium.data.formats`)."""

Fetch = Callable[[str], Content]
"""Function that returns the verified content of a file of the data set, given its name."""


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    ``of`` says which content ``sha256`` and ``size`` refer to: the bytes of the ``file``; the ``decompressed`` bytes,
    because gzip and zip headers differ between mirrors; or the ``arrays`` in the file, for files that users create
    themselves (``.npz``, ``.png``, ``.json``, ``.mat``).
    """

    name: str
    sha256: str
    size: int
    of: Hashed = "file"
    url: str | None = None


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set. ``shape`` is the shape of one sample; images are (channels, height, width)."""

    name: str
    title: str
    kind: Kind
    shape: tuple[int, ...]
    splits: Mapping[str, int] = field(hash=False)
    split_rule: str
    suggested_visible: str
    license: str
    citation: str
    source: str
    obtain: str
    folder: str = ""
    files: tuple[DataFile, ...] = ()
    label_meaning: str | None = None
    alphabet: str | None = None
    note: str = ""
    sequential: bool = False  # rows are frames in time; labels are then the indices of the sequences

    @property
    def has_labels(self) -> bool:
        """Whether the data set has labels."""
        return self.label_meaning is not None

    @property
    def is_image(self) -> bool:
        """Whether a sample is an image, which ``flatten`` turns into a row of pixels."""
        return len(self.shape) == 3

    @property
    def url(self) -> str | None:
        """URL of the first file, or None if no stable public URL is known."""
        return self.files[0].url if self.files else None


@dataclass(frozen=True)
class Samples:
    """Result of a loader: values (n, *shape), labels (n,) or None, and the maximum pixel value (white)."""

    values: np.ndarray
    labels: np.ndarray | None = None
    maximum: int = 1


Loader = Callable[[Fetch, str], Samples]
