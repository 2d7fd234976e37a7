"""The experiment with a deep Boltzmann machine on small settings, and its verdicts."""

from __future__ import annotations

import pytest
import torch
from record_helpers import check_left_behind

import experiments
import harmonium as hm
from experiments.deep import dbm


@pytest.mark.slow
def test_small(tmp_path):
    options = {"data": "digits", "hidden": "8,4", "start": 2, "rbm": 2, "dbm": 1, "betas": 50, "rows": 20}
    record = experiments.reproduce("deep/dbm", "quick", tmp_path / "out", **options)
    check_left_behind(record, None)
    assert set(record.numbers["cpu_seconds"]) == {"start", "rbm", "dbm"}
    assert record.claims[1].holds is None and "digits instead of mnist" in record.claims[1].measured
    deep = hm.load(tmp_path / "out" / "machines" / "dbm")
    assert [unit.size for unit in deep.layers] == [64, 8, 4]


@pytest.mark.parametrize(
    ("difference", "seconds", "holds"),
    [(0.3, 100, True), (0.12, 100, None), (-0.3, 100, False), (0.3, 120, None)],
)
def test_the_verdict_on_depth(difference, seconds, holds):
    compared = {"difference": difference, "error": 0.03}
    assert dbm.judge_deeper(compared, {"start": 50, "rbm": 100, "dbm": seconds}) is holds


@pytest.mark.slow
def test_the_comparison_is_exact_for_small_machines():
    """Two machines with known likelihoods; the deep one has its visible distribution from enumeration."""
    rows = torch.bernoulli(torch.full((200, 6), 0.4), generator=torch.Generator().manual_seed(0))
    rbm = hm.RBM(hm.units.Bernoulli(6), hm.units.Bernoulli(3))
    rbm.initialize(rows, scale=1.0, seed=0)
    deep = hm.deepen(rbm, 2, rows, scale=1.0)
    found = [hm.likelihood.estimate(machine, rows, betas=200, sampling_sweeps=50) for machine in (rbm, deep)]
    compared = dbm.compare(rbm, deep, rows, *(one.log_partition for one in found), seed=0)
    top = deep.layers[2].enumerate(torch.arange(4)).to(rows.dtype)
    with torch.no_grad():
        fields = deep.couplings[0].up(rows)[:, None] + deep.couplings[1].down(top)
        weights = deep.layers[1].log_partition(fields).sum(-1) + (deep.layers[2].bias * top).sum(-1)
        exact = (torch.logsumexp(weights, 1) + rows @ deep.visible.bias).mean().item() - deep.log_partition()
    assert compared["dbm"] == pytest.approx(exact, abs=0.03)
    assert compared["rbm"] == pytest.approx(rbm.log_probability(rows).mean().item(), abs=0.03)
    assert compared["difference"] == pytest.approx(compared["dbm"] - compared["rbm"], abs=1e-4)
    assert compared["bound"] <= compared["dbm"] + 1e-6  # the hidden layers of a small machine are summed exactly
