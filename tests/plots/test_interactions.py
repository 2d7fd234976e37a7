"""Plots of interactions show the given numbers."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import harmonium as hm
from harmonium import interactions, plots


@pytest.fixture
def machine() -> hm.RBM:
    rbm = hm.RBM(hm.units.Bernoulli(12), hm.units.Bernoulli(5))
    rbm.initialize(weights="normal", scale=1.0, seed=0)
    return rbm


@pytest.mark.slow
def test_every_picture_is_a_figure_and_changes_nothing_global(machine, tmp_path):
    before = {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
    couplings = interactions.n_body(machine, 2)
    pictures = [
        plots.interaction_strength(interactions.strength(machine), title="strength"),
        plots.interaction_scatter(couplings, 2 * couplings, title="scatter"),
        plots.exact_against_small(machine, title="small"),
        plots.coupling_map(machine, 5, (3, 4), title="map"),
        plots.interaction_network(machine, [f"v{k}" for k in range(12)], fields=torch.ones(12), title="network"),
    ]
    for figure, name in zip(pictures, ["strength", "scatter", "small", "map", "network"], strict=True):
        assert isinstance(figure, Figure) and figure.axes[0].get_title(loc="left") == name
        figure.savefig(tmp_path / f"{name}.png")
    assert {name: matplotlib.rcParams[name] for name in before} == before


def test_strength_has_a_line_through_the_points_of_each_machine():
    named = {"a": interactions.Strength((1, 2, 3), (1.0, 0.1, 0.01), (5, 5, 5)),
             "b": interactions.Strength((1, 2, 3), (1.0, 0.5, 0.0), (5, 5, 5))}  # fmt: skip
    ax = plots.interaction_strength(named).axes[0]
    line, points, _, second = (item.get_data() for item in ax.lines)
    assert np.allclose(line[1], [1.0, 0.01]) and np.allclose(points[1], [1.0, 0.1, 0.01])
    assert list(second[0]) == [1, 2], "an order without interactions is not drawn"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a: ×0.1 per order", "b: ×0.5 per order"]
    assert ax.get_yscale() == "log"
    alone = interactions.Strength((2,), (0.5,), (5,))
    assert plots.interaction_strength(alone).axes[0].get_legend() is None


def test_a_scatter_shows_every_pair_once_with_the_slope(machine):
    couplings = interactions.n_body(machine, 2)
    ax = plots.interaction_scatter(couplings, 2 * couplings, labels=("x", "y")).axes[0]
    shown = ax.collections[0].get_offsets()
    assert len(shown) == 66 and np.allclose(shown[:, 1], 2 * shown[:, 0])
    assert "slope 2.00, correlation 1.00" in ax.get_legend().get_texts()[1].get_text()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")
    many = torch.arange(50_001.0)
    assert 10_000 < len(plots.interaction_scatter(many, many).axes[0].collections[0].get_offsets()) <= 20_000


@pytest.mark.parametrize("order", [1, 2, 3])
def test_exact_against_small_shows_both(machine, order):
    shown = plots.exact_against_small(machine, order).axes[0].collections[0].get_offsets()
    tuples = interactions.all_tuples(12, order)
    for column, method in enumerate(("exact", "small")):
        values = interactions.n_body(machine, order, tuples, method=method, bias=False)
        assert np.allclose(np.sort(shown[:, column]), np.sort(values.numpy()))


def test_the_map_is_the_row_of_the_pixel(machine):
    couplings = interactions.n_body(machine, 2)
    ax = plots.coupling_map(couplings, 5, (1, 3, 4), limit=2.0).axes[0]
    assert np.allclose(ax.images[0].get_array(), couplings[5].reshape(3, 4).numpy())
    assert ax.images[0].get_clim() == (-2.0, 2.0)
    assert [tuple(float(x) for x in column) for column in ax.lines[0].get_data()] == [(1.0,), (1.0,)]


def test_the_network_draws_the_strongest_couplings():
    couplings = torch.zeros(4, 4)
    for (i, j), value in {(0, 1): 3.0, (1, 2): -2.0, (2, 3): 1.0}.items():
        couplings[i, j] = couplings[j, i] = value
    ax = plots.interaction_network(couplings, ["a", "b", "c", "d"], n=2).axes[0]
    assert sorted(text.get_text() for text in ax.texts) == ["a", "b", "c", "d"]
    widths = [line.get_linewidth() for line in ax.lines]
    assert len(widths) == 2 and widths[1] == pytest.approx(4.0) and widths[0] < widths[1]
    red, blue = (matplotlib.colors.to_rgb(ax.lines[k].get_color()) for k in (1, 0))
    assert red[0] > red[2] and blue[2] > blue[0]
    place = {text.get_text(): np.array(text.get_position()) / np.hypot(*text.get_position()) for text in ax.texts}
    strongest = np.array(ax.lines[1].get_data()).T
    assert np.allclose(sorted(strongest.tolist()), sorted([place["a"].tolist(), place["b"].tolist()]))


def test_short_names_in_a_network_are_upright():
    couplings = torch.ones(9, 9)
    assert {text.get_rotation() for text in plots.interaction_network(couplings).axes[0].texts} == {0.0}
    long = plots.interaction_network(couplings, [f"cell {k}" for k in range(9)]).axes[0].texts
    assert len({text.get_rotation() for text in long}) > 5


def test_refusals(machine):
    with pytest.raises(hm.errors.InvalidData, match="found none"):
        plots.interaction_strength({})
    with pytest.raises(hm.errors.InvalidData, match="equally many values in both, found 3 and 2"):
        plots.interaction_scatter(torch.ones(3), torch.ones(2))
    with pytest.raises(hm.errors.InvalidData, match="an image of 12 pixels, found 3 × 3"):
        plots.coupling_map(machine, 0, (3, 3))
    with pytest.raises(hm.errors.InvalidData, match="a unit from 0 to 11, found 12"):
        plots.coupling_map(machine, 12, (3, 4))
    with pytest.raises(hm.errors.InvalidData, match="expected 12 names, found 1"):
        plots.interaction_network(machine, ["x"])
    with pytest.raises(hm.errors.InvalidData, match="a square matrix"):
        plots.interaction_network(torch.zeros(2, 3))
