"""Read aligned sequences as one-hot rows, and write sequences as FASTA."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harmonium import files
from harmonium.data import alphabets
from harmonium.data.alphabets import GAP, Alphabet
from harmonium.data.identity import letter_probabilities, nearest_sequences
from harmonium.data.sequence_files import Record, extension, read_records
from harmonium.data.sequences import one_hot
from harmonium.errors import InvalidData, InvalidOption
from harmonium.paths import expand

_WIDTH = 60  # letters per line of a FASTA file
_INSERTIONS = (".a2m", ".a3m")  # lowercase letters and dots of these formats are insertions
_DELETED = str.maketrans("", "", f"{string.ascii_lowercase}.")


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """Aligned sequences as one-hot rows, as returned by :func:`read_alignment`.

    Attributes:
        names: name of each sequence.
        rows: one-hot values (n, sites, letters) in uint8; training converts them batch by batch.
        alphabet: one letter for each state of a site; "-" is the gap.
        notes: what was changed while reading, such as the number of letters read as gaps.

    >>> mine = Alignment(("first",), torch.tensor([[[1, 0, 0], [0, 0, 1]]], dtype=torch.uint8), "AC-")
    >>> mine, mine.decode(mine.rows), mine.encode("CA").argmax(-1)
    (Alignment(1 sequence, 2 sites, alphabet AC-), ['A-'], tensor([[1, 0]]))
    """

    names: tuple[str, ...]
    rows: Tensor
    alphabet: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        count = f"{len(self)} sequence{'s' * (len(self) != 1)}"
        notes = "".join(f"; {note}" for note in self.notes)
        return f"Alignment({count}, {self.rows.shape[1]} sites, alphabet {self.alphabet}{notes})"

    @property
    def sequences(self) -> list[str]:
        """The sequences as text."""
        return self.decode(self.rows)

    def decode(self, states: Any) -> list[str]:
        """Convert states (n, sites, letters) to text: samples, or reconstructions, of which the most probable letters.

        Each site of a state is one-hot or has the probabilities of its letters.
        """
        return decode(states, self.alphabet)

    def encode(self, sequences: str | Sequence[str]) -> Tensor:
        """Convert sequences, or one sequence, to one-hot values (n, sites, letters) in uint8.

        All letters that may be in a file of this alphabet are accepted.
        """
        return encode(sequences, self.alphabet, self.rows.shape[1])

    def row(self, name: str) -> Tensor:
        """The one-hot values (sites, letters) of a sequence given by its name."""
        if name not in self.names:
            raise InvalidOption(f"name: expected the name of a sequence, such as '{self.names[0]}', found '{name}'")
        return self.rows[self.names.index(name)]

    def nearest(self, states: Any) -> tuple[Tensor, Tensor]:
        """Find the nearest sequence of each state: its row number (n,) and the share of equal sites (n,)."""
        return nearest_sequences(states, self.rows)


def read_alignment(path: str | Path, alphabet: str | None = None) -> Alignment:
    """Read aligned sequences as one-hot rows.

    - ``.fasta``, ``.fa``, ``.fas``, ``.faa``, ``.fna``, ``.afa``: FASTA;
    - ``.a2m``, ``.a3m``: FASTA in which lowercase letters and dots are insertions, which are removed;
    - ``.sto``, ``.stk``, ``.stockholm``: Stockholm, in one or several blocks;
    - ``.csv``, ``.tsv``: a table with a column ``sequence`` and possibly a column ``name``; or without header, with one
      column of sequences, or two columns of names and sequences.

    Each may be compressed with gzip (``.fasta.gz``). In FASTA and Stockholm files, too, a column that contains only
    lowercase letters and dots is an insertion, and is removed; so are insertions if only the other letters have equal
    numbers (A3M with another extension). Elsewhere lowercase is read as uppercase, and a dot as a gap.

    Args:
        path: the file.
        alphabet: "protein", "rna", "dna" or the letters in the order of their states, such as "HP-"; by default one of
            the first three, detected from the letters. Letters that stand for several amino acids or bases, or for rare
            ones (X, B, Z, U, …; N, R, Y, …), are read as gaps. With your own letters, any other letter is an error.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name, "mine.fasta")
    >>> _ = file.write_text(">first\\nMKV-\\n>second\\nMXIL\\n")
    >>> mine = read_alignment(file)
    >>> mine.names, mine.sequences, mine.rows.shape
    (('first', 'second'), ['MKV-', 'M-IL'], torch.Size([2, 4, 21]))
    >>> mine.notes
    ('1 letter read as a gap (X)',)
    >>> folder.cleanup()
    """
    path = expand(path)
    wanted = None if alphabet is None else alphabets.find(alphabet)
    records = read_records(path)
    notes: list[str] = []
    texts = [record.text for record in records]
    if wanted is None or wanted.folds_case:
        texts, removed = _without_insertions(texts, extension(path) in _INSERTIONS)
        notes += [removed] if removed else []
        texts = [text.upper() for text in texts]
    if wanted is None or "." not in wanted.letters:
        texts = [text.replace(".", GAP) for text in texts]
    _check_lengths(path, records, texts)
    counts = Counter("".join(texts))
    chosen = alphabets.detect(counts) if wanted is None else wanted
    if not set(counts) <= set(chosen.accepted):
        raise _bad_letter(path, records, chosen)
    if not set(counts) - {GAP}:
        raise InvalidData(f"{path}: expected {chosen}, found only gaps")
    gaps = {letter: counts[letter] for letter in sorted(counts) if letter in chosen.unknown}
    if gaps:
        number = sum(gaps.values())
        notes.append(f"{number:,} {'letters' if number > 1 else 'letter'} read as a gap ({', '.join(gaps)})")
    rows = torch.from_numpy(_one_hot(texts, chosen))
    return Alignment(tuple(record.name for record in records), rows, chosen.letters, tuple(notes))


def decode(states: Any, alphabet: str) -> list[str]:
    """Convert one-hot states or probabilities (n, sites, letters) to text, with the most probable letter of each site.

    ``alphabet`` has one letter for each state.

    >>> decode(torch.eye(3)[None], "AC-"), decode(torch.tensor([[[0.2, 0.7, 0.1]]]), "AC-")
    (['AC-'], ['C'])
    """
    rows = letter_probabilities(states, "states")
    if rows.shape[-1] != len(alphabet):
        raise InvalidData(f"states: expected {len(alphabet)} letters ({alphabet}), found {rows.shape[-1]}")
    letters = np.frombuffer(alphabet.encode(), np.uint8)
    return [row.tobytes().decode() for row in letters[rows.argmax(-1).cpu().numpy()]]


def encode(sequences: str | Sequence[str], alphabet: str, sites: int | None = None) -> Tensor:
    """Convert sequences, or one sequence, to one-hot values (n, sites, letters) in uint8.

    >>> encode("ca", "AC-").argmax(-1)
    tensor([[1, 0]])
    """
    chosen = alphabets.find(alphabet)
    given = [sequences] if isinstance(sequences, str) else list(sequences)
    texts = [text.upper() for text in given] if chosen.folds_case else given
    sites = len(texts[0]) if sites is None and texts else sites
    for number, text in enumerate(texts):
        if len(text) != sites:
            raise InvalidData(f"sequences: expected {sites} letters, found {len(text)} in sequence {number}")
        wrong = [letter for letter in text if letter not in chosen.accepted]
        if wrong:
            raise InvalidData(f"sequences: expected {chosen}, found '{wrong[0]}' in sequence {number}")
    if not texts:
        raise InvalidData("sequences: expected at least one sequence, found none")
    return torch.from_numpy(_one_hot(texts, chosen))


def write_fasta(path: str | Path, sequences: Sequence[str], names: Sequence[str] | None = None) -> None:
    """Write sequences as FASTA, atomically; names are 1, 2, … by default.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_fasta(Path(folder, "new.fasta"), ["MKV-"], ["first"])
    ...     Path(folder, "new.fasta").read_text()
    '>first\\nMKV-\\n'
    """
    titles = [str(k + 1) for k in range(len(sequences))] if names is None else list(names)
    if len(titles) != len(sequences):
        raise InvalidData(f"names: expected one for each of {len(sequences)} sequences, found {len(titles)}")
    lines = []
    for title, sequence in zip(titles, sequences, strict=True):
        if "\n" in title or "\r" in title:
            raise InvalidData(f"names: expected names without line breaks, found {title!r}")
        lines.append(f">{title}")
        lines += [sequence[k : k + _WIDTH] for k in range(0, len(sequence), _WIDTH)]
    files.write_text(path, "".join(f"{line}\n" for line in lines))


# -- reading ------------------------------------------------------------------------------------------------------


def _without_insertions(texts: list[str], marked: bool) -> tuple[list[str], str]:
    """Remove insertions, and say what was removed; ``marked`` if all lowercase letters and dots are insertions."""
    if all(text == text.lower() for text in texts):
        return texts, ""  # an alignment in lowercase
    kept = [text.translate(_DELETED) for text in texts]
    ragged = len({len(text) for text in texts}) > 1
    if marked or (ragged and len({len(text) for text in kept}) == 1):
        removed = sum(map(len, texts)) - sum(map(len, kept))
        return kept, f"{removed:,} letters of insertions removed" if removed else ""
    together = "".join(texts)
    if ragged or "." not in together or not together.isascii():
        return texts, ""
    letters = np.frombuffer(together.encode(), np.uint8).reshape(len(texts), -1)
    dots = letters == ord(".")
    inserted = dots.any(0) & (dots | ((letters >= ord("a")) & (letters <= ord("z")))).all(0)
    if not inserted.any():
        return texts, ""
    number = int(inserted.sum())
    words = "columns" if number > 1 else "column"
    return [row.tobytes().decode() for row in letters[:, ~inserted]], f"{number} {words} of insertions removed"


def _check_lengths(path: Path, records: Sequence[Record], texts: Sequence[str]) -> None:
    sites = len(texts[0])
    for record, text in zip(records, texts, strict=True):
        if not text:
            raise InvalidData(f"{path}, line {record.line}: expected a sequence for '{record.name}', found none")
        if len(text) != sites:
            raise InvalidData(
                f"{path}, line {record.line}: expected {sites} sites, as in the first sequence "
                f"'{records[0].name}', found {len(text)} in '{record.name}'. Align the sequences first"
            )


def _bad_letter(path: Path, records: Sequence[Record], alphabet: Alphabet) -> InvalidData:
    """The error for the first letter that is not in the alphabet, with its line."""
    accepted = set(alphabet.accepted) | ({"."} if GAP in alphabet.letters else set())
    for record in records:
        for line, text in record.pieces:
            for letter in text.upper() if alphabet.folds_case else text:
                if letter not in accepted:
                    other = "" if alphabet.name == "custom" else ". For other letters give the alphabet"
                    return InvalidData(
                        f"{path}, line {line}: expected {alphabet}, found '{letter}' in '{record.name}'{other}"
                    )
    raise AssertionError("every letter is in the alphabet")


def _one_hot(texts: Sequence[str], alphabet: Alphabet) -> np.ndarray:
    table = alphabet.translation()
    return one_hot(np.array([text.translate(table).encode() for text in texts]), alphabet.letters)
