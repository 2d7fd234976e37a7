"""Animations have the right frames, and are written as GIF and HTML."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import harmonium as hm
from harmonium import plots


@pytest.fixture
def rbm():
    rbm = hm.RBM(16, 4)
    rbm.initialize(weights="normal", scale=0.3, seed=0)
    return rbm


def test_a_chain_starts_where_it_is_asked_to_and_moves(rbm):
    start = torch.eye(16)[:3]
    found = plots.animate_chain(rbm, 3, frames=3, sweeps=5, start=start, image=(1, 4, 4), seed=1)
    end = rbm.sample(3, sweeps=10, start=start, seed=1, check_mixing=False)
    expected = plots.animate(
        plots.samples(rbm, rows, image=(1, 4, 4), title=title)
        for rows, title in ((start, "0 sweeps"), (end, "10 sweeps"))
    )
    assert len(found) == 3 and np.array_equal(found.frames[::2], expected.frames)


@pytest.mark.slow
def test_files(rbm, tmp_path):
    found = plots.animate_chain(rbm, 4, frames=3, image=(1, 4, 4), seed=0)
    gif = Image.open(found.save(tmp_path / "chain.gif"))
    assert gif.n_frames == 3 and gif.size == found.frames.shape[2:0:-1] and gif.info["loop"] == 0
    assert "data:image/gif;base64," in found._repr_html_()
    with pytest.raises(hm.errors.InvalidOption, match=r"expected a suffix .gif, found 'chain.mp4'"):
        found.save(tmp_path / "chain.mp4")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chain.gif"]


@pytest.mark.slow
def test_weights_and_spectrum_have_one_frame_for_each_checkpoint(rbm):
    later = hm.RBM(16, 4)
    later.initialize(weights="normal", scale=1.0, seed=1)
    for found in (
        plots.animate_weights({0: rbm, 5: later}, image=(1, 4, 4), n=3),
        plots.animate_spectrum({0: rbm, 5: later}),
    ):
        assert len(found) == 2 and np.any(found.frames[0] != found.frames[1])


def test_errors(rbm):
    with pytest.raises(hm.errors.InvalidData, match="expected at least one, found none"):
        plots.animate([])
    with pytest.raises(hm.errors.InvalidData, match="expected equal sizes, found"):
        plots.animate([plots.tiles(torch.rand(2, 3, 3)), plots.tiles(torch.rand(9, 3, 3))])
    with pytest.raises(hm.errors.InvalidOption, match="seconds: expected a positive number, found 0"):
        plots.animate([plots.tiles(torch.rand(2, 3, 3))], seconds=0)
    with pytest.raises(hm.errors.InvalidOption, match="frames, sweeps: expected at least 1, found 0 and 1"):
        plots.animate_chain(rbm, frames=0)
