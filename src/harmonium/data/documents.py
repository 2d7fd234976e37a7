"""Read documents as word counts: text files, tables of texts or of counts, and bag-of-words files of UCI."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harmonium.arrays import as_tensor
from harmonium.data.image_folders import holds_images
from harmonium.data.sequence_files import extension, text_lines
from harmonium.errors import DataNotFound, InvalidData, InvalidOption, clipped, unknown
from harmonium.extras import require
from harmonium.paths import check_file, expand

#: number of words of a vocabulary that is made from the documents
VOCABULARY_SIZE = 2000
#: words are three or more letters of any alphabet, in lowercase
PATTERN = r"[^\W\d_]{3,}"
TEXT_COLUMNS = ("text", "document")
NAME_COLUMNS = ("name", "id", "title")
_MOST_WORDS = 10**6  # of one kind in a text that is written
_HEADER = 3  # lines of a docword file before the triples: numbers of documents, words and triples


@dataclass(frozen=True, eq=False, repr=False)
class Documents:
    """Documents as word counts, as returned by :func:`read_documents`.

    Attributes:
        names: name of each document: its file, line or row.
        counts: word counts (n, words) in int32; every document has at least one word.
        words: the vocabulary, the word of each column.
        notes: what was left out while reading, with the file and line of the first case.

    >>> mine = Documents(("first",), torch.tensor([[1, 0, 2]]), ("apple", "pear", "plum"))
    >>> mine, mine.decode(mine.counts), mine.encode("Plum and pear!")
    (Documents(1 document, 3 words), ['plum plum apple'], tensor([[0, 1, 1]], dtype=torch.int32))
    """

    names: tuple[str, ...]
    counts: Tensor
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        notes = "".join(f"; {note}" for note in self.notes)
        return f"Documents({len(self)} document{'s' * (len(self) != 1)}, {len(self.words)} words{notes})"

    def decode(self, counts: Any) -> list[str]:
        """Convert word counts (n, words), such as samples of a machine, to text: frequent words first."""
        return decode(counts, self.words)

    def encode(self, texts: str | Sequence[str], *, pattern: str = PATTERN) -> Tensor:
        """Count the words of the vocabulary in texts, or in one text: (n, words) in int32. Other words are ignored."""
        given = [texts] if isinstance(texts, str) else list(texts)
        return _table([Text("", "", tokens(text, pattern)) for text in given], self.words)


@dataclass
class Text:
    """A document: its name, where it was read, and its words."""

    name: str
    where: str
    tokens: list[str] = field(default_factory=list)


def read_documents(
    path: str | Path,
    *,
    vocabulary: int | Sequence[str] | None = None,
    stop_words: str | Iterable[str] = (),
    pattern: str = PATTERN,
) -> Documents:
    """Read documents as word counts.

    - a folder: every ``.txt`` file in it and in its subfolders is a document;
    - ``.txt``: every line is a document; blank lines at the end are ignored;
    - ``.csv`` and ``.tsv``: a table with a column ``text`` or ``document``, and possibly a column ``name``; or a table
      of counts whose header has the words;
    - ``docword.NAME.txt``: bag of words in the format of UCI, with the words in ``vocab.NAME.txt`` beside it.

    Files may be compressed with gzip (``.txt.gz``). Texts are converted to lowercase and split into words by
    ``pattern``. Documents without a word of the vocabulary are left out, and ``notes`` says how many and where.

    Args:
        path: the folder or the file.
        vocabulary: number of words, the most frequent first and equally frequent ones in alphabetical order; or the
            words themselves, for example those of the training documents. By default 2000 for texts, and all words of
            a table of counts, in its order.
        stop_words: words to leave out, or "english" for the list of scikit-learn.
        pattern: regular expression of a word; by default three or more letters.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name, "mine.txt")
    >>> _ = file.write_text("The sun, the moon.\\n\\nMoon and stars!\\n")
    >>> mine = read_documents(file, stop_words=["the", "and"])
    >>> mine.words, mine.counts.tolist(), len(mine.notes)
    (('moon', 'stars', 'sun'), [[1, 0, 1], [1, 1, 0]], 1)
    >>> folder.cleanup()
    """
    path = expand(path)
    if not os.path.isdir(path):
        check_file(path)
    left_out = _stop_words(stop_words)
    counted = None if os.path.isdir(path) else _counts_reader(path)
    if counted is not None:
        names, places, columns, counts = counted(path)
        wanted = [word for word in columns if word not in left_out] if vocabulary is None else vocabulary
        words = _chosen(Counter(dict(zip(columns, counts.sum(0).tolist(), strict=True))), wanted, left_out, places[0])
        index = {word: k for k, word in enumerate(columns)}
        table = torch.zeros(len(counts), len(words), dtype=torch.int32)
        known = [(k, index[word]) for k, word in enumerate(words) if word in index]
        if known:
            to, at = map(list, zip(*known, strict=True))
            table[:, to] = counts[:, at]
        return _kept(names, places, table, words, [])
    texts = _texts(path, _compiled(pattern))
    wanted = VOCABULARY_SIZE if vocabulary is None else vocabulary
    words = _chosen(Counter(word for text in texts for word in text.tokens), wanted, left_out, texts[0].where)
    notes = [] if isinstance(wanted, int) else _unknown_words(texts, {*words, *left_out})
    return _kept([t.name for t in texts], [t.where for t in texts], _table(texts, words), words, notes)


def holds_documents(path: Path) -> bool:
    """Return whether a path is read as documents: a folder without images, a text file, or a table with a text column.

    A table of counts, too, can be read as documents; that it has counts of words is for the user to say.
    """
    if os.path.isdir(path):
        return not holds_images(path)
    if extension(path) == ".txt":
        return True
    if extension(path) not in (".csv", ".tsv") or not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        first = next(csv.reader(file, delimiter=_delimiter(path)), [])
    return any(cell.strip().lower() in TEXT_COLUMNS for cell in first)


def decode(counts: Any, words: Sequence[str]) -> list[str]:
    """Convert word counts (n, words) to text: every word as often as it is counted, frequent words first.

    >>> decode(torch.tensor([[0, 2, 1]]), ("apple", "pear", "plum"))
    ['pear pear plum']
    """
    given = as_tensor(counts, "counts")
    if given.ndim != 2 or given.shape[1] != len(words):
        raise InvalidData(f"counts: expected the shape (n, {len(words)}), found {tuple(given.shape)}")
    if not bool((given < _MOST_WORDS).all()):
        raise InvalidData(f"counts: expected numbers below {_MOST_WORDS:,}, found {given.max().item():g}")
    texts, table = [], given.double().round().long()
    for row in table.tolist():
        order = sorted((k for k, number in enumerate(row) if number > 0), key=lambda k: -row[k])
        texts.append(" ".join(word for k in order for word in [words[k]] * row[k]))
    return texts


def tokens(text: str, pattern: str = PATTERN) -> list[str]:
    """Split a text into words, in lowercase.

    >>> tokens("Don't panic: 42 towels")
    ['don', 'panic', 'towels']
    """
    return _compiled(pattern).findall(text.lower())


# -- the vocabulary -------------------------------------------------------------------------------------------------


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidOption(f"pattern: expected a regular expression, found {pattern!r} ({error})") from None


def _stop_words(given: str | Iterable[str]) -> frozenset[str]:
    if not isinstance(given, str):
        return frozenset(word.lower() for word in given)
    if given == "english":
        text = require("sklearn.feature_extraction.text", "English stop words need")
        return frozenset(text.ENGLISH_STOP_WORDS)
    raise unknown("list of stop words", given, ["english"])


def _chosen(
    counter: Counter[str], vocabulary: int | Sequence[str], left_out: frozenset[str], place: str
) -> tuple[str, ...]:
    """The words of the columns: those given, or the most frequent ones."""
    if not isinstance(vocabulary, int):
        words = tuple(vocabulary)
        if not words or len(set(words)) < len(words):
            raise InvalidOption(f"vocabulary: expected different words, found {len(set(words))} among {len(words)}")
        return words
    if vocabulary < 1:
        raise InvalidOption(f"vocabulary: expected at least one word, found {vocabulary}")
    found = [word for word in counter if word not in left_out and counter[word] > 0]
    if not found:
        raise InvalidData(f"{place}: expected a document with words, found none in this or any other")
    return tuple(sorted(found, key=lambda word: (-counter[word], word))[:vocabulary])


def _unknown_words(texts: Sequence[Text], known: set[str]) -> list[str]:
    number, first = 0, ""
    for text in texts:
        others = [word for word in text.tokens if word not in known]
        if others and not number:
            first = f"{text.where}: '{others[0]}'"
        number += len(others)
    return [f"{number:,} words outside the vocabulary left out, the first in {first}"] if number else []


def _table(texts: Sequence[Text], words: Sequence[str]) -> Tensor:
    column = {word: k for k, word in enumerate(words)}
    table = np.zeros((len(texts), len(words)), dtype=np.int32)
    for row, text in zip(table, texts, strict=True):
        found = np.array([column[word] for word in text.tokens if word in column], dtype=np.int64)
        row[:] = np.bincount(found, minlength=len(words))
    return torch.from_numpy(table)


def _kept(
    names: Sequence[str], places: Sequence[str], table: Tensor, words: tuple[str, ...], notes: list[str]
) -> Documents:
    """The documents that have words, and a note on the others."""
    full = table.sum(1) > 0
    if not bool(full.any()):
        raise InvalidData(
            f"{places[0]}: expected a document with words of the vocabulary, found none in this or any other"
        )
    empty = [k for k, kept in enumerate(full.tolist()) if not kept]
    if empty:
        what = "documents without words" if len(empty) > 1 else "document without words"
        notes = [*notes, f"{len(empty):,} {what} of the vocabulary left out, the first in {places[empty[0]]}"]
    kept = [name for name, keep in zip(names, full.tolist(), strict=True) if keep]
    return Documents(tuple(kept), table[full], words, tuple(notes))


# -- texts ----------------------------------------------------------------------------------------------------------


def _texts(path: Path, pattern: re.Pattern[str]) -> list[Text]:
    if os.path.isdir(path):
        try:
            files = sorted(file for file in path.rglob("*") if extension(file) == ".txt" and file.is_file())
        except OSError as error:
            raise InvalidData(f"{path}: expected a folder of documents, found {error}") from None
        if not files:
            raise InvalidData(f"{path}: expected .txt files in the folder, found none")
        return [
            Text(str(file.relative_to(path)), str(file), pattern.findall("\n".join(text_lines(file)).lower()))
            for file in files
        ]
    if extension(path) == ".txt":
        lines = list(text_lines(path))
        while lines and not lines[-1].strip():  # blank lines at the end are no documents
            lines.pop()
        rows = [(f"line {number}", number, line) for number, line in enumerate(lines, 1)]
    elif extension(path) in (".csv", ".tsv"):
        rows = _text_column(path)
    else:
        raise unknown("file extension of documents", path.suffix or path.name, [".txt", ".csv", ".tsv"])
    if not rows:
        raise InvalidData(f"{path} is empty: expected documents")
    return [Text(name, f"{path}, line {number}", pattern.findall(text.lower())) for name, number, text in rows]


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """The cells of every line that is not blank, with its number."""
    reader = csv.reader(text_lines(path), delimiter=_delimiter(path))
    return [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]


def _delimiter(path: Path) -> str:
    return "\t" if extension(path) == ".tsv" else ","


def _text_column(path: Path) -> list[tuple[str, int, str]]:
    (_, header), *rows = _cells(path)
    lower = [cell.lower() for cell in header]
    column = next(lower.index(name) for name in TEXT_COLUMNS if name in lower)
    naming = next((lower.index(name) for name in NAME_COLUMNS if name in lower), None)
    for line, row in rows:
        _check_width(path, line, row, len(header))
    return [(f"line {line}" if naming is None else row[naming], line, row[column]) for line, row in rows]


def _check_width(path: Path, line: int, row: Sequence[str], width: int) -> None:
    if len(row) != width:
        raise InvalidData(f"{path}, line {line}: expected {width} columns as in the first line, found {len(row)}")


# -- counts -----------------------------------------------------------------------------------------------------------

Counted = tuple[list[str], list[str], list[str], Tensor]  # names, places, words, counts


def _counts_reader(path: Path) -> Callable[[Path], Counted] | None:
    """The reader of a file of counts; ``None`` for a file of texts."""
    if extension(path) == ".txt" and path.name.startswith("docword"):
        return _docword
    return None if holds_documents(path) or extension(path) not in (".csv", ".tsv") else _count_table


def _count_table(path: Path) -> Counted:
    """A table whose header has the words, with one document in each row; rows of empty cells are no documents."""
    cells = [(line, row) for line, row in _cells(path) if any(row)]
    if len(cells) < 2:
        raise InvalidData(f"{path}: expected a header of words and rows of counts, found {len(cells)} lines")
    (_, words), *rows = cells
    if len(set(words)) < len(words) or all(word.isdigit() for word in words):
        raise InvalidData(
            f"{path}, line 1: expected a header of different words, found {clipped(', '.join(words[:5]))}"
        )
    counts = torch.zeros(len(rows), len(words), dtype=torch.int32)
    for k, (line, row) in enumerate(rows):
        _check_width(path, line, row, len(words))
        for column, cell in enumerate(row):
            if not cell.isdigit():
                raise InvalidData(
                    f"{path}, line {line}: expected a count (0, 1, 2, …) of the word '{clipped(words[column], 30)}', "
                    f"found '{clipped(cell, 30)}'"
                )
        counts[k] = torch.tensor([int(cell) for cell in row], dtype=torch.int32)
    names = [f"line {line}" for line, _ in rows]
    return names, [f"{path}, line {line}" for line, _ in rows], words, counts


def _docword(path: Path) -> Counted:
    """Three lines with the numbers of documents, words and triples; then the triples document, word, count from 1."""
    lines = text_lines(path)
    numbers = [_whole(path, k + 1, lines[k].split() if k < len(lines) else [], 1)[0] for k in range(_HEADER)]
    documents, size, triples = numbers
    for line, (what, number) in enumerate((("document", documents), ("word", size)), 1):
        if number < 1:
            raise InvalidData(f"{path}, line {line}: expected at least one {what}, found 0")
    vocabulary = path.with_name(path.name.removesuffix(".gz").replace("docword", "vocab", 1))
    found = next((file for file in (vocabulary, Path(f"{vocabulary}.gz")) if file.is_file()), None)
    if found is None:
        raise DataNotFound(f"{path}: expected the words in {vocabulary.name} beside it, found no such file")
    words = [line.strip() for line in text_lines(found)]
    if len(words) != size:
        raise InvalidData(f"{found}: expected {size} words as in line 2 of {path.name}, found {len(words)}")
    counts = np.zeros((documents, size), dtype=np.int32)
    body = [(number, line.split()) for number, line in enumerate(lines[_HEADER:], _HEADER + 1) if line.strip()]
    if len(body) != triples:
        raise InvalidData(f"{path}: expected {triples} lines after the header as in line 3, found {len(body)}")
    for number, cells in body:
        document, word, count = _whole(path, number, cells, 3)
        for what, value, most in (("document", document, documents), ("word", word, size)):
            if not 1 <= value <= most:
                raise InvalidData(f"{path}, line {number}: expected a {what} from 1 to {most}, found {value}")
        counts[document - 1, word - 1] += count
    names = [str(k + 1) for k in range(documents)]
    return names, [f"{path}, document {name}" for name in names], words, torch.from_numpy(counts)


def _whole(path: Path, line: int, cells: Sequence[str], number: int) -> list[int]:
    if len(cells) != number or not all(cell.isdigit() for cell in cells):
        what = "a whole number" if number == 1 else f"{number} whole numbers (document, word, count)"
        raise InvalidData(f"{path}, line {line}: expected {what}, found '{' '.join(cells)}'")
    return [int(cell) for cell in cells]
