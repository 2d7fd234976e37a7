"""Documents: text, and tables of word counts."""

from __future__ import annotations

from pathlib import Path

from ... import data
from ...data.documents import holds_documents
from ...data.sequence_files import extension, text_lines
from ...paths import expand
from .. import config as schema
from .accepted import check_accepted
from .arrays import Contents, rows_of
from .base import Rows


def load(path: Path, config: schema.Config) -> Rows | None:
    """Return the rows of documents, their word counts. A table of counts needs ``--visible multinomial``."""
    chosen, kind = config.data, str(config.machine.visible or "").partition(":")[0]
    table = kind == "multinomial" and extension(path) in (".csv", ".tsv") and _has_words(path)
    if not (holds_documents(path) or table):
        return None
    check_accepted(chosen, f"the documents in {path.name}", ("labels", "vocabulary", "stop_words"))
    read = data.read_documents(path, vocabulary=chosen.vocabulary, stop_words=_stop_words(chosen.stop_words))
    contents = Contents(read.counts, "multinomial", names=read.names, words=read.words, notes=read.notes)
    return rows_of(contents, path, config)


def _has_words(path: Path) -> bool:
    """Return whether the first line of a table has a cell that is not a number."""
    first = next((line for line in text_lines(path) if line.strip()), "")
    return any(character.isalpha() for character in first)


def _stop_words(given: str | None) -> str | list[str]:
    if given in (None, "none"):
        return []
    assert given is not None
    path = expand(given)
    return " ".join(text_lines(path)).split() if path.is_file() else given
