"""Deterministic splits for data sets without an official split.

Each function returns the mask (n,) of the test samples, about one in five.
"""

from __future__ import annotations

import numpy as np

from harmonium.data.dataset import Samples


def every_fifth(groups: np.ndarray) -> np.ndarray:
    """Put every fifth group in the test set, in order of first appearance; groups are not divided.

    >>> every_fifth(np.array(["a", "b", "a", "c", "d", "e", "e"]))
    array([False, False, False, False, False,  True,  True])
    """
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse] % 5 == 4)


def every_fifth_of_class(labels: np.ndarray) -> np.ndarray:
    """Put every fifth sample of each class in the test set, which keeps the proportions of the classes.

    >>> every_fifth_of_class(np.array([0, 0, 1, 0, 0, 0])).nonzero()[0]
    array([5])
    """
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        test[np.flatnonzero(labels == label)[4::5]] = True
    return test


def last_fifth(*lengths: int) -> np.ndarray:
    """Put the last fifth of each time series in the test set, so that no test frame is between training frames.

    >>> last_fifth(5, 10).nonzero()[0]
    array([ 4, 13, 14])
    """
    return np.concatenate([np.arange(length) >= length - length // 5 for length in lengths])


def take(split: str, test: np.ndarray, values: np.ndarray, labels: np.ndarray | None, maximum: int = 1) -> Samples:
    """Select the samples of one split, in their original order."""
    mask = test if split == "test" else ~test
    return Samples(values[mask], None if labels is None else labels[mask], maximum)
