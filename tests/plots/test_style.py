"""Fonts and colors of figures, and their display in notebooks."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

import harmonium as hm
from harmonium import plots
from harmonium.plots import sequences, style

HISTORY = [{"epoch": k, "reconstruction": 1 / k} for k in range(1, 9)]


def test_fonts_are_truetype(tmp_path):
    plots.learning_curve(HISTORY, "reconstruction").savefig(tmp_path / "figure.pdf")
    text = (tmp_path / "figure.pdf").read_bytes()
    assert b"/FontFile2" in text and b"/Type3" not in text
    assert matplotlib.rcParams["pdf.fonttype"] == 3, "a global setting was changed"


def test_notebooks_show_figures():
    assert plots.tiles(torch.rand(2, 3, 3))._repr_png_().startswith(b"\x89PNG")


def test_units_have_numbers_and_names():
    rbm = hm.RBM(4, 3)
    rbm.initialize(weights="normal", scale=1.0, seed=0)
    norms = rbm.coupling.weight.norm(dim=0)
    shown = [int(text.get_text()) for text in plots.receptive_fields(rbm, image=(1, 2, 2)).axes[0].texts]
    assert shown == norms.argsort(descending=True).tolist()
    assert not plots.receptive_fields(rbm, image=(1, 2, 2), numbers=False).axes[0].texts
    ax = plots.receptive_fields(rbm, names=list("abcd")).axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == list("abcd")
    ax = plots.samples(rbm, torch.ones(5, 4), names=list("abcd")).axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == list("abcd")
    with pytest.raises(hm.errors.InvalidData, match="names: expected 4, one for each visible unit, found 2"):
        plots.samples(rbm, torch.ones(5, 4), names=["a", "b"])


# Machado et al. (2009), IEEE Trans. Visualization and Computer Graphics 15, 1291: matrices of severity 1, linear RGB
BLINDNESS = {
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}


def perceived(color: str, matrix) -> np.ndarray:
    """The CIELAB coordinates of a color as seen by a color-blind reader."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(
        np.array(matrix) @ linear, 0, 1
    )
    x, y, z = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(colors, kind: str) -> float:
    seen = [perceived(color, BLINDNESS[kind]) for color in colors]
    return min(float(np.linalg.norm(a - b)) for k, a in enumerate(seen) for b in seen[:k])


@pytest.mark.parametrize("kind", BLINDNESS)
@pytest.mark.parametrize(
    "colors", [style.COLORS, {*sequences._AMINO_ACIDS.values()}, {*sequences._BASES.values()}], ids=range(3)
)
def test_color_blind_readers_see_different_colors(colors, kind):
    assert distance(colors, kind) > 15


def test_similar_colors_are_found():
    assert distance(["#d62728", "#2ca02c"], "deuteranopia") < 30 < distance(["#2f7ab8", "#d9722e"], "deuteranopia")
