"""Plots of denoising show the given scores and images."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import harmonium as hm
from harmonium import plots, tasks
from harmonium.errors import InvalidData, InvalidOption


def result(channels, name="machine"):
    x = torch.rand(30, 12, generator=torch.Generator().manual_seed(0)).round()
    machine = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(2))
    return tasks.compare_denoisers(machine, x[:10], x, channels, shown=4, name=name)


@pytest.fixture(scope="module")
def curves():
    return result([tasks.BinarySymmetric(p) for p in (0.0, 0.2, 0.35, 0.5)])


def test_curves_and_their_bands(curves):
    before = {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
    ax = plots.denoising_curves(curves).axes[0]
    assert [line.get_label() for line in ax.lines] == ["machine", "optimal pointwise estimator", "nearest neighbor"]
    for line, band, scores in zip(ax.lines, ax.collections, curves.scores.values(), strict=True):
        assert np.allclose(line.get_xdata(), curves.levels)
        assert np.allclose(line.get_ydata(), [score.estimate for score in scores])
        heights = band.get_paths()[0].vertices[:, 1]
        for score in scores:
            assert np.isclose(heights, score.low).any() and np.isclose(heights, score.high).any()
    assert ax.get_ylabel() == "Matthews correlation coefficient" and "flip" in ax.get_xlabel()
    assert {name: matplotlib.rcParams[name] for name in before} == before, "a picture changed global settings"


def test_several_machines_have_one_set_of_baselines(curves):
    other = result([tasks.BinarySymmetric(p) for p in (0.0, 0.5)], name="other")
    ax = plots.denoising_curves([curves, other]).axes[0]
    assert [line.get_label() for line in ax.lines] == [
        "machine",
        "other",
        "optimal pointwise estimator",
        "nearest neighbor",
    ]
    with pytest.raises(InvalidOption, match="expected different names"):
        plots.denoising_curves([curves, curves])
    with pytest.raises(InvalidData, match="found none"):
        plots.denoising_curves([])


def pixels(figure, lines, columns):
    """Return the gray values at the centers of the pixels of each 3 x 4 image of the mosaic: (lines, columns, 3, 4)."""
    picture = figure.axes[0].images[0].get_array()[..., 0] / 255
    height, width = (picture.shape[0] + 3) // lines, (picture.shape[1] + 3) // columns
    zoom = (width - 3) // 4
    rows = [[picture[y * height :, x * width :] for x in range(columns)] for y in range(lines)]
    return np.array([[[[t[zoom * i + 1, zoom * j + 1] for j in range(4)] for i in range(3)] for t in r] for r in rows])


def test_a_strip_has_signal_noise_and_estimates(curves, tmp_path):
    figure = plots.denoising_strip(curves, 1, image=(1, 3, 4))
    figure.savefig(tmp_path / "strip.png", dpi=30)
    ax = figure.axes[0]
    words = [" ".join(label.get_text().split()) for label in ax.get_yticklabels()]
    assert words == ["signal", "noisy", "machine", "optimal pointwise estimator", "nearest neighbor"]
    shown = 1 - pixels(figure, 5, 4)  # ink is dark
    wanted = [curves.signals, *(x[1] for x in curves.estimates.values())]
    assert np.allclose(shown, torch.stack(wanted).reshape(5, 4, 3, 4), atol=1 / 255)
    assert ax.get_title(loc="left") == "p = 0.2"


def test_one_signal_at_all_levels(curves):
    figure = plots.denoising_levels(curves, 2, image=(1, 3, 4))
    shown = 1 - pixels(figure, 4, 4)
    wanted = torch.stack([x[:, 2] for x in curves.estimates.values()])
    assert np.allclose(shown, wanted.reshape(4, 4, 3, 4), atol=1 / 255)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["0", "0.2", "0.35", "0.5"]


def test_what_was_erased_is_gray(tmp_path):
    found = result([tasks.Erasure(1.0)])
    figure = plots.denoising_strip(found, image=(1, 3, 4))
    assert np.allclose(pixels(figure, 5, 4)[1], 0.5, atol=1 / 255)


@pytest.mark.slow
def test_pictures_go_where_they_are_asked_to(curves):
    for draw in (
        lambda ax: plots.denoising_curves(curves, ax=ax),
        lambda ax: plots.denoising_strip(curves, image=(1, 3, 4), ax=ax),
        lambda ax: plots.denoising_levels(curves, image=(1, 3, 4), ax=ax),
    ):
        figure = Figure()
        ax = figure.subplots(1, 2)[1]
        assert draw(ax) is figure and ax.has_data() and not figure.axes[0].has_data()


def test_what_is_not_there(curves):
    with pytest.raises(InvalidOption, match="from 0 to 3, found 4"):
        plots.denoising_strip(curves, 4, image=(1, 3, 4))
    with pytest.raises(InvalidOption, match="from 0 to 3, found 4"):
        plots.denoising_levels(curves, 4, image=(1, 3, 4))
