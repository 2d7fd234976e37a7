"""Loaders of aligned sequences, as one-hot values (n, sites, letters)."""

from __future__ import annotations

import numpy as np

from harmonium.data.dataset import Fetch, Loader, Samples
from harmonium.data.splits import every_fifth, take
from harmonium.errors import InvalidData

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY-"
NUCLEOTIDES = "ACGU-"


def alignment(file: str, alphabet: str) -> Loader:
    """Loader of a FASTA alignment. Equal sequences are in the same split, so the test set has no training sequence."""

    def load(fetch: Fetch, split: str) -> Samples:
        sequences = fasta(fetch(file))
        return take(split, every_fifth(sequences), one_hot(sequences, alphabet), None)

    return load


def fasta(raw: bytes) -> np.ndarray:
    """Read the sequences of a FASTA file, all of the same length, as an array of byte strings (n,).

    >>> fasta(b">first\\nAC\\nDE\\n>second\\nA-DY\\n")
    array([b'ACDE', b'A-DY'], dtype='|S4')
    """
    records = (b"\n" + raw).split(b"\n>")[1:]
    sequences = [b"".join(record.splitlines()[1:]) for record in records]
    lengths = sorted({len(sequence) for sequence in sequences})
    if len(lengths) != 1:
        raise InvalidData(f"expected aligned sequences of one length, found the lengths {lengths[:5]}")
    return np.array(sequences)


def one_hot(sequences: np.ndarray, alphabet: str) -> np.ndarray:
    """Convert byte strings (n,) to one-hot values (n, sites, letters).

    The last letter of the alphabet is the gap; letters that are not in the alphabet (X, B, Z, ...) are read as gaps.

    >>> one_hot(np.array([b"GX"]), "ACGU-").argmax(-1)
    array([[2, 4]])
    """
    letter = np.full(256, len(alphabet) - 1)
    letter[np.frombuffer(alphabet.encode(), np.uint8)] = np.arange(len(alphabet))
    sites = sequences.dtype.itemsize
    codes = letter[np.frombuffer(sequences.tobytes(), np.uint8).reshape(len(sequences), sites)]
    return np.eye(len(alphabet), dtype=np.uint8)[codes]
