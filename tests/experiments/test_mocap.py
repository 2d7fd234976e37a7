"""The experiment on human motion: its linear baseline, postures, and a short run."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

import experiments
import harmonium as hm
from experiments.conditional import mocap, skeleton
from harmonium.tasks import LinearAutoregression


def windows(n: int = 80) -> hm.Windows:
    noise = torch.Generator().manual_seed(0)
    return hm.Windows(torch.randn(n, 2, generator=noise).cumsum(0), mocap.ORDER, standardize=True)


def test_the_linear_baseline_is_the_ridge_regression() -> None:
    rows = windows()
    v, context = rows[:]
    x, y = context.flatten(1).double(), v.double()
    ones = torch.ones(len(x), 1, dtype=torch.float64)
    exact = torch.linalg.lstsq(torch.cat([x, ones], 1), y).solution
    found = LinearAutoregression.fitted(*rows[:], 0.0)
    torch.testing.assert_close(found(context).double(), torch.cat([x, ones], 1) @ exact, rtol=0, atol=1e-5)
    w = torch.rand(len(x), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    repeated = LinearAutoregression.fitted(*rows[:], 2.0, 2 * w)  # twice the weights and the penalty change nothing
    torch.testing.assert_close(repeated(context), LinearAutoregression.fitted(*rows[:], 1.0, w)(context))
    assert torch.equal(found.continued(context, 2)[:, 0], found(context))


def test_bones_keep_their_lengths() -> None:
    frames = np.random.default_rng(0).normal(size=(5, 49))
    found = skeleton.joints(frames)
    for joint, parent in enumerate(skeleton.PARENTS):
        if parent >= 0:
            length = np.linalg.norm(found[:, joint] - found[:, parent], axis=1)
            np.testing.assert_allclose(length, np.linalg.norm(skeleton.OFFSETS[joint]))
    turned = skeleton.rotations(np.random.default_rng(1).normal(size=(7, 3)))
    np.testing.assert_allclose(turned @ turned.transpose(0, 2, 1), np.broadcast_to(np.eye(3), (7, 3, 3)), atol=1e-12)


@pytest.mark.slow
def test_a_short_run(tmp_path: Path) -> None:
    try:
        hm.data.load("mocap")
    except hm.errors.DataNotFound as error:
        pytest.skip(f"needs the data set mocap: {error}")
    record = experiments.reproduce("conditional/mocap", "quick", tmp_path / "run", hidden=5, epochs=1)
    assert len(record.claims) == 8
    assert record.claims[0].holds  # already the start is better than the last frame
    with (tmp_path / "run" / "horizon.csv").open() as file:
        horizons = {row["model"]: float(row["horizon"]) for row in csv.DictReader(file)}
    assert all(0 <= value <= mocap.LENGTH for value in horizons.values())
    assert (tmp_path / "run" / "motion.gif").stat().st_size < 500_000
