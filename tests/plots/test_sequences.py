"""Logos and maps of sequences show the numbers that they are given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import harmonium as hm
from harmonium import plots
from harmonium.errors import InvalidData, InvalidOption
from harmonium.interactions import contacts

LETTERS = "ACGU-"


def boxes(figure: Figure, axis: int = 0) -> list[tuple[float, float, float]]:
    """Site, lower and upper end of every letter that is drawn."""
    extents = [path.get_extents() for path in figure.axes[axis].collections[0].get_paths()]
    return sorted((round((box.x0 + box.x1) / 2), box.y0, box.y1) for box in extents)


def test_heights_are_stacked_away_from_the_axis():
    figure = plots.logo([[0.5, 0.2, -0.3, 0.0, 0.0], [0.0, 0.0, -0.1, -0.4, 0.0]], LETTERS)
    expected = [(1, -0.3, 0.0), (1, 0.0, 0.2), (1, 0.2, 0.7), (2, -0.5, -0.1), (2, -0.1, 0.0)]
    np.testing.assert_allclose(boxes(figure), expected, atol=1e-9)
    low, high = figure.axes[0].get_ylim()
    assert low <= -0.5 and high >= 0.7
    assert figure.axes[0].get_ylabel() == "weight"


def test_sequences_are_drawn_by_information():
    """Schneider & Stephens (1990): log2(5) bits for a conserved site, and less by one bit for two equal letters."""
    rows = torch.nn.functional.one_hot(torch.tensor([[0, 1], [0, 2]]), 5)
    conserved, half = np.log2(5), (np.log2(5) - 1) / 2
    np.testing.assert_allclose(
        boxes(plots.logo(rows, LETTERS)), [(1, 0, conserved), (2, 0, half), (2, half, 2 * half)], atol=1e-9
    )
    weighted = boxes(plots.logo(rows, LETTERS, weights=[1.0, 0.0]))
    np.testing.assert_allclose(weighted, [(1, 0, conserved), (2, 0, conserved)], atol=1e-9)


def test_the_gap_of_sequences_is_not_drawn():
    rows = torch.nn.functional.one_hot(torch.tensor([[0, 4], [0, 4]]), 5)
    assert [site for site, *_ in boxes(plots.logo(rows, LETTERS))] == [1]
    dash = boxes(plots.logo([[0.0, 0.0, 0.0, 0.0, 1.0]], LETTERS))[0]
    assert 0.3 < dash[1] < dash[2] < 0.7  # the gap of weights is a dash in the middle of its place


def test_an_alignment_brings_its_letters(tmp_path):
    (tmp_path / "a.fasta").write_text(">a\nACGU\n>b\nACGA\n")
    alignment = hm.data.read_alignment(tmp_path / "a.fasta")
    assert len(boxes(plots.logo(alignment))) == 5


@pytest.fixture
def rbm() -> hm.RBM:
    machine = hm.RBM(hm.units.Potts((7, 5)), hm.units.Bernoulli(4))
    machine.initialize(weights="normal", scale=1.0, seed=0)
    return machine


@pytest.mark.slow
def test_hidden_logos_are_in_the_zero_sum_gauge(rbm):
    figure = plots.hidden_logos(rbm, LETTERS, n=3, title="machine")
    weights = rbm.coupling.weight.detach().view(7, 5, 4)
    norms = (weights - weights.mean(1, keepdim=True)).square().sum((0, 1))
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == [f"hidden unit {unit}" for unit in norms.argsort(descending=True)[:3].tolist()]
    for axis in range(3):
        for site in range(1, 8):
            ends = [end for number, *ends in boxes(figure, axis) if number == site for end in ends]
            assert max(ends) > 0 > min(ends)
    tops = [ax.get_ylim() for ax in figure.axes]
    assert tops.count(tops[0]) == 3


def test_contact_map(rbm):
    near = torch.zeros(7, 7)
    near[0, 6] = near[6, 0] = 1
    found = contacts(rbm, letters=LETTERS, contact_map=near, separation=2)
    figure = plots.contact_map(found, 7, n=4, title="contacts")
    scores = figure.axes[0].images[0].get_array()
    i, j = found.pairs[0].tolist()
    assert scores[j, i] == pytest.approx(found.scores[0].item()) and np.ma.is_masked(scores[i, j])
    points = figure.axes[0].collections[0].get_offsets()
    assert points.tolist() == [[b + 1, a + 1] for a, b in found.pairs[:4].tolist()]
    plots.contact_map(contacts(rbm, separation=2), 7)


def test_mutation_map(rbm):
    wild = torch.eye(5)[[0, 1, 2, 3, 4, 0, 1]]
    table = hm.tasks.mutations(rbm, wild)
    figure = plots.mutation_map(table, LETTERS, wild, title="mutations")
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), table.T.numpy())
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()][:2] == ["A\n1", "C"]
    assert figure.axes[0].collections[0].get_offsets()[:, 1].tolist() == [0, 1, 2, 3, 4, 0, 1]
    plots.mutation_map(table, LETTERS)


def test_errors(rbm):
    with pytest.raises(InvalidOption, match="letters: expected one letter for each state, found none"):
        plots.logo(torch.zeros(3, 5))
    with pytest.raises(InvalidData, match=r"values: expected shape \(n, sites, 5\) or \(sites, 5\).*found \(3, 4\)"):
        plots.logo(torch.zeros(3, 4), LETTERS)
    with pytest.raises(InvalidData, match="weights: expected one for each of 2 sequences"):
        plots.logo(torch.ones(2, 3, 5), LETTERS, weights=[1.0])
    with pytest.raises(InvalidOption, match="letters: expected one for each state"):
        plots.hidden_logos(rbm, "AC-")
    with pytest.raises(InvalidData, match=r"values: expected shape \(sites, 5\)"):
        plots.mutation_map(torch.zeros(3, 4), LETTERS)
