"""Principal axes: comparison with scikit-learn, the floors, and the flags."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from quality_helpers import generator, shuffled
from sklearn.decomposition import PCA
from torch import Tensor

from harmonium.errors import InvalidData, InvalidOption
from harmonium.quality import principal

SCALES = torch.tensor([5.0, 4, 3, 2, 1, 1, 1, 1, 1, 1])


def normal(n: int, seed: int) -> Tensor:
    rotation = torch.linalg.qr(torch.randn(10, 10, generator=generator(99)))[0]
    return torch.randn(n, 10, generator=generator(seed)) * SCALES @ rotation


def test_axes_projections_and_spectra_are_those_of_scikit_learn():
    data, samples = normal(500, 0), normal(500, 1) + 1
    found = principal(samples, data, axes=4)
    theirs = PCA(10).fit(data.double().numpy())
    overlap = (found.axes.double().numpy() @ theirs.components_[:4].T).round(4)
    assert np.allclose(np.abs(overlap), np.eye(4), atol=1e-3)
    signs = np.diag(overlap)
    for x, projected in ((data, found.data), (samples, found.samples)):
        assert np.allclose(projected, theirs.transform(x.double().numpy())[:, :4] * signs, atol=1e-2)
    assert np.allclose(found.data_spectrum, theirs.explained_variance_, rtol=1e-4)
    assert np.allclose(found.sample_spectrum, PCA(10).fit(samples.double().numpy()).explained_variance_, rtol=1e-4)


def test_spectra_come_from_as_many_rows():
    """The spectrum of few rows is broad: comparing 1000 rows with 60 would show a spurious difference."""
    data, samples = (torch.randn(n, 40, generator=generator(n)) for n in (2000, 60))
    found = principal(samples, data)
    assert len(found.data_spectrum) == len(found.sample_spectrum)
    assert found.data_spectrum[0].item() == pytest.approx(found.sample_spectrum[0].item(), rel=0.25)


@pytest.mark.slow
def test_alike_sets_are_at_the_floor():
    flagged = []
    for seed in range(20):
        found = principal(normal(400, 2 * seed), normal(300, 2 * seed + 1), axes=4, seed=seed)
        flagged += [found.turned, found.displaced, found.variance.above(1) is not None]
    assert sum(flagged) <= 1
    assert found.overlap.value == pytest.approx(found.overlap_floor.value, abs=0.05)


def test_a_shift_along_an_axis_is_its_distance():
    data = torch.randn(4000, 3, generator=generator(0)) * torch.tensor([10.0, 2, 1])
    samples = torch.randn(4000, 3, generator=generator(1)) * torch.tensor([10.0, 2, 1])
    samples[:, 1] += 1.0  # half a standard deviation
    found = principal(samples, data, axes=3, seed=0)
    assert found.displaced and not found.turned
    assert found.distances[1].item() == pytest.approx(0.5, abs=0.08)
    assert float(found.distances[0]) < 0.1 and float(found.distance_floors.max()) < 0.1


def test_other_axes_are_turned_and_a_known_overlap():
    data = torch.randn(3000, 6, generator=generator(0)) * torch.tensor([5.0, 5, 1, 1, 1, 1])
    samples = torch.randn(3000, 6, generator=generator(1)) * torch.tensor([5.0, 1, 5, 1, 1, 1])
    found = principal(samples, data, axes=2)
    assert found.turned and found.overlap.value == pytest.approx(0.5, abs=0.01)  # one direction of two
    assert found.overlap_floor.value > 0.99


def test_shuffled_columns_are_seen():
    found = principal(shuffled(normal(2000, 0), 5), normal(2000, 1), axes=3)
    assert found.turned and found.displaced
    assert not found.variance.above(1) and not found.variance.below(1)


def test_total_variance():
    found = principal(2 * normal(2000, 0), normal(2000, 1))
    assert found.variance.value == pytest.approx(4, rel=0.1) and found.variance.above(1)


def test_histograms_count_everything():
    found = principal(normal(500, 0), normal(700, 1))
    edges, data, samples = found.histogram(1, bins=30)
    assert len(edges) == 31 and len(data) == len(samples) == 30
    for density in (data, samples):
        assert float((density * edges.diff()).sum()) == pytest.approx(1)
    (x, y), data, samples = found.histogram2d((0, 2), bins=12)
    for density in (data, samples):
        assert float((density * x.diff()[:, None] * y.diff()).sum()) == pytest.approx(1)


def test_wide_rows_need_no_matrix(monkeypatch):
    data, samples = (torch.randn(300, 30, generator=generator(k)) * torch.linspace(4, 1, 30) for k in (0, 1))
    before = principal(samples, data, axes=3, seed=0)
    monkeypatch.setattr(sys.modules["harmonium.quality.principal_axes"], "_MATRIX", 8)
    monkeypatch.setattr(sys.modules["harmonium.quality.principal_axes"], "SPECTRUM", 5)
    found = principal(samples, data, axes=3, seed=0)
    assert torch.allclose((found.axes @ before.axes.T).abs(), torch.eye(3), atol=1e-2)
    assert torch.allclose(found.data_spectrum, before.data_spectrum[:5], rtol=1e-3)
    assert found.overlap.value == pytest.approx(before.overlap.value, abs=1e-2)


def test_data_of_low_rank_have_finite_distances():
    data = torch.zeros(100, 8)
    data[:, 0] = torch.randn(100, generator=generator(0))
    found = principal(data.flip(0), data)
    assert bool(torch.isfinite(found.distances).all()) and not found.displaced


def test_the_seed_decides():
    data, samples = normal(300, 0), normal(300, 1)
    first, again, other = (principal(samples, data, seed=seed) for seed in (1, 1, 2))
    assert first.overlap == again.overlap and first.distance == again.distance
    assert first.overlap != other.overlap


def test_options_that_are_refused():
    x = normal(60, 0)
    for axes, message in ((0, "at least 1"), (11, "at most 10"), (1.5, "whole number")):
        with pytest.raises(InvalidOption, match=message):
            principal(x, x, axes=axes)
    with pytest.raises(InvalidOption, match="axis: expected a number from 0 to 1"):
        principal(x, x, axes=2).histogram(2)


def test_values_whose_squares_overflow_are_rejected():
    rows = torch.eye(50, 6) * 1e38
    with pytest.raises(InvalidData, match=r"expected values up to 1e\+15 in magnitude, found 1e\+38"):
        principal(rows, rows)
