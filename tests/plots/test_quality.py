"""Plots that compare samples with data show the measured numbers."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from harmonium import plots
from harmonium.errors import InvalidOption
from harmonium.plots import style
from harmonium.quality import compare


def sets(kind: str) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    if kind == "one-hot":
        return [torch.eye(3)[torch.randint(3, (n, 6), generator=g)] for n in (120, 150, 100)]
    if kind == "plane":
        return [torch.randn(n, 2, generator=g) for n in (120, 150, 100)]
    if kind == "line":
        return [torch.randn(n, 1, generator=g) for n in (120, 150, 100)]
    if kind == "constant":
        return [torch.zeros(n, 4) for n in (120, 150, 100)]
    return [torch.rand(n, 30, generator=g).round() for n in (120, 150, 100)]


KINDS = ["binary", "one-hot", "plane", "line", "constant"]


@pytest.fixture(scope="module")
def comparison():
    return compare(*sets("binary"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_the_page_of_every_kind(kind, tmp_path):
    before = {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
    found = compare(*sets(kind))
    figure = plots.quality(found)
    figure.savefig(tmp_path / "page.png", dpi=30)
    shown = [ax.get_title(loc="left") for ax in figure.axes if ax.get_visible()]
    assert shown[0] == "Single-site means" and shown[-1] == "Nearest-neighbor accuracy"
    assert ("Three-body correlations" in shown) == (kind not in ("plane", "line"))
    assert ("Data" in shown) == (kind != "line")
    assert " ".join(figure.get_suptitle().split()) == found.verdict
    assert {name: matplotlib.rcParams[name] for name in before} == before, "a picture changed global settings"


@pytest.mark.slow
def test_scatter_has_every_tuple_the_identity_and_the_floor(comparison):
    found = comparison.correlations[2]
    ax = plots.correlation_scatter(found).axes[0]
    points = ax.collections[-1].get_offsets()
    assert np.allclose(points, np.stack([found.data, found.samples], 1))
    x, y = ax.lines[0].get_data()
    assert np.allclose(x, y) and x.min() <= points.min() and x.max() >= points.max()
    band = ax.collections[0].get_paths()[0].vertices
    assert np.allclose(np.abs(band[:, 1] - band[:, 0]), 2 * found.floor.value)
    assert f"correlation {found.pearson.value:.3f}" in ax.texts[0].get_text()
    assert f"{found.ratio:.2f} × noise floor" in ax.texts[0].get_text()


def test_clouds_share_their_scales_and_their_number_of_points(comparison):
    figure = plots.principal_clouds(comparison.principal, axes=(1, 2))
    left, right = figure.axes
    assert left.get_xlim() == right.get_xlim() and left.get_ylim() == right.get_ylim()
    sides = [style.as_array(side)[:, [1, 2]] for side in (comparison.principal.data, comparison.principal.samples)]
    for ax, side in zip((left, right), sides, strict=True):
        points = np.asarray(ax.collections[0].get_offsets())
        assert len(points) == 120
        assert {tuple(row) for row in points.round(4)} <= {tuple(row) for row in side.round(4)}
    overlay = plots.principal_overlay(comparison.principal).axes[0]
    assert [text.get_text() for text in overlay.get_legend().get_texts()] == ["data", "samples"]


def test_histograms_and_spectra_are_those_measured(comparison):
    found = comparison.principal
    ax = plots.axis_histogram(found, axis=1, bins=20).axes[0]
    edges, data, samples = found.histogram(1, bins=20)
    for patch, density in zip(ax.patches, (data, samples), strict=True):
        assert np.allclose(patch.get_data().values, density) and np.allclose(patch.get_data().edges, edges)
    ax = plots.spectra(found).axes[0]
    for line, values in zip(ax.lines, (found.data_spectrum, found.sample_spectrum), strict=True):
        assert np.allclose(line.get_ydata(), values)
    assert ax.get_yscale() == "log"


def test_accuracies_with_their_errors(comparison):
    found = comparison.neighbors
    ax = plots.neighbor_accuracy(found).axes[0]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == ["both", "of data", "of samples", "training rows"]
    places = dict(zip(labels, ax.get_yticks(), strict=True))
    line = ax.containers[0].lines[0]
    drawn = dict(zip(line.get_ydata(), line.get_xdata(), strict=True))
    assert drawn[places["both"]] == found.value
    assert drawn[places["of data"]] == found.truth.value
    assert drawn[places["training rows"]] == found.train.value
    assert str(found.privacy_loss) in ax.get_xlabel()
    assert "privacy" not in plots.neighbor_accuracy(found.train).axes[0].get_xlabel()


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("correlation_scatter", lambda c: c.correlations[3]),
        ("principal_overlay", lambda c: c.principal),
        ("axis_histogram", lambda c: c.principal),
        ("spectra", lambda c: c.principal),
        ("neighbor_accuracy", lambda c: c.neighbors),
    ],
)
def test_pictures_go_where_they_are_asked_to(comparison, name, part):
    figure = Figure()
    ax = figure.subplots(1, 2)[1]
    assert getattr(plots, name)(part(comparison), ax=ax) is figure
    assert ax.has_data() and not figure.axes[0].has_data()


def test_pages_go_where_they_are_asked_to(comparison):
    figure = Figure()
    assert plots.quality(comparison, figure=figure) is figure
    figure = Figure()
    assert plots.principal_clouds(comparison.principal, figure=figure) is figure


def test_axes_that_are_not_there(comparison):
    for draw in (plots.principal_clouds, plots.principal_overlay):
        with pytest.raises(InvalidOption, match="expected numbers from 0 to 9, found 10"):
            draw(comparison.principal, axes=(0, 10))
    with pytest.raises(InvalidOption, match="expected a number from 0 to 9"):
        plots.axis_histogram(comparison.principal, axis=10)
