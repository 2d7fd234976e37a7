"""Test error of a classification RBM on 20 Newsgroups: which of the 5000 most frequent words a post has.

The posts are split by date. The weight alpha of the generative part is chosen on the last 1700 training posts of a
random order (``choosing=yes``); the test posts are used once, after training on all training posts.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from torch import Tensor

import harmonium as hm
from harmonium.data import locate
from harmonium.data.text import _posts

from ..options import override
from ..record import Record
from .trained import Settings, Task, claims, tested, with_alpha

WORDS = 5000
SETTINGS = {
    "quick": Settings(200, 11_293, 1700, epochs=8, rate=0.003, alpha=0.01, choosing_hidden=100, choosing_epochs=5),
    "full": Settings(1000, 11_293, 1700, epochs=15, rate=0.002, alpha=0.01, choosing_hidden=300, choosing_epochs=8),
}
GOAL = 0.25
PUBLISHED = {"discriminative": (0.276, 50), "hybrid": (0.238, 1000)}


def run(
    record: Record,
    scale: str,
    alpha: float = -1.0,
    choosing: str = "no",
    hidden: int = 0,
    epochs: int = 0,
    rate: float = 0.0,
    l2: float = 0.0,
    words: int = WORDS,
    seed: int = 0,
) -> None:
    """Choose alpha if ``choosing=yes``, train on all posts and test; ``alpha=0`` is discriminative training."""
    settings = override(SETTINGS[scale], hidden=hidden, epochs=epochs, rate=rate, l2=l2)
    task = posts(words, seed)
    settings = with_alpha(record, task, settings, alpha, choosing, seed)
    _, error = tested(record, task, settings, seed)
    claims(record, error, GOAL, PUBLISHED, settings.hidden)


def posts(words: int, seed: int) -> Task:
    """The posts as binary rows (n, words), with the groups in alphabetical order; training posts in random order."""
    texts = {split: _read(split) for split in ("train", "test")}
    counter = Counter(word for text in texts["train"][1] for word in text.split())
    vocabulary = sorted(counter, key=lambda word: (-counter[word], word))[:words]
    column = {word: k for k, word in enumerate(vocabulary)}
    names = sorted(set(texts["train"][0]))
    order = torch.randperm(len(texts["train"][0]), generator=torch.Generator().manual_seed(seed))
    train, test = (_encoded(*texts[split], column, names) for split in ("train", "test"))
    return Task((train[0][order], train[1][order]), test, len(names))


def _read(split: str) -> tuple[list[str], list[str]]:
    about = hm.data.info("20newsgroups")
    files = {file.name: file for file in about.files}
    return _posts(lambda name: locate.fetch(about, files[name]), split)


def _encoded(groups: list[str], texts: list[str], column: dict[str, int], names: list[str]) -> tuple[Tensor, Tensor]:
    rows = np.zeros((len(texts), len(column)), dtype=np.uint8)
    for row, text in zip(rows, texts, strict=True):
        row[[column[word] for word in text.split() if word in column]] = 1
    return torch.from_numpy(rows), torch.tensor([names.index(group) for group in groups])
