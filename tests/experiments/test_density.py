"""The density experiments choose on validation rows, test once, and judge only what can be trusted."""

from __future__ import annotations

import json

import pytest
import torch

import experiments
from experiments.density import all_sets, single, tested, trained
from experiments.density.settings import Budget, Settings, first, stages
from harmonium import data

BUDGET = Budget(search_updates=20, updates=60, search_betas=20, betas=50, seeds=2)


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
    monkeypatch.setattr("experiments.density.settings.HIDDEN", {"nltcs": (2, 3)})
    monkeypatch.setattr(single, "BUDGETS", {"quick": BUDGET})
    monkeypatch.setattr(all_sets, "BUDGETS", {"quick": BUDGET})
    monkeypatch.setattr(all_sets, "SETS", ("nltcs",))
    monkeypatch.setattr(data, "status", lambda name: "here")


def test_a_set_from_search_to_verdict(small, tmp_path):
    record = experiments.reproduce("density/nltcs", "quick", tmp_path / "one")
    row = record.numbers["nltcs"]
    assert row["seeds"] == row["trustworthy"] == 2
    assert row["test"] > row["independent"] + 0.5  # the columns depend on each other
    assert row["visible"] == "categories"
    assert record.claims[-1].holds


def test_all_sets_continue_where_they_stopped(small, tmp_path, monkeypatch):
    experiments.reproduce("density/all", "quick", tmp_path / "all")
    row = json.loads((tmp_path / "all" / "nltcs.json").read_text(encoding="utf-8"))
    (tmp_path / "all" / "verdict.json").unlink()
    monkeypatch.setattr(all_sets, "one", lambda *_: pytest.fail("computed again"))
    record = experiments.reproduce("density/all", "quick", tmp_path / "all")
    assert record.numbers["nltcs"] == row


def test_test_rows_are_not_used_for_the_choice(small, tmp_path):
    rows = rows_of_a_machine()
    record = experiments.Record("density/nltcs", "quick", tmp_path)
    chosen = trained.choose(record, rows, BUDGET, 0)
    blind = trained.Rows(rows.name, rows.train, rows.validation, torch.full_like(rows.test, torch.nan), rows.categories)
    assert trained.choose(record, blind, BUDGET, 0) == chosen


@pytest.mark.parametrize(("trustworthy", "test", "verdict"), [(3, -9.0, True), (3, -16.0, False), (2, -9.0, None)])
def test_verdicts(tmp_path, trustworthy, test, verdict):
    record = experiments.Record("density/mushrooms", "quick", tmp_path)
    row = {**vars(Settings()), "test": test, "standard_error": 0.01, "seeds": 3, "trustworthy": trustworthy}
    tested.claims(record, "mushrooms", row)
    assert [claim.holds for claim in record.claims[:-1]] == [verdict] * 4
    assert record.claims[-1].holds == (trustworthy == 3)


def test_the_search_contains_where_it_starts():
    for name in experiments.DENSITY:
        values = dict(stages(name, categories=True))
        assert all(getattr(first(name), setting) in tried for setting, tried in values.items())
