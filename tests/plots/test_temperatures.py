"""Plots of temperatures and overlaps show the numbers they are given."""

import numpy as np
import pytest
import torch

import harmonium as hm


def test_energy_and_specific_heat_are_drawn_with_their_errors():
    sweep = hm.sampling.temperature_sweep(hm.RBM(4, 2), [0.0, 0.5, 1.0], n=4, sweeps=4, seed=0)
    left, right = hm.plots.temperature_sweep(sweep).axes
    assert np.allclose(left.lines[0].get_ydata(), sweep.energy.numpy())
    assert np.allclose(right.lines[0].get_ydata(), sweep.specific_heat.numpy())
    assert "nats" in left.get_ylabel() and "β" in right.get_xlabel()


def test_histograms_of_overlaps_have_common_bins_and_names():
    first, second = torch.linspace(-1, 1, 50), torch.linspace(0, 1, 50)
    ax = hm.plots.overlap_histogram({"hot": first, "cold": second}, bins=10).axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["hot", "cold"]
    assert hm.plots.overlap_histogram(first).axes[0].get_legend() is None
    with pytest.raises(hm.errors.InvalidData, match="at least one overlap"):
        hm.plots.overlap_histogram({"none": []})
