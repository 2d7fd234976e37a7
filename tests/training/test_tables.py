"""Difficult tables: training gives finite numbers with every penalty and constraint."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import harmonium as hm
from harmonium.data import TableEncoder

PARTS = {
    "none": {"centered": False},
    "centered": {},
    "l2": {"penalties": "l2:0.01"},
    "l1": {"penalties": "l1:0.01"},
    "l1-squared": {"penalties": "l1-squared:0.01"},
    "zero-sum": {"constraints": "zero-sum"},
    "average": {"constraints": "average:0.5"},
}


def difficult(n=150, seed=0):
    """A constant column, one of scale 10⁶, one that is missing in 90 % of the rows, rare values, and outliers."""
    generator = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "constant": 3.25,
            "large": 5e6 + 1e6 * generator.normal(size=n),
            "tiny": 1e-9 * generator.normal(size=n),
            "sparse": generator.normal(size=n),
            "outlier": np.where(np.arange(n) == 7, 1e4, generator.normal(size=n)),
            "rare": np.where(np.arange(n) == 3, "c", generator.choice(["a", "b"], n)),
            "mostly": (np.arange(n) == 5).astype(float),
            "count": generator.poisson(2.0, n).astype(float),
        }
    )
    table.loc[generator.random(n) < 0.9, "sparse"] = None
    table.loc[generator.random(n) < 0.2, "rare"] = None
    table.loc[generator.random(n) < 0.2, "count"] = None
    return table


@pytest.mark.filterwarnings("ignore::harmonium.errors.NotLearned")
@pytest.mark.parametrize("name", PARTS)
@pytest.mark.fast_cases(2)
def test_difficult_columns_give_finite_numbers(name):
    table = difficult()
    encoder = TableEncoder.fit(table)
    rows = encoder.encode(table)
    rbm = hm.RBM(encoder.layer(), 5)
    options = {"epochs": 5, "batch_size": 30, "seed": 0, "progress": False}
    result = hm.fit(rbm, hm.Incomplete(rows), validation=hm.Incomplete(rows[:30]), **PARTS[name], **options)
    assert all(np.isfinite(list(row.values())).all() for row in result.history)
    assert all(torch.isfinite(parameter).all() for parameter in rbm.parameters())
    found = hm.likelihood.exact(rbm, rows, mask=~rows.isnan())
    assert torch.isfinite(found.per_row).all()
    imputed = hm.tasks.impute(rbm, rows, method="exact", chains=1, seed=0)
    samples = rbm.sample(20, sweeps=20, seed=0, check_mixing=False)
    for states in (imputed.rounded, imputed.draws[:, 0], samples):
        assert np.isfinite(encoder.decode(states).select_dtypes("number").to_numpy(float)).all()
    assert encoder.complete(table, imputed.rounded).notna().all(axis=None)


@pytest.mark.slow
def test_zero_weights_give_finite_numbers():
    table = difficult()
    encoder = TableEncoder.fit(table)
    rows = encoder.encode(table)
    rbm = hm.RBM(encoder.layer(), 5)
    assert torch.isfinite(hm.likelihood.exact(rbm, rows, mask=~rows.isnan()).per_row).all()
    assert torch.isfinite(hm.tasks.impute(rbm, rows, method="exact").means).all()
    hm.fit(rbm, hm.Incomplete(rows), initialize="keep", learning_rate=0.01, epochs=2, seed=0, progress=False)
    assert all(torch.isfinite(parameter).all() for parameter in rbm.parameters())
