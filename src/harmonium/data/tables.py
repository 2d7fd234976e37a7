"""Loaders of tables: haplotypes, neural spikes, human motion, binary sets with published splits."""

from __future__ import annotations

import numpy as np

from harmonium.data.dataset import Fetch, Loader, Samples
from harmonium.data.splits import every_fifth, last_fifth, take


def genomes(fetch: Fetch, split: str) -> Samples:
    """1000 Genomes: lines "Real PERSON_A 0 1 1 ...". The two haplotypes of a person are in the same split."""
    lines = fetch("805_SNP_1000G_real.hapt.zip").splitlines()
    _, people, alleles = zip(*(line.split(b" ", 2) for line in lines), strict=True)
    person = np.array([name.rpartition(b"_")[0] for name in people])
    digits = np.frombuffer(b" ".join(a.strip() for a in alleles) + b" ", np.uint8)
    haplotypes = digits.reshape(len(lines), -1, 2)[:, :, 0] - ord("0")
    return take(split, every_fifth(person), haplotypes, None)


def spikes(neurons: int) -> Loader:
    """Loader of a recording of ``neurons`` neurons: (time bins, neurons)."""

    def load(fetch: Fetch, split: str) -> Samples:
        recording = fetch(f"example{neurons}.mat")[f"spikes{neurons}"]
        return take(split, last_fifth(len(recording)), recording, None)

    return load


def mocap(fetch: Fetch, split: str) -> Samples:
    """Frames of human motion, standardized by the authors; the labels are the indices of the sequences."""
    arrays = fetch("MOCAP.mat")
    lengths = [int(length) for length in arrays["seqlengths"].ravel()]
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    return take(split, last_fifth(*lengths), arrays["batchdata"], sequence)


def packed(file: str, shape: tuple[int, ...]) -> Loader:
    """Loader of a binary set with published splits, stored with eight columns to a byte."""

    def load(fetch: Fetch, split: str) -> Samples:
        arrays = fetch(file)
        rows = arrays[{"train": "train", "validation": "valid", "test": "test"}[split]]
        return Samples(np.unpackbits(rows, axis=1)[:, : int(arrays["variables"])].reshape(-1, *shape))

    return load
