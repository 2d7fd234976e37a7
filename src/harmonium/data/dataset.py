"""What is known of a data set before it is loaded, and what its loader hands back."""

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
"""From the name of one of a data set's files to its verified content."""


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    ``of`` says what the checksum and the size are of: the ``file``'s bytes; the ``decompressed`` bytes,
    because gzip and zip headers differ between mirrors; or the ``arrays`` inside, for files that users write
    themselves (``.npz``, ``.png``, ``.json``, ``.mat``).
    """

    name: str
    sha256: str
    size: int
    of: Hashed = "file"
    url: str | None = None


@dataclass(frozen=True)
class DatasetInfo:
    """The facts of a data set. ``shape`` is that of one sample; three axes are (channels, height, width)."""

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

    @property
    def has_labels(self) -> bool:
        """Whether ``load(name, labels=True)`` has something to give."""
        return self.label_meaning is not None

    @property
    def is_image(self) -> bool:
        """Whether a sample is a picture, which ``flatten`` turns into a row of pixels."""
        return len(self.shape) == 3

    @property
    def url(self) -> str | None:
        """Where the first file is downloaded from, or None where no stable public address is known."""
        return self.files[0].url if self.files else None


@dataclass(frozen=True)
class Samples:
    """What a loader returns: values (n, *shape), labels (n,) or None, and the value that is white."""

    values: np.ndarray
    labels: np.ndarray | None = None
    maximum: int = 1


Loader = Callable[[Fetch, str], Samples]
