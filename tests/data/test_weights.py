"""Weights of similar sequences."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption


def test_by_counting():
    codes = torch.randint(2, (60, 10), generator=torch.Generator().manual_seed(0))
    codes[40:] = codes[:20]  # copies
    rows = torch.nn.functional.one_hot(codes, 3)
    for alike in (0.7, 0.8, 1.0):
        number = [sum(int((a == b).sum()) >= 10 * alike for b in codes) for a in codes]
        assert hm.data.similarity_weights(rows, alike).tolist() == pytest.approx([1 / n for n in number])


def test_refusals():
    rows = torch.nn.functional.one_hot(torch.tensor([[0, 1], [1, 1]]), 3)
    with pytest.raises(InvalidData, match=r"one-hot sequences .* found \(2, 6\)"):
        hm.data.similarity_weights(rows.flatten(1))
    with pytest.raises(InvalidData, match="one-hot"):
        hm.data.similarity_weights(rows * 2)
    with pytest.raises(InvalidOption, match="alike: expected a fraction"):
        hm.data.similarity_weights(rows, 1.2)
