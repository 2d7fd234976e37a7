"""Plots of spectra show every mode, the noise and the data."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import plots, spectra


@pytest.fixture(scope="module")
def history():
    machines = {}
    for epoch, strength in ((0, 0.0), (5, 1.0), (50, 3.0)):
        rbm = hm.RBM(hm.units.Bernoulli(36), hm.units.Bernoulli(20)).double()
        rbm.initialize(scale=0.01, seed=0)
        with torch.no_grad():
            rbm.coupling.weight[:, 0] += strength
        machines[epoch] = rbm
    return spectra.spectral_history(machines)


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    return spectra.data_modes(torch.rand(100, 36, generator=generator))


def test_lines_and_bars(history, data):
    ordered = plots.singular_values(history, data=data).axes[0]
    assert [line.get_label() for line in ordered.lines] == ["epoch 0", "epoch 5", "epoch 50", "data (scaled)"]
    assert ordered.lines[2].get_ydata().tolist() == history.values[2].tolist()
    along = plots.mode_evolution(history, modes=(1, 20)).axes[0]
    assert along.lines[0].get_ydata().tolist() == history.values[:, 0].tolist()
    bars = plots.spectrum_histogram(history.spectra[-1], noise=history.spectra[0].noise).axes[0]
    assert sum(bar.get_height() for bar in bars.patches) == 20
    assert bars.get_title(loc="left") == "1 of 20 modes above the noise"
    with pytest.raises(hm.errors.InvalidOption, match="1 to 20"):
        plots.mode_evolution(history, modes=(21,))


def test_modes_as_pictures(history, data):
    assert plots.mode_pictures(history.spectra[-1], (1, 6, 6), n=4).axes[0].images
    shown = plots.alignment_map(history.spectra[-1], data, n=5).axes[0].images[0]
    torch.testing.assert_close(
        torch.as_tensor(shown.get_array().data), history.spectra[-1].alignment(data.axes[:5])[:5]
    )


@pytest.mark.slow
def test_pages(history, data):
    assert sum(ax.get_visible() for ax in plots.spectrum_page(history, data).axes) == 5  # with the color bar
    assert sum(ax.get_visible() for ax in plots.spectrum_page(history).axes) == 3
    assert len(plots.mode_page(history.spectra[-1], data, (1, 6, 6)).axes) == 2
