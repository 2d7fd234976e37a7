"""Likelihood against time."""

import pytest

import harmonium as hm
from harmonium import plots


def test_the_curve_of_a_likelihood_shows_references_and_the_final_bar():
    ax = plots.likelihood_curve([1, 2], [-90.0, -85.0], references={"theirs": -86.0}, final=(-85.6, -85.1)).axes[0]
    assert ax.lines[1].get_ydata().tolist() == [-90.0, -85.0]
    assert any("theirs" in text.get_text() for text in ax.texts)
    assert any("-85.60 to -85.10" in text.get_text() for text in ax.get_legend().get_texts())
    with pytest.raises(hm.errors.InvalidData, match="equally many minutes"):
        plots.likelihood_curve([1], [], references={})
