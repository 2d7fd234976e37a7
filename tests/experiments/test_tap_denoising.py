"""Denoising with TAP machines, figures 8 and 9 of Tramel et al. (2018): end to end on small settings, and verdicts."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch

from experiments import Record
from experiments.judging import Measured
from experiments.tap import denoisers, fig8, fig9
from experiments.tap.trained import Machines
from harmonium.errors import HarmoniumError
from harmonium.tasks import BinarySymmetric, Score, compare_denoisers, mcc

SMALL = {"data": "digits", "hidden": "3,5,8", "epochs": 2, "rows": 200}
WAYS = ("noisy starts", "PCD")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("machines")


def rows(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def curves(shared, tmp_path_factory):
    record = Record("tap/fig8", "quick", tmp_path_factory.mktemp("fig8"))
    patch = pytest.MonkeyPatch()
    patch.setattr(fig8, "LEVELS", (0.0, 0.1, 0.3, 0.45))
    patch.setitem(fig8.PROBED, "quick", 5)
    fig8.run(record, "quick", machines=str(shared), digits=20, **SMALL)
    patch.undo()
    record.close()
    return record


@pytest.mark.slow
def test_figure_8(curves):
    assert (curves.folder / "fig8.png").read_bytes().startswith(b"\x89PNG")
    scores = rows(curves.folder / "scores.csv")
    names = {row["denoiser"] for row in scores}
    assert names == {"N_h = 3", "N_h = 5", "N_h = 8", "OPE", "1-NN", *(f"N_h = 8, {way}" for way in WAYS)}
    assert len(scores) == 4 * len(names)
    machines = [row for row in scores if row["denoiser"].startswith("N_h")]
    assert all(float(row["mcc"]) == 1.0 for row in machines if row["p"] == "0.0")
    assert all(float(row["low"]) <= float(row["mcc"]) <= float(row["high"]) for row in scores)
    assert {row["training"] for row in rows(curves.folder / "solutions.csv")} == {"TAP", *WAYS}
    verdict = json.loads((curves.folder / "verdict.json").read_text(encoding="utf-8"))
    by_name = {claim["claimed"]: claim for claim in verdict["claims"]}
    assert by_name["at p = 0 the signal is returned exactly"]["holds"] is True
    about_500 = [claim for name, claim in by_name.items() if "500 hidden" in name]
    assert len(about_500) == 7  # none of which can be decided with 8
    assert all(claim["holds"] is None and claim["measured"] for claim in about_500)


@pytest.mark.slow
def test_figure_9_has_the_same_machines(curves, shared, tmp_path, capsys):
    record = Record("tap/fig9", "quick", tmp_path)
    fig9.run(record, "quick", machines=str(shared), digit=3, digits=4, **SMALL)
    assert "training" not in capsys.readouterr().out
    assert (tmp_path / "fig9.png").read_bytes().startswith(b"\x89PNG")
    levels = rows(tmp_path / "levels.csv")
    assert len({row["denoiser"] for row in levels}) == 7
    exact = [row for row in levels if row["p"] == "0.0" and row["denoiser"] != "1-NN"]
    assert all(float(row["mcc"]) == 1.0 for row in exact)
    assert record.numbers["same_noise"] is True
    assert all(claim.holds is not False for claim in record.claims)  # other settings than the published ones


@pytest.mark.slow
def test_ways_of_training_differ_in_the_negative_phase_alone(shared, tmp_path, monkeypatch):
    trained = Machines(Record("x", "quick", tmp_path), "quick", machines=str(shared), **SMALL)
    noisy, tap = denoisers.trained_with(trained, 8, "noisy starts"), trained.machine(denoisers.DATASET, 8)
    assert not torch.equal(noisy.coupling.weight, tap.coupling.weight)
    monkeypatch.setattr(denoisers, "NOISE", 0.0)
    again = Machines(Record("x", "quick", tmp_path), "quick", machines=str(tmp_path / "anew"), **SMALL)
    same = denoisers.trained_with(again, 8, "noisy starts")
    for name, value in tap.state_dict().items():
        assert torch.equal(value, same.state_dict()[name]), name


# -- verdicts: data for which each has to come out true, false and open ----------------------------------------------


def gaps(*values: float, error: float = 0.002) -> dict[float, Measured]:
    return {0.1 * (k + 1): Measured(value, error, 999) for k, value in enumerate(values)}


def test_a_gap_is_that_of_the_same_images():
    ours, theirs = (Score("MCC", 0.0, 0.0, 0.0, images=torch.tensor(x)) for x in ([0.5, 0.9, 0.7], [0.4, 0.8, 0.6]))
    found = fig8.gap(ours, theirs)
    assert (found.value, found.error) == (pytest.approx(0.1), pytest.approx(0.0, abs=1e-7))


def test_a_gain_is_decided_by_its_error():
    assert fig8.judge_better(gaps(0.01, 0.1)) is True
    assert fig8.judge_better(gaps(0.01, 0.001)) is None
    assert fig8.judge_better(gaps(0.01, -0.1)) is False
    assert fig8.judge_better({}) is None


def test_machines_that_mirror_another_denoiser():
    assert fig8.judge_mirrors(gaps(0.02, -0.03).values()) is True
    assert fig8.judge_mirrors(gaps(0.02, -0.1).values()) is False
    assert fig8.judge_mirrors(gaps(0.02, 0.03, error=0.05).values()) is None
    assert fig8.judge_mirrors([]) is None


def test_digits_that_are_not_recovered():
    assert fig8.judge_not_recovered(np.arange(1000) < 3) is True
    assert fig8.judge_not_recovered(np.arange(1000) < 900) is False
    assert fig8.judge_not_recovered(np.arange(20) < 2) is None


def test_a_failure_takes_two_neighboring_levels():
    assert fig8.judge_fails(gaps(0.01, -0.05, -0.1)) is True
    assert fig8.judge_fails(gaps(0.01, -0.05, 0.1, -0.05)) is False  # each alone
    assert fig8.judge_fails(gaps(-0.01, -0.01, -0.01)) is False  # worse, but less than counts
    assert fig8.judge_fails(gaps(0.01, -0.05, -0.021)) is None


def test_a_cure_needs_a_failure():
    better = gaps(0.1, 0.1)
    assert fig8.judge_cured(True, gaps(0.01, -0.01), better) is True
    assert fig8.judge_cured(True, gaps(0.01, -0.1), better) is False
    assert fig8.judge_cured(True, gaps(0.01, 0.1), gaps(0.1, -0.1)) is False
    assert fig8.judge_cured(True, gaps(0.01, -0.02, error=0.1), better) is None  # not known to be worse is not cured
    assert fig8.judge_cured(False, better, better) is None
    assert fig8.judge_cured(None, better, better) is None


def test_spurious_minima():
    assert fig8.judge_spurious(gaps(0.05, 0.1).values()) is True
    assert fig8.judge_spurious(gaps(0.05, 0.001).values()) is False
    assert fig8.judge_spurious(gaps(0.05, 0.1, error=0.1).values()) is None


def test_estimates_that_keep_the_structure_of_a_digit():
    draw = np.random.default_rng(0)
    assert fig9.judge_digit(draw.normal(0.2, 0.1, 100)) is True
    assert fig9.judge_digit(draw.normal(0.0, 0.1, 100)) is False
    assert fig9.judge_digit(draw.normal(0.06, 0.1, 10)) is None
    assert fig9.judge_digit(np.array([0.5])) is None  # one digit has no error


def test_estimates_that_are_nearly_empty():
    often, seldom = np.tile([1.0, 0.8], 50), np.tile([0.0, 0.2], 50)
    assert fig9.judge_caught(often, seldom) is True
    assert fig9.judge_caught(often, often) is False  # so are those of the narrow machine
    assert fig9.judge_caught(np.tile([0.2, 0.0], 50), seldom) is False  # at a single p
    assert fig9.judge_caught(np.tile([1.0, 0.1], 5), seldom[:10]) is None


@pytest.mark.slow
def test_machines_side_by_side(shared, tmp_path):
    trained = Machines(Record("x", "quick", tmp_path), "quick", machines=str(shared), **SMALL)
    signals, train = trained.test(denoisers.DATASET)[:2], trained.rows(denoisers.DATASET)
    parts = [
        compare_denoisers(
            trained.machine(denoisers.DATASET, n), signals, train, [BinarySymmetric(0.2)], name=str(n), seed=0
        )
        for n in (3, 5)
    ]
    both = fig9.joined(parts)
    assert list(both.estimates) == ["noisy", "1-NN", "OPE", "3", "5"]
    for part, name in zip(parts, ("3", "5"), strict=True):
        assert torch.equal(both.estimates[name], part.estimates[name])
        assert torch.equal(both.estimates["noisy"], part.estimates["noisy"])


def test_likeness_to_a_digit():
    train = torch.tensor([[1.0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1]])
    pictures = torch.stack([train[1], torch.zeros(6), torch.tensor([1.0, 0, 0, 0, 0, 0])])
    # an empty image is two flips away from a digit, but correlates with none
    assert fig9.likeness(train, pictures).tolist() == pytest.approx([1.0, 0.0, 0.4**0.5])
    expected = [mcc(train, x.expand_as(train), resamples=1).images.max().item() for x in pictures]
    assert fig9.likeness(train, pictures).tolist() == pytest.approx(expected)


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(HarmoniumError, match="sizes"):
        fig8.run(Record("x", "quick", tmp_path), "quick", hidden="many")
