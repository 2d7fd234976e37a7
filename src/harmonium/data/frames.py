"""Sequences of frames, such as motion or measurements in time: files of the user, and named data sets."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from harmonium.data import column_files
from harmonium.data.loading import info, load
from harmonium.data.reading import is_header, read
from harmonium.errors import InvalidData, InvalidOption
from harmonium.paths import expand

EXTENSIONS = (".npy", ".npz", ".csv", *column_files.EXTENSIONS)


@dataclass(frozen=True)
class Frames:
    """Sequences (frames, *frame) with their names, and the names of the channels, if known.

    ``places`` says where each sequence ends, the file and its last line, for messages; by default its name.
    """

    sequences: tuple[Tensor, ...]
    names: tuple[str, ...]
    channels: tuple[str, ...] | None = None
    places: tuple[str, ...] = ()

    def check_longer_than(self, order: int) -> None:
        """Raise an error that names the first sequence with no frame after its first ``order`` frames."""
        for place, sequence in zip(self.places or self.names, self.sequences, strict=True):
            if len(sequence) <= order:
                raise InvalidData(
                    f"{place}: expected more than {order} frames, the length of the window, found {len(sequence)}"
                )

    def cut(self, share: float, order: int) -> tuple[Frames, Frames]:
        """Split every sequence in time: the last ``share`` of its frames is the second part.

        >>> first, last = Frames((torch.arange(10.0)[:, None],), ("walk",)).cut(0.3, order=2)
        >>> len(first.sequences[0]), last.sequences[0].flatten().tolist()
        (7, [7.0, 8.0, 9.0])
        """
        ends = [len(sequence) - round(share * len(sequence)) for sequence in self.sequences]
        parts = (
            replace(self, sequences=tuple(x[:end] for x, end in zip(self.sequences, ends, strict=True))),
            replace(self, sequences=tuple(x[end:] for x, end in zip(self.sequences, ends, strict=True))),
        )
        for part, what in zip(parts, ("for training", "held out"), strict=True):
            for place, sequence in zip(self.places or self.names, part.sequences, strict=True):
                if len(sequence) <= order:
                    raise InvalidData(
                        f"{place}: expected more than {order} frames {what}, the length of the window, "
                        f"found {len(sequence)}; change --validation"
                    )
        return parts


def read_frames(path: str | Path) -> Frames:
    """Read a sequence from a file of numbers with a frame in each row, or several from a folder of such files.

    The files of a folder (``.npy``, ``.npz``, ``.csv``, ``.parquet`` or ``.arrow``) are read in order of their names.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "walk.csv").write_text("x,y\\n0,1\\n2,3\\n4,5\\n")
    ...     found = read_frames(folder)
    >>> found.names, found.channels, found.sequences[0].shape
    (('walk.csv',), ('x', 'y'), torch.Size([3, 2]))
    """
    path = expand(path)
    files = [path]
    if os.path.isdir(path):
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in EXTENSIONS)
        if not files:
            raise InvalidData(f"{path}: expected files of sequences ({', '.join(EXTENSIONS)}), found none")
    sequences = [_rows(file) for file in files]
    for file, sequence in zip(files, sequences, strict=True):
        if sequence.shape[1:] != sequences[0].shape[1:]:
            raise InvalidData(
                f"{file}: expected frames of shape {tuple(sequences[0].shape[1:])}, as in {files[0].name}, "
                f"found {tuple(sequence.shape[1:])}"
            )
    names = tuple(str(file) if file == path else file.name for file in files)
    return Frames(tuple(sequences), names, _channels(files[0]), tuple(map(_place, files)))


def load_frames(name: str, split: str = "train") -> Frames:
    """Load the sequences of a named data set whose rows are frames, such as ``mocap``.

    >>> load_frames("digits")
    Traceback (most recent call last):
    ...
    harmonium.errors.InvalidOption: window: expected a data set of sequences, found 'digits', whose rows are independent
    """
    about = info(name)
    if not about.sequential:
        raise InvalidOption(f"window: expected a data set of sequences, found '{name}', whose rows are independent")
    if not about.has_labels:
        return Frames((load(name, split=split),), (name,))
    frames, sequence = load(name, split=split, labels=True)
    parts = [frames[sequence == k] for k in sequence.unique().tolist()]
    return Frames(tuple(parts), tuple(f"{name}, sequence {k}" for k in sequence.unique().tolist()))


def _rows(path: Path) -> Tensor:
    rows = torch.tensor(np.asarray(read(path)))  # a copy: a memory map is read-only
    rows = rows.unsqueeze(1) if rows.ndim == 1 else rows
    if not bool(torch.isfinite(rows).all()):
        raise InvalidData(f"{path}: expected finite numbers, found NaN or infinity")
    return rows


def _place(path: Path) -> str:
    """The file, with the number of its last line if it is a text."""
    if path.suffix.lower() != ".csv":
        return str(path)
    with path.open(encoding="utf-8-sig") as file:
        last = max((number for number, line in enumerate(file, 1) if line.strip()), default=0)
    return f"{path}, line {last}"


def _channels(path: Path) -> tuple[str, ...] | None:
    """The names of the columns of a .csv file with a header."""
    if path.suffix.lower() != ".csv":
        return None
    with path.open(encoding="utf-8-sig", newline="") as file:
        cells: Sequence[str] = next((cells for cells in csv.reader(file) if cells), [])
    cells = [cell.strip() for cell in cells]
    return tuple(cells) if is_header(cells) else None
