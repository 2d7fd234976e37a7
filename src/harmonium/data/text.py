"""Loaders of documents, as word counts (n, words)."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np

from harmonium.data.dataset import Fetch, Samples
from harmonium.data.splits import every_fifth, take
from harmonium.extras import require

VOCABULARY_SIZE = 2000
SHORTEST_WORD = 3


def newsgroups(fetch: Fetch, split: str) -> Samples:
    """20 Newsgroups, with the vocabulary below; labels are the groups in alphabetical order."""
    column = {word: i for i, word in enumerate(newsgroups_vocabulary(fetch))}
    groups, texts = _posts(fetch, split)
    counts = np.zeros((len(texts), len(column)), dtype=np.int32)
    for row, text in zip(counts, texts, strict=True):
        words = np.array([column[word] for word in text.split() if word in column], dtype=np.int64)
        row[:] = np.bincount(words, minlength=len(column))
    return Samples(counts, np.unique(groups, return_inverse=True)[1])


def newsgroups_vocabulary(fetch: Fetch) -> tuple[str, ...]:
    """The most frequent words of the training posts, without stop words and words shorter than three letters.

    Words are in order of decreasing frequency; words of equal frequency are in alphabetical order.
    """
    stop_words = require("sklearn.feature_extraction.text", "the vocabulary of 20newsgroups needs").ENGLISH_STOP_WORDS
    counter = Counter(" ".join(_posts(fetch, "train")[1]).split())
    words = [word for word in counter if len(word) >= SHORTEST_WORD and word not in stop_words]
    return tuple(sorted(words, key=lambda word: (-counter[word], word))[:VOCABULARY_SIZE])


def kos(fetch: Fetch, split: str) -> Samples:
    """Daily KOS: triples of document, word and count; documents and words are numbered from 0."""
    triples = np.loadtxt(io.BytesIO(fetch("doc_word_count.tsv")), dtype=np.int64)
    document, word, count = triples.T
    counts = np.zeros((document.max() + 1, len(kos_vocabulary(fetch))), dtype=np.int32)
    counts[document, word] = count
    return take(split, every_fifth(np.arange(len(counts))), counts, None)


def kos_vocabulary(fetch: Fetch) -> tuple[str, ...]:
    """The words of the data set, in its order."""
    return tuple(fetch("dictionary.txt").decode().split())


def _posts(fetch: Fetch, split: str) -> tuple[list[str], list[str]]:
    """Newsgroup and text of each post; the file has three header lines and an empty last line."""
    lines = fetch(f"20newsgroups-{split}.tab.gz").decode().split("\n")[3:]
    groups, _, texts = zip(*(line.partition("\t") for line in lines if line), strict=True)
    return list(groups), list(texts)
