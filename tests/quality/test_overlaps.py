"""Overlaps of pairs of states."""

import pytest
import torch

import harmonium as hm
from harmonium.quality import overlaps


def test_overlaps_of_spins():
    spins = torch.tensor([[1.0, 1, 1, 1], [1, 1, -1, -1], [-1, -1, -1, -1]])
    assert overlaps(spins, centered=False).tolist() == [0.0, -1.0, 0.0]
    assert overlaps(spins, spins[:1], centered=False).tolist() == [[1.0], [0.0], [-1.0]]
    assert overlaps(spins.view(3, 2, 2), centered=False).tolist() == [0.0, -1.0, 0.0]


def test_centered_overlaps_are_correlations():
    rows = torch.rand(30, 7, generator=torch.Generator().manual_seed(0))
    found = overlaps(rows)
    assert found.shape == (30 * 29 // 2,) and found.abs().max() <= 1 + 1e-6
    centered = rows - rows.mean(0)
    expected = torch.nn.functional.cosine_similarity(centered[0], centered[1], dim=0)
    assert found[0] == pytest.approx(expected.item(), abs=1e-6)
    independent = overlaps(torch.rand(300, 400, generator=torch.Generator().manual_seed(1)))
    assert abs(independent.mean()) < 0.01 and independent.std() < 0.06
    assert overlaps(rows, rows).diagonal().sub(1).abs().max() < 1e-5  # a row with itself
    assert torch.isfinite(overlaps(torch.ones(3, 4))).all()


def test_rows_of_different_shapes():
    with pytest.raises(hm.errors.InvalidData, match="others: expected rows of one shape"):
        overlaps(torch.ones(3, 4), torch.ones(3, 5))
    with pytest.raises(hm.errors.InvalidData, match="at least 2 rows"):
        overlaps(torch.ones(1, 4))
