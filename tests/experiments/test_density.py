"""The density experiments choose on validation rows, test once, and judge only what can be trusted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import experiments
import harmonium as hm
from experiments.density import all_sets, cost, settings, tested, trained
from experiments.density.settings import Budget, Settings
from experiments.density.trained import Pieces, Trained
from harmonium import data
from harmonium.errors import Diverged, InvalidOption, RunError

BUDGET = Budget(
    search_updates=20, updates=60, search_betas=20, betas=50, seeds=2, stages=("hidden", "exact"), hidden=(2, 3)
)


def rows_of_a_machine(name: str = "nltcs") -> trained.Rows:
    """Six columns: a category of three values, and three noisy copies of its first column."""
    source = torch.Generator().manual_seed(0)
    category = torch.eye(3)[torch.randint(3, (300,), generator=source)]
    noisy = (category[:, :1] + (torch.rand(300, 3, generator=source) < 0.1)) % 2
    rows = torch.cat([category, noisy], 1)
    return trained.Rows(name, rows[:150], rows[150:200], rows[200:], data.find_categories(rows))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(tested, "load", rows_of_a_machine)
    monkeypatch.setattr(settings, "OWN", {})
    monkeypatch.setattr(settings, "BUDGETS", {"quick": BUDGET})
    monkeypatch.setattr(all_sets, "SETS", ("nltcs",))
    monkeypatch.setattr(data, "status", lambda name: "here")


@pytest.mark.slow
def test_a_set_from_search_to_verdict(small, tmp_path, capsys):
    record = experiments.reproduce("density/nltcs", "quick", tmp_path / "one")
    rows = {title: record.numbers[title] for title in ("nltcs", "nltcs, categories")}
    for row in rows.values():
        assert row["seeds"] == row["trustworthy"] == 2 and row["exact"]
        assert row["lowest"] <= row["test"] <= row["highest"]
    plain, known = rows["nltcs"], rows["nltcs, categories"]
    assert plain["test"] > plain["independent"] + 0.5  # the columns depend on each other
    assert known["test"] > plain["test"] + 0.2  # the first columns exclude each other
    assert record.claims[-1].holds
    first_line = capsys.readouterr().out.splitlines()[0]
    assert "planned" in first_line and "minutes of one core" in first_line


@pytest.mark.slow
def test_every_training_is_kept(small, tmp_path, monkeypatch):
    """A run that was stopped continues with the next training, and all sets continue with the next set."""
    calls, compute = [], trained.measured

    def stops(*given):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(given)
        return compute(*given)

    monkeypatch.setattr(trained, "measured", stops)
    with pytest.raises(KeyboardInterrupt):
        experiments.reproduce("density/all", "quick", tmp_path / "all", jobs=1)
    assert len(list((tmp_path / "all" / "nltcs" / "pieces").iterdir())) == 3
    monkeypatch.setattr(trained, "measured", compute)
    record = experiments.reproduce("density/all", "quick", tmp_path / "all", jobs=1)
    with pytest.raises(InvalidOption, match="visible: expected bernoulli or categories"):
        experiments.reproduce("density/nltcs", "quick", tmp_path / "c", visible="potts")
    monkeypatch.setattr(trained, "measured", lambda *_: pytest.fail("computed again"))
    kept = {"pieces": str(tmp_path / "all/nltcs/pieces"), "visible": "bernoulli"}
    again = experiments.reproduce("density/nltcs", "quick", tmp_path / "b", **kept)
    assert again.numbers["nltcs"] == record.numbers["nltcs"] and "nltcs, categories" not in again.numbers
    (tmp_path / "all" / "verdict.json").unlink()
    assert experiments.reproduce("density/all", "quick", tmp_path / "all").numbers == record.numbers


@pytest.mark.slow
def test_sets_in_other_processes(tmp_path, monkeypatch):
    """Two sets at once; the first one that fails is named, with the place of its output."""
    monkeypatch.setattr(all_sets, "SETS", ("no-such-set", "nor-this-one"))
    monkeypatch.setattr(data, "status", lambda name: "here")
    record = experiments.Record("density/all", "quick", tmp_path)
    with pytest.raises(RunError, match=r"stopped with status 2; see .*log\.txt") as error:
        all_sets.run(record, "quick", updates=1, betas=1, seeds=1)
    name = str(error.value).partition(":")[0].removeprefix("density/")
    assert name in all_sets.SETS
    assert "unknown experiment" in (tmp_path / name / "log.txt").read_text(encoding="utf-8")


@pytest.mark.slow
def test_test_rows_are_not_used_for_the_choice(small, tmp_path):
    rows, record = rows_of_a_machine(), experiments.Record("density/nltcs", "quick", tmp_path)
    chosen = trained.choose(record, Pieces(tmp_path / "a"), rows, "categories", BUDGET, 0)
    blind = replace(rows, test=torch.full_like(rows.test, torch.nan))
    assert trained.choose(record, Pieces(tmp_path / "b"), blind, "categories", BUDGET, 0) == chosen


def test_the_best_validation_likelihood_is_chosen(small, tmp_path, monkeypatch):
    def score(rows, settings, *_):
        if settings.l2:
            raise Diverged("weights")
        value = -abs(settings.learning_rate - 0.3) - abs(settings.hidden - 2) - (settings.negative != "pcd:5")
        seen = value + 9 * (settings.learning_rate == 0.05)  # both directions of the annealing miss states
        return Trained(seen, seen + 1, value, value, value, False, (), 1, 0.0, 0.0)

    monkeypatch.setattr(trained, "measured", score)
    record = experiments.Record("density/nltcs", "quick", tmp_path)
    whole = Budget(20, 60, 20, 50, hidden=(2, 3))
    chosen = trained.choose(record, Pieces(tmp_path / "a"), rows_of_a_machine(), "bernoulli", whole, 0)
    assert chosen == Settings(hidden=2, learning_rate=0.3, negative="pcd:5")


def test_the_penalty_is_chosen_at_the_final_length(small, tmp_path, monkeypatch):
    """Short trainings of few rows do not overfit; trainings of different lengths are not compared."""

    def score(rows, settings, split, lengths, *_):
        value = -abs(settings.l2 - 3e-2) - 5 if lengths == (60, 50) else -settings.l2
        return Trained(value, value, value, value, value, True, (), 1, 0.0, 0.0)

    monkeypatch.setattr(trained, "measured", score)
    record = experiments.Record("density/nltcs", "quick", tmp_path)
    long = replace(BUDGET, stages=("hidden", "l2"), penalty_updates=60)
    for budget, penalty in ((long, 3e-2), (replace(long, penalty_updates=0), 0.0)):
        pieces = Pieces(tmp_path / str(budget.penalty_updates))
        assert trained.choose(record, pieces, rows_of_a_machine(), "bernoulli", budget, 0).l2 == penalty


def test_machines_whose_states_are_missed_are_not_chosen(small, tmp_path, monkeypatch):
    """A machine that mixes badly looks better than it is; among trainings of the final length it is not chosen."""

    def score(rows, settings, split, lengths, *_):
        both, checked = (0.0, -1.0) if settings.l2 == 0 else (-2.0 - settings.l2, -2.1 - settings.l2)
        return Trained(both, both, checked, both, both, False, ("a doubt",), 1, 0.0, 0.0)

    monkeypatch.setattr(trained, "measured", score)
    record = experiments.Record("density/nltcs", "quick", tmp_path)
    for updates, penalty in ((60, 3e-4), (0, 0.0)):  # without it, all estimates are short ones
        budget, pieces = replace(BUDGET, stages=("l2",), penalty_updates=updates), Pieces(tmp_path / str(updates))
        assert trained.choose(record, pieces, rows_of_a_machine(), "bernoulli", budget, 0).l2 == penalty


def test_of_equal_values_those_that_can_be_trusted_are_preferred():
    def found(value, *problems):
        return Trained(value, value, value, value, value, False, problems, 1, 0.0, 0.0)

    a, b, c = (Settings(l2=l2) for l2 in (0.0, 1e-3, 1e-2))
    assert trained.preferred({a: found(-1.0, "doubt"), b: found(-1.3), c: found(-2.0)}) == [b]
    assert trained.preferred({a: found(-1.0, "doubt"), b: found(-1.6), c: found(-2.0)}) == [a]
    assert trained.preferred({a: found(-1.0), b: found(-1.3)}) == [a, b]


def test_categories_that_a_test_row_violates(small, tmp_path):
    """Such a row has probability zero; the choice of categories must not depend on test rows."""
    rows = rows_of_a_machine()
    wrong = replace(rows, test=torch.ones_like(rows.test))
    found = trained.measured(wrong, Settings(hidden=2, visible="categories"), "test", (10, 10), 100, 0, tmp_path)
    assert found.log_likelihood == -torch.inf and "exactly one" in found.problems[0]
    row = tested.row(Settings(hidden=2, visible="categories"), [found], BUDGET, -3.0)
    assert row["test"] is None and json.dumps(row, allow_nan=False)
    record = experiments.Record("density/mushrooms", "quick", tmp_path)
    tested.claims(record, "mushrooms, categories", row)
    assert "-∞" in record.claims[0].measured and record.claims[0].holds is not True


@pytest.mark.parametrize(
    ("trustworthy", "test", "low", "high", "verdict"),
    [
        (3, -9.0, -9.1, -8.9, True),
        (3, -9.0, -16.0, -8.9, None),  # the interval of an estimate contains the published numbers
        (3, -9.0, None, -8.9, None),
        (3, -16.0, -16.1, -15.9, False),
        (2, -9.0, -9.1, -8.9, None),
    ],
)
def test_verdicts(tmp_path, trustworthy, test, low, high, verdict):
    record = experiments.Record("density/mushrooms", "quick", tmp_path)
    row = {**vars(Settings()), "test": test, "standard_error": 0.01, "seeds": 3, "trustworthy": trustworthy}
    tested.claims(record, "mushrooms", {**row, "pessimistic": -20.0, "lowest": low, "highest": high})
    assert [claim.holds for claim in record.claims[:-1]] == [verdict] * 5
    assert record.claims[-1].holds == (trustworthy == 3)


def test_the_search_contains_where_it_starts():
    for name in experiments.DENSITY:
        for scale in experiments.SCALES:
            budget = settings.budget_of(name, scale)
            for stage in budget.stages:
                candidates = budget.candidates(stage, budget.first())
                assert stage == settings.EXACT or not candidates or budget.first() in candidates


def test_single_values_are_used_without_a_search(small, tmp_path, monkeypatch):
    budget = settings.budget_of("nltcs", "quick", hidden=4, learning_rate=0.2, negative="pcd:3", l2=0.0)
    fixed = replace(budget, stages=("hidden", "learning_rate", "negative", "exact", "l2"))
    monkeypatch.setattr(trained, "measured", lambda *_: pytest.fail("trained"))
    record = experiments.Record("density/nltcs", "quick", tmp_path)
    chosen = trained.choose(record, Pieces(tmp_path / "a"), rows_of_a_machine(), "bernoulli", fixed, 0)
    assert chosen == Settings(hidden=4, learning_rate=0.2, negative="pcd:3", l2=0.0)
    with pytest.raises(InvalidOption, match="expected persistent chains, such as pcd:5, found 'tap'"):
        settings.budget_of("nltcs", "quick", negative="tap")


def test_options_of_the_budget(tmp_path):
    """One number of hidden units, and products in another precision, which have pieces of their own."""
    budget = settings.budget_of("binarized-mnist", "quick", updates=40_000, hidden=2000, precision="bfloat16")
    assert budget.hidden == (2000,) and budget.lengths("learning_rate")[0] == 2000
    assert budget.lengths("l2")[0] == budget.lengths("smooth")[0] == 10_000
    found = budget.first()
    assert (found.hidden, found.precision) == (2000, "bfloat16")
    assert budget.penalties == settings.OWN["binarized-mnist"]["penalties"] and found.l2 in budget.penalties
    others = [replace(found, **one) for one in ({"precision": "float32"}, {"smooth": 0.1}, {"initialize": "normal"})]
    assert len({trained.machine_name("a", one, 1, 1, 0) for one in (found, *others)}) == 4


def test_smoothing_is_for_images():
    assert settings.budget_of("binarized-mnist", "quick", smooth=0.0).smooth == (0.0,)
    assert settings.budget_of("nltcs", "quick", smooth=0.0).smooth == (0.0,)
    with pytest.raises(InvalidOption, match=r"smooth: expected 0 for nltcs, whose rows are no images, found 0\.1"):
        settings.budget_of("nltcs", "quick", smooth=0.1)


def test_smoothed_machines_have_smoother_weights():
    rows = torch.bernoulli(torch.full((300, 784), 0.3), generator=torch.Generator().manual_seed(0))
    images = trained.Rows("binarized-mnist", rows, rows, rows, None)
    rough, smooth = (
        trained.train(images, Settings(hidden=8, initialize="normal", smooth=strength), 60, 100, 0)
        for strength in (0.0, 0.1)
    )
    penalty = hm.Smooth(1.0, settings.IMAGE_SHAPE)
    assert penalty.loss(smooth) < 0.5 * penalty.loss(rough)


def test_a_longer_annealing_uses_the_same_machine(small, tmp_path, monkeypatch):
    pieces, one = Pieces(tmp_path / "pieces"), Settings(hidden=2)
    first = pieces.measured(rows_of_a_machine(), one, "validation", (20, 10), 50, 0)
    assert [place.suffix for place in (tmp_path / "machines").iterdir()] == [".safetensors"]
    monkeypatch.setattr(trained, "train", lambda *_: pytest.fail("trained again"))
    again = pieces.measured(rows_of_a_machine(), one, "validation", (20, 20), 50, 0)
    assert (again.seconds, again.forward) == (first.seconds, first.forward)  # exact


def test_planned_cost():
    """The cost of the search is that of its trainings, and exact gradients have their own cost."""
    known = cost.Cost(update=1.0, sweep=0.5, exact=20.0, estimate=3.0, beta=0.1, sampling_sweep=0.2)
    assert known.training(Settings(negative="pcd:5"), 10) == 30.0
    assert known.training(Settings(negative="pcd:1+exact"), 30) == 50.0
    budget = Budget(10, 100, 20, 50, seeds=2, stages=("negative",))
    search, final = known.seconds("bernoulli", budget)
    assert search == 10 + 30 + 2 * (3 + 2 + 4) and final == 2 * (300 + 3 + 5 + 10)
