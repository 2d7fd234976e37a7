"""Alphabets of sequences: proteins, RNA, DNA, or the letters that a user gives."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass

from harmonium.data.sequences import AMINO_ACIDS, NUCLEOTIDES
from harmonium.errors import InvalidOption

GAP = "-"
_AMBIGUOUS_BASES = "BDHKMNRSVWXY"
_NUCLEIC = 0.9  # least share of A, C, G, T, U and N in an alignment of RNA or DNA


@dataclass(frozen=True)
class Alphabet:
    """Letters in the order of the states of a site.

    Attributes:
        name: "protein", "rna", "dna" or "custom".
        letters: one letter for each state; the gap, if there is one, is "-".
        unknown: further letters that are read as gaps.
        same: letters that are read as another letter.
    """

    name: str
    letters: str
    unknown: str = ""
    same: tuple[tuple[str, str], ...] = ()

    @property
    def folds_case(self) -> bool:
        """Whether lowercase letters are the same as uppercase letters."""
        return not any(letter.islower() for letter in self.letters)

    @property
    def accepted(self) -> str:
        """All characters that may be in a sequence."""
        return self.letters + self.unknown + "".join(letter for letter, _ in self.same)

    def translation(self) -> Mapping[int, str]:
        """Table for ``str.translate`` that turns accepted letters into letters of the alphabet."""
        return str.maketrans(dict(self.same) | dict.fromkeys(self.unknown, GAP))

    def __str__(self) -> str:
        others = f" (or {', '.join(self.unknown)}, read as gaps)" if self.unknown else ""
        return f"letters of the {self.name} alphabet {self.letters}{others}"


PROTEIN = Alphabet("protein", AMINO_ACIDS, "".join(sorted(set(string.ascii_uppercase) - set(AMINO_ACIDS))))
RNA = Alphabet("rna", NUCLEOTIDES, _AMBIGUOUS_BASES, (("T", "U"),))
DNA = Alphabet("dna", NUCLEOTIDES.replace("U", "T"), _AMBIGUOUS_BASES, (("U", "T"),))
_NAMED = {alphabet.name: alphabet for alphabet in (PROTEIN, RNA, DNA)}


def find(alphabet: str) -> Alphabet:
    """Return the alphabet "protein", "rna" or "dna", or that of the given letters.

    >>> find("dna").letters, find("HP").name
    ('ACGT-', 'custom')
    """
    if alphabet.lower() in _NAMED:
        return _NAMED[alphabet.lower()]
    for known in _NAMED.values():
        if alphabet == known.letters:
            return known
    letters = set(alphabet)
    if len(letters) < 2 or len(letters) < len(alphabet) or not alphabet.isascii() or not alphabet.isprintable():
        raise InvalidOption(
            f"alphabet: expected protein, rna, dna, or at least two different letters such as HP-, found '{alphabet}'"
        )
    return Alphabet("custom", alphabet)


def detect(counts: Mapping[str, int]) -> Alphabet:
    """Return the alphabet of sequences from the numbers of their uppercase letters.

    It is RNA or DNA if nine tenths of the letters are A, C, G, T, U or N and the others stand for several bases, RNA if
    there are more letters U than T; otherwise it is protein.

    >>> detect({"A": 5, "C": 2, "U": 1, "R": 0}).name, detect({"A": 5, "L": 2}).name
    ('rna', 'protein')
    """
    letters = {letter for letter, number in counts.items() if number and letter != GAP}
    total = sum(counts[letter] for letter in letters)
    bases = sum(counts[letter] for letter in letters & set("ACGTUN"))
    if letters <= set(DNA.accepted) | set(RNA.accepted) and bases >= _NUCLEIC * total:
        return RNA if counts.get("U", 0) > counts.get("T", 0) else DNA
    return PROTEIN
