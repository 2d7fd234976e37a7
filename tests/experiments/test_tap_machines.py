"""The experiments of Tramel et al. (2018) run end to end on small settings, and their parts are correct."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from record_helpers import check_left_behind

import harmonium as hm
from experiments import Record, judging
from experiments.judging import Measured
from experiments.tap import fig3, fig4, fig5, fig6, fig7, landscapes, scored, table1, trained

EXPERIMENTS = {"fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6, "fig7": fig7, "table1": table1}
SMALL = {"data": "digits", "hidden": "4,8", "epochs": 6, "rows": 200}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("machines")


@pytest.fixture
def fast(monkeypatch):
    """Many steps at a large rate, so that short training has an effect, and few starting rows."""
    quick = {
        name: replace(chosen, batch=20, rate=(0.3, 0.3), iterations=3, probes=60)
        for name, chosen in trained.SETTINGS["quick"].items()
    }
    monkeypatch.setitem(trained.SETTINGS, "quick", quick)


def machines(folder, **given) -> trained.Machines:
    return trained.Machines(Record("tap", "quick", folder), "quick", **(SMALL | given))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_runs(name, fast, shared, tmp_path):
    record = Record(f"tap/{name}", "quick", tmp_path)
    EXPERIMENTS[name].run(record, "quick", **SMALL, machines=str(shared))
    record.close()
    check_left_behind(record, None if name == "table1" else name)
    if name == "table1":  # six epochs are too few for the required increase, but all numbers are finite
        assert all("parameters finite" in claim.measured for claim in record.claims)


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
    assert {(chosen.momentum, chosen.epochs, chosen.rows, chosen.centered) for chosen in full.values()} == {
        (0.5, 100, 0, False)
    }


@pytest.mark.slow
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
    ("dataset", "unit", "learned"),
    [
        ("binary-mnist", "bernoulli", {"bias"}),
        ("real-mnist", "truncated-gauss-bernoulli", {"bias", "precision", "log_odds"}),
        ("cbcl", "truncated-gaussian", {"bias", "precision"}),
    ],
)
def test_units_and_data(dataset, unit, learned, tmp_path):
    found = machines(tmp_path)
    machine = found.build(dataset, 4)
    assert machine.visible.name() == unit
    assert set(machine.visible.learn) == learned
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


def test_names_of_kept_machines(tmp_path):
    found = trained.Machines(Record("tap", "quick", tmp_path), "quick")
    found._load = lambda *_: (torch.empty(5000, 1), None)  # the images themselves do not matter
    assert found._name("binary-mnist", 100) == "binary-mnist-100-quick-rows-5000-epochs-25-seed-0"
    noisy = found._name("binary-mnist", 500, "noisy starts")
    assert noisy == "binary-mnist-noisy-starts-500-quick-rows-5000-epochs-25-seed-0"
    assert machines(tmp_path)._name("cbcl", 4, "PCD") == "cbcl-of-digits-pcd-4-quick-rows-200-epochs-6-seed-0"


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
    rows = hm.data.load("digits", binarize="threshold")
    point, test = scored.measure(7, rbm, rows[:20], rows[:20], rows[20:50])
    assert test.value == pytest.approx(point.value)
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
    assert fields.cover.tolist() == pytest.approx([64, 1, 8], rel=1e-4)
    assert fields.likeness(fields).tolist() == pytest.approx([1.0] * 3)
    assert fields.turned((1, 8, 8)).weights[1].argmax().item() == 2  # column 5 of eight becomes column 2


def test_modes_of_free_energies():
    def of(values):
        found = hm.meanfield.tap(hm.RBM(hm.units.Bernoulli(2), hm.units.Bernoulli(1)), len(values), seed=0)
        n = len(values)
        solutions = replace(found, free_energy=torch.tensor(values))
        return hm.landscape.Landscape(solutions, torch.arange(n), torch.ones(n, dtype=torch.int64))

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
    assert fig6.correlation(np.stack([base, 3 * base])).value == pytest.approx(1.0)
    assert fig6.correlation(np.stack([base, -base])).value == pytest.approx(-1.0)
    assert math.isnan(fig6.correlation(base[None]).value)
    points = np.random.default_rng(0).normal(size=(8, 20))
    without = [fig6.correlation(np.delete(points, k, 0)).value for k in range(8)]
    assert fig6.correlation(points).error == pytest.approx(judging.jackknife(0.0, without).error)


@pytest.mark.slow
def test_basins_that_gather_a_class():
    labels = torch.tensor([3, 6, 7]).repeat(20)
    base = 19 / 59  # of any two
    assert fig7.likeness(labels - 3, labels) == (1.0, pytest.approx(base), 1 / 1000)
    found = fig7.likeness(torch.arange(60) // 3, labels)  # one of each class in every basin
    assert found == (0.0, pytest.approx(base), 1.0)
    assert math.isnan(fig7.likeness(torch.arange(60), labels)[0])  # no two share a basin
    assert fig7.likeness(torch.where(labels == 7, -1, labels), labels)[0] == 1.0


def test_the_error_of_a_log_likelihood_includes_that_of_the_partition_function():
    """Two states: both remain without a tenth of the starts; one is lost without the only start that leads to it."""
    rbm = hm.RBM(hm.units.Spin(20), hm.units.Spin(20))
    torch.nn.init.constant_(rbm.coupling.weight, 0.2)
    with torch.no_grad():
        rbm.visible.bias.fill_(0.01)  # the states differ in depth
    starts = torch.ones(20, 20)
    starts[3] = -1
    (point,) = scored.measure(0, rbm, starts, torch.ones(20, 20))
    assert point.solutions == 2
    moved = np.abs(point.parts - point.value)
    assert moved[3] > 1e-3 and np.delete(moved, 3).max() < 1e-9
    assert point.error == pytest.approx(0.9 * moved[3])


# -- verdicts: data for which each has to come out true, false and open ----------------------------------------------


def curve(values: list[float], error: float = 1e-4, converged: float = 1.0) -> list[scored.Point]:
    """Points at epochs 0, 10, 20, … 100, with independent errors of about the given size."""
    draw = np.random.default_rng(0)
    epochs = np.linspace(0, 100, len(values)).round().astype(int).tolist()
    return [
        scored.Point(epoch, value, 1, converged, value + error * draw.normal(size=10) / 3)
        for epoch, value in zip(epochs, values, strict=True)
    ]


BENT = [-0.25, -0.15, -0.12, *np.linspace(-0.119, -0.11, 8).tolist()]
STRAIGHT = np.linspace(-0.25, -0.1, 11).tolist()


def test_rise_of_the_log_likelihood():
    assert scored.judge_rise(curve(BENT)) is True
    assert scored.judge_rise(curve(BENT[::-1])) is False
    assert scored.judge_rise(curve([-0.25, -0.249])) is False  # less than counts
    assert scored.judge_rise(curve(BENT, error=0.2)) is None
    assert scored.judge_rise(curve(BENT, converged=0.2)) is None


def test_shape_of_the_log_likelihood():
    judges = (fig3.judge_rapid, fig3.judge_taper, fig3.judge_constant)
    assert [judge(curve(BENT)) for judge in judges] == [True, True, True]
    assert [judge(curve(STRAIGHT)) for judge in judges] == [False, False, True]
    assert fig3.judge_constant(curve([*BENT[:3], *np.linspace(-0.1, -0.05, 4), *[-0.05] * 4])) is False
    assert [judge(curve(BENT, error=0.2)) for judge in judges] == [None, None, None]
    assert [judge(curve(BENT[:2])) for judge in judges] == [None, None, None]  # no epochs in between


def test_the_shape_is_open_where_the_settings_are_not_the_published_ones(tmp_path):
    for difference, holds in (("", True), ("fewer updates", None)):
        record = Record("tap/fig3", "quick", tmp_path / (difference or "none"))
        fig3._claims(record, "binary-mnist", {25: curve(BENT)}, difference)
        assert [claim.holds for claim in record.claims] == [True, holds, holds, holds]
    assert record.claims[-1].measured.endswith("(open: fewer updates; these machines meet the criterion)")


def test_how_settings_differ(tmp_path):
    assert "1250 updates from 5000 images instead of 60000" in difference(tmp_path, "quick", "binary-mnist")
    assert "learning rate 0.05 to 0.0005 instead of 0.005" in difference(tmp_path, "quick", "binary-mnist")
    assert "no machine of 256 hidden units" in difference(tmp_path, "quick", "cbcl", 256)
    assert difference(tmp_path, "full", "binary-mnist", 25, 500) == ""
    assert "no machine of 400" in difference(tmp_path, "full", "binary-mnist", 400)


def difference(folder, scale: str, dataset: str, *sizes: int) -> str:
    found = trained.Machines(Record("tap", scale, folder), scale)
    number = hm.data.info(trained.DATASETS[dataset].source).splits["train"]
    rows = torch.empty(trained.SETTINGS[scale][dataset].rows or number, 1)
    found._load = lambda *_: (rows, None)  # the images themselves do not matter
    return found.difference(dataset, *sizes)


def fields(median: float, n: int = 200, spread: float = 0.3) -> np.ndarray:
    return np.exp(np.random.default_rng(0).normal(np.log(median), spread, n))


@pytest.mark.slow
def test_localization():
    assert fig4.judge_local(fields(50), 784) is True
    assert fig4.judge_local(fields(300), 784) is False
    assert fig4.judge_local(fields(115, 20), 784) is None
    assert fig4.judge_more_local([fields(300), fields(200), fields(100)]) is True
    assert fig4.judge_more_local([fields(300, 2000), fields(299, 2000)]) is False  # smaller, but not by what counts
    assert fig4.judge_more_local([fields(300), fields(500), fields(100)]) is False
    assert fig4.judge_more_local([fields(300, 20, 1.0), fields(200, 20, 1.0)]) is None
    assert fig4.judge_more_local([fields(300)]) is None


def test_similar_features():
    draw = np.random.default_rng(0)
    other = draw.uniform(0.4, 0.5, 100)
    assert fig4.judge_similar(other + draw.normal(0.2, 0.02, 100), other) is True
    assert fig4.judge_similar(other + draw.normal(0.01, 0.02, 100), other) is False
    assert fig4.judge_similar(other[:5] + np.array([0.3, -0.1, 0.1, 0.05, 0.0]), other[:5]) is None


def test_a_single_solution():
    assert fig5.judge_single([1000], 1000) is True
    assert fig5.judge_single([999, 1], 1000) is False
    assert fig5.judge_single([10], 10) is None  # too few starts
    assert fig5.judge_single([], 1000) is None
    assert fig5.judge_single([900], 1000) is None  # the rest did not converge


def basins(counts: list[int], starts: int = 400) -> np.ndarray:
    return np.stack([np.arange(starts) % n for n in counts])


def test_a_steady_increase():
    epochs = list(range(8))
    assert fig5.judge_steady(epochs, basins([1, 2, 4, 8, 16, 25, 40, 60])) is True
    assert fig5.judge_steady(epochs, basins([1, 60, 50, 40, 30, 20, 10, 5])) is False
    assert fig5.judge_steady(epochs, basins([1, 1, 1, 1, 1, 1, 2, 3])) is None  # never enough
    assert fig5.judge_steady(epochs[:3], basins([1, 10, 60])) is None


def hump(*values: float, error: float = 0.1) -> list[Measured]:
    return [Measured(value, error) for value in values]


def test_a_free_energy_that_rises_and_declines():
    epochs = [0, 1, 2, 5, 10]
    assert fig5.judge_hump(epochs, hump(-60, -40, -50, -60, -70)) is True
    assert fig5.judge_hump(epochs, hump(-60, -70, -80, -90, -99)) is False  # it never rises
    assert fig5.judge_hump(epochs, hump(-60, -50, -45, -42, -40)) is False
    assert fig5.judge_hump(epochs, hump(-60, -40, -40.1, -40.2, -40.3)) is False  # no decline that counts
    assert fig5.judge_hump(epochs, hump(-60, -40, -50, -60, -70, error=20)) is None
    assert fig5.judge_hump(epochs, hump(-60, math.nan, -50, -60, -70)) is None


@pytest.mark.slow
def test_several_modes():
    draw = np.random.default_rng(0)
    two = np.concatenate([draw.normal(0, 1, 60), draw.normal(5, 1, 60)])
    assert fig5.judge_modes(fig5.one_mode(two), len(two)) is True
    assert fig5.judge_modes(fig5.one_mode(draw.normal(size=120)), 120) is False
    assert fig5.judge_modes(fig5.one_mode(draw.normal(size=30)), 30) is None  # too few to refute
    assert fig5.one_mode(np.ones(30)) == 1.0


def test_the_share_of_solutions():
    few, many = [100] * 90 + [1] * 10, [1] * 2000
    assert fig5.judge_share(few, sum(few), shorter=False) is True
    assert fig5.judge_share(few, sum(few), shorter=True) is None  # their number grows with training
    assert fig5.judge_share(many, 10_000, shorter=True) is False
    assert fig5.judge_share(few, 2 * sum(few), shorter=False) is None  # half of the starts do not converge
    assert fig5.judge_share([9] * 80 + [1] * 20, 740 + 200, shorter=False) is None
    assert fig5.judge_share([], 0, shorter=False) is None


def test_few_solutions_become_many():
    assert landscapes.judge_many([[1000], [5] * 200]) is True
    assert landscapes.judge_many([[900, 100], [500, 300, 200]]) is False
    assert landscapes.judge_many([[], []]) is None  # nothing converges
    assert landscapes.judge_many([[1000], [80] * 4 + [1] * 8]) is None


def test_free_energies_by_location():
    assert fig6.judge_smooth(0.6, 0.001, 100) is True
    assert fig6.judge_smooth(0.6, 0.3, 100) is False
    assert fig6.judge_smooth(0.1, 0.001, 1000) is False  # beyond chance, but weak
    assert fig6.judge_smooth(0.6, 0.3, 20) is None


def test_solutions_diversify():
    def of(*values: float, error: float = 0.005) -> list[Measured]:
        return [Measured(value, error) for value in values]

    assert fig6.judge_correlated(of(0.9, 0.4)) is True
    assert fig6.judge_correlated(of(0.4, 0.39)) is False
    assert fig6.judge_correlated(of(0.72, 0.4, error=0.1)) is None
    assert fig6.judge_correlated([]) is None
    assert fig6.judge_diversify(of(0.9, 0.4)) is True
    assert fig6.judge_diversify(of(0.40, 0.39)) is False
    assert fig6.judge_diversify(of(0.5, 0.39)) is None
    assert fig6.judge_diversify(of(0.9)) is None


def test_spread_of_the_solutions():
    draw = np.random.default_rng(0)
    plane = draw.normal(size=(500, 2))
    wide, tight = (fig7.spread(size * draw.normal(size=(60, 2)), plane) for size in (0.9, 0.1))
    assert fig7.judge_spread([wide, wide]) is True
    assert fig7.judge_spread([tight, wide]) is False
    assert fig7.judge_spread([fig7.spread(0.5 * draw.normal(size=(20, 2)), plane)]) is None
    assert fig7.judge_spread([]) is None


def test_solutions_where_the_data_are_dense():
    draw = torch.Generator().manual_seed(0)
    centers = 5 * torch.randn(20, 10, generator=draw)
    rows = (centers[:, None] + torch.randn(20, 20, 10, generator=draw)).flatten(0, 1)
    assert fig7.judge_dense(fig7.Nearness.of(centers, rows)) is True
    assert fig7.judge_dense(fig7.Nearness.of(centers + 20, rows)) is False
    assert fig7.judge_dense(fig7.Nearness.of(centers[:2], rows)) is None
    # all solutions are the mean of rows without clusters: close, but equally close to every row
    rows = torch.randn(400, 50, generator=draw)
    near = fig7.Nearness.of(rows.mean(0).expand(30, 50), rows)
    assert near.center < np.median(near.rows) and fig7.judge_dense(near) is False


def test_rows_alike():
    assert fig7.judge_alike(0.9, 0.33, 0.001) is True
    assert fig7.judge_alike(0.35, 0.33, 0.001) is False
    assert fig7.judge_alike(0.9, 0.33, 0.2) is False
    assert fig7.judge_alike(math.nan, 0.33, 1.0) is None
