"""The experiments of the TAP paper on trained machines run end to end on small settings, and their parts are right."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from record_helpers import check_left_behind

import harmonium as hm
from harmonium.experiments import Record
from harmonium.experiments.tap import fig3, fig4, fig5, fig6, fig7, table1, trained

EXPERIMENTS = {"fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6, "fig7": fig7, "table1": table1}
SMALL = {"data": "digits", "hidden": "4,8", "epochs": 6, "rows": 200}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("machines")


@pytest.fixture
def fast(monkeypatch):
    """Many steps at a large rate, so that little training has an effect, and few rows to explore from."""
    quick = {
        name: replace(chosen, batch=20, rate=(0.3, 0.3), iterations=3, probes=60)
        for name, chosen in trained.SETTINGS["quick"].items()
    }
    monkeypatch.setitem(trained.SETTINGS, "quick", quick)


def machines(folder, **given) -> trained.Machines:
    return trained.Machines(Record("tap", "quick", folder), "quick", **(SMALL | given))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_runs(name, fast, shared, tmp_path):
    record = Record(f"tap/{name}", "quick", tmp_path)
    EXPERIMENTS[name].run(record, "quick", **SMALL, machines=str(shared))
    record.close()
    check_left_behind(record, None if name == "table1" else name)
    if name == "table1":
        assert all(claim.holds for claim in record.claims)


# -- the machines ---------------------------------------------------------------------------------------------------


def test_full_scale_is_table_1():
    full = trained.SETTINGS["full"]
    assert {name: chosen.sizes for name, chosen in full.items()} == {
        "binary-mnist": (25, 50, 100, 500),
        "real-mnist": (100, 500),
        "cbcl": (256,),
    }
    assert [(chosen.batch, chosen.starts) for chosen in full.values()] == [(100, 100), (100, 100), (20, 20)]
    assert [chosen.rate for chosen in full.values()] == [(0.005, 0.005), (1e-2, 1e-5), (0.005, 0.005)]
    assert [chosen.decay for chosen in full.values()] == [0.001, 0.001, 0.01]
    assert {(chosen.momentum, chosen.epochs, chosen.rows, chosen.centred) for chosen in full.values()} == {
        (0.5, 100, 0, False)
    }


def test_machines_are_trained_once(fast, tmp_path, capsys):
    first, again = machines(tmp_path), machines(tmp_path)
    weights = [m.machine("real-mnist", 4).coupling.weight for m in (first, again)]
    assert torch.equal(*weights)
    assert capsys.readouterr().out.count("training") == 1
    assert again.history("real-mnist", 4) == first.history("real-mnist", 4)
    kept = again.along("real-mnist", 4)
    assert [epoch for epoch, _ in kept] == [0, 1, 2, 3, 4, 6]
    assert torch.equal(kept[-1][1].coupling.weight, weights[0])
    assert kept[0][1].coupling.weight.abs().max() < 0.01


@pytest.mark.parametrize(
    ("dataset", "unit", "learnt"),
    [
        ("binary-mnist", "bernoulli", {"bias"}),
        ("real-mnist", "truncated-gauss-bernoulli", {"bias", "precision", "log_odds"}),
        ("cbcl", "truncated-gaussian", {"bias", "precision"}),
    ],
)
def test_units_and_data(dataset, unit, learnt, tmp_path):
    found = machines(tmp_path)
    machine = found.build(dataset, 4)
    assert machine.visible.name() == unit
    assert set(machine.visible.learn) == learnt
    rows = found.rows(dataset)
    assert rows.shape == (200, 64)
    assert (rows.unique().numel() == 2) == (dataset == "binary-mnist")
    assert (found.labels(dataset) is not None) and found.image(dataset) == (1, 8, 8)
    assert len(found.probes(dataset)) == len(found.probes(dataset).unique()) == 200
    assert len(found.test(dataset)) == 355


def test_the_rate_falls(tmp_path):
    found = trained.Machines(Record("tap", "full", tmp_path), "full", **SMALL)
    machine = found.build("real-mnist", 4)
    options = found.options("real-mnist", machine)
    ends = [options["schedule"](hm.training.Clock(1, 100, share)).rate for share in (0.0, 0.5, 1.0)]
    assert [1e-2 * value for value in ends] == pytest.approx([1e-2, (1e-2 + 1e-5) / 2, 1e-5])
    weights, others = options["optimizer"].param_groups
    assert (weights["momentum"], others["momentum"]) == (0.5, 0.0)
    assert {id(p) for p in weights["params"] + others["params"]} == {
        id(p) for p in machine.parameters() if p.requires_grad
    }


def test_wrong_names_and_sizes(tmp_path):
    found = machines(tmp_path)
    with pytest.raises(hm.errors.InvalidOption, match="did you mean 'binary-mnist'"):
        found.rows("binary-mnsit")
    with pytest.raises(hm.errors.InvalidOption, match="'50,400'"):
        machines(tmp_path, hidden="many")
    with pytest.raises(hm.errors.InvalidOption, match="one unit"):
        machines(tmp_path, hidden="0,3")
    assert (found.sizes("cbcl"), found.size("cbcl", 256)) == ((4, 8), 8)


# -- what the figures measure ---------------------------------------------------------------------------------------


def test_a_point_of_figure_3():
    """Uncoupled units: TAP is exact, ln p = -64 ln 2 for every row, over 66 units."""
    rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(2))
    point = fig3.measure(7, rbm, hm.data.load("digits", binarise="threshold")[:20])
    assert point.value == pytest.approx(-64 * math.log(2) / 66, rel=1e-5)
    assert (point.epoch, point.solutions, point.converged) == (7, 1, 1.0)
    assert point.error < 1e-6


def test_spread_and_activation_of_fields():
    rbm = hm.RBM(hm.units.Bernoulli(64), hm.units.Bernoulli(3))
    weight = torch.zeros(64, 3)
    weight[:, 0] = 0.01  # flat and weak
    weight[5, 1] = 3.0  # one pixel
    weight[:8, 2] = 1.0
    rbm.coupling.weight.data.copy_(weight)
    rbm.hidden.bias.data.copy_(torch.tensor([0.0, -2.0, 2.0]))
    fields = fig4.Fields.of(rbm, torch.zeros(5, 64))
    assert fields.pixels.tolist() == pytest.approx([64, 1, 8], rel=1e-5)
    assert fields.spread.tolist() == pytest.approx([0.0, -9.5 * math.log(64), -9.5 * math.log(8)], abs=1e-4)
    assert fields.log_norm[1].item() == pytest.approx(math.log(3.0), rel=1e-5)
    ranked = fields.ranked()
    assert ranked["most spread"].tolist() == [0, 2, 1]
    assert ranked["most active"].tolist() == [2, 0, 1]
    assert fields.likeness(fields) == pytest.approx(1.0)
    assert fields.turned((1, 8, 8)).weights[1].argmax().item() == 2  # column 5 of eight becomes column 2


def test_modes_of_free_energies():
    def of(values):
        found = hm.meanfield.tap(hm.RBM(hm.units.Bernoulli(2), hm.units.Bernoulli(1)), len(values), seed=0)
        n = len(values)
        solutions = replace(found, free_energy=torch.tensor(values))
        return hm.analysis.Landscape(solutions, torch.arange(n), torch.ones(n, dtype=torch.int64))

    draw = np.random.default_rng(0)
    one, two = draw.normal(0, 1, 200), np.concatenate([draw.normal(0, 1, 100), draw.normal(9, 1, 100)])
    assert len(fig5.peaks(of(one.tolist()))) == 1
    low, high = fig5.peaks(of(two.tolist()))
    assert abs(low) < 1 and abs(high - 9) < 1
    assert len(fig5.peaks(of([1.0, 1.0]))) == 0


def test_smooth_values_are_told_from_random_ones():
    draw = np.random.default_rng(0)
    points = draw.normal(size=(100, 3))
    own, chance = fig6.smoothness(points, points[:, 0])
    assert own > 0.5 and chance == 1 / 1000
    assert fig6.smoothness(points, draw.normal(size=100))[1] > 0.01


def test_correlation_of_solutions():
    base = np.array([1.0, 2.0, 4.0])
    assert fig6.correlation(np.stack([base, 3 * base])) == pytest.approx(1.0)
    assert fig6.correlation(np.stack([base, -base])) == pytest.approx(-1.0)
    assert math.isnan(fig6.correlation(base[None]))


def test_basins_that_gather_a_class():
    labels = torch.tensor([3, 6, 7]).repeat(20)
    assert fig7.likeness(labels - 3, labels) == (1.0, 1 / 1000)
    share, chance = fig7.likeness(torch.arange(60) // 3, labels)  # one of each class in every basin
    assert (share, chance) == (0.0, 1.0)
    assert math.isnan(fig7.likeness(torch.arange(60), labels)[0])  # no two share a basin
    assert fig7.likeness(torch.where(labels == 7, -1, labels), labels)[0] == 1.0
