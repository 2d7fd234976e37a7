"""Plots of a landscape show every solution of every checkpoint."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import landscape, plots


@pytest.fixture(scope="module")
def growth():
    """Random patterns stored in the weights, more and more strongly."""
    generator = torch.Generator().manual_seed(0)
    stored = torch.randint(0, 2, (4, 80), generator=generator) * 2.0 - 1
    machines = []
    for strength in (0.0, 0.01, 0.02, 0.05):
        rbm = hm.RBM(hm.units.Spin(80), hm.units.Spin(240))
        with torch.no_grad():
            rbm.coupling.weight.copy_(strength * stored.repeat_interleave(60, 0).T)
        machines.append(rbm)
    return landscape.growth(machines, torch.cat([stored, -stored]).repeat(5, 1))


def test_pictures(growth):
    counts = plots.solution_counts(growth).axes[0]
    assert counts.lines[0].get_ydata().tolist() == growth.counts
    tree = plots.solution_tree(growth).axes[0]
    assert len(tree.lines) == len(growth.tree()) + len(growth.epochs)
    depths = plots.solution_depths(growth.landscapes[-1]).axes[0]
    assert len(depths.lines[0].get_xdata()) == growth.counts[-1]
    places = plots.solution_map(growth)
    shown = [ax for ax in places.axes if ax.get_visible()]
    assert [len(ax.collections[1].get_offsets()) for ax in shown] == growth.counts


def test_no_solution_no_picture(growth):
    empty = growth.landscapes[-1]
    none = landscape.Landscape(empty.solutions.select(torch.zeros(0, dtype=torch.int64)), empty.basin, empty.sizes[:0])
    with pytest.raises(hm.errors.InvalidData, match="at least one solution"):
        plots.solution_depths(none)
