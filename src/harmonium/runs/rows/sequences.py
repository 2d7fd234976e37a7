"""Files of sequences: a row for each sequence."""

from __future__ import annotations

from pathlib import Path

from ... import data
from ...data.sequence_files import holds_sequences
from .. import config as schema
from .accepted import check_accepted
from .arrays import Contents, rows_of
from .base import Rows


def load(path: Path, config: schema.Config) -> Rows | None:
    """Return the rows of a file of sequences, one-hot encoded. A ``.csv`` file needs the option ``alphabet``."""
    chosen = config.data
    if not (holds_sequences(path) or (chosen.alphabet is not None and path.suffix.lower() == ".csv")):
        return None
    check_accepted(chosen, f"the sequences in {path.name}", ("alphabet",))
    read = data.read_alignment(path, chosen.alphabet)
    contents = Contents(read.rows, "potts", image=False, names=read.names, letters=read.alphabet, notes=read.notes)
    return rows_of(contents, path, config)
