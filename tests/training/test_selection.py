"""Cross-validated selection: only validation rows decide, and processes give the same result."""

from __future__ import annotations

import json

import pytest
import torch

import harmonium as hm
from harmonium.errors import InvalidData, InvalidOption
from harmonium.runs import cross_validation, folds
from harmonium.runs.cross_validation import Candidate, choose

OPTIONS = {"epochs": 3, "negative": "exact", "batch_size": 10, "progress": False}


def patterns(n: int = 40) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return ((torch.rand(n, 1, generator=generator) < 0.5) ^ (torch.rand(n, 5, generator=generator) < 0.1)).float()


def test_scores_are_those_of_rows_that_were_left_out(monkeypatch) -> None:
    rows = patterns()
    seen: list[torch.Tensor] = []
    real = folds.fit

    def fit(machine, data, **options):
        seen.append(data)
        return real(machine, data, **options)

    monkeypatch.setattr(folds, "fit", fit)
    study = cross_validation._study(rows, [2], [0.0], "l2", None, 4, 0, {k: OPTIONS[k] for k in ("epochs", "negative")})
    assert sorted(torch.bincount(study.fold).tolist()) == [10, 10, 10, 10]
    train, validation = folds.score(study, 1)
    assert torch.equal(seen[0], rows[study.fold != 1])  # the rows of fold 1 are left out
    assert train != validation


def test_a_worker_does_its_share(tmp_path, capsys) -> None:
    options = {name: OPTIONS[name] for name in ("epochs", "negative", "batch_size")}
    study = cross_validation._study(patterns(), [1, 2], [0.0], "l2", None, 2, 0, options)
    folds._write(study, tmp_path)
    folds.work(str(tmp_path), "1", "2")  # every second task, from the second on
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [[task, *folds.score(study, task)] for task in (1, 3)]


@pytest.mark.slow
def test_processes_give_the_same_scores() -> None:
    one, two = (
        hm.select(patterns(), hidden=[1, 2], penalties=[0.0, 0.1], folds=2, jobs=jobs, **OPTIONS) for jobs in (1, 2)
    )
    assert one.candidates == two.candidates and one.best == two.best
    assert [row["chosen"] for row in one.table()].count(True) == 1
    assert "validation log-likelihood" in repr(one) and "<table>" in one._repr_html_()


@pytest.mark.slow
def test_more_hidden_units_are_chosen_only_if_they_help() -> None:
    """Two patterns need one hidden unit; independent columns need none of a second."""
    options = {"negative": "exact", "epochs": 60, "learning_rate": 1.0, "batch_size": 40, "initialize": "normal:0.5"}
    found = hm.select(patterns(80), hidden=[1, 4], folds=2, jobs=1, one_standard_error=True, progress=False, **options)
    assert found.best.units == 1
    independent = -5 * 0.69
    assert found.best.score > independent + 0.5


def test_the_rule_of_one_standard_error() -> None:
    best = Candidate("a", 0.0, 8, (-1.0, -1.2), (-1.0, -1.0))
    penalized = Candidate("a", 0.1, 8, (-1.1, -1.2), (-1.0, -1.0))
    small = Candidate("b", 0.0, 4, (-1.9, -2.0), (-1.0, -1.0))
    failed = Candidate("c", 0.0, 2, (float("nan"), -0.5), (-1.0, -1.0))
    every = [best, penalized, small, failed]
    assert choose(every) is best
    assert choose(every, one_standard_error=True) is penalized


def test_wrong_arguments_are_named() -> None:
    for wrong, message in (
        ({"hidden": []}, "expected at least one value of each"),
        ({"hidden": [2], "penalty": "l3"}, "unknown penalty 'l3'"),
        ({"hidden": [2], "jobs": 0}, "jobs: expected at least 1, found 0"),
        ({"hidden": [2, "bernoulli:2"]}, "found the same one twice"),
        ({"hidden": [2], "negative": hm.CD(1)}, "can be written as JSON"),
    ):
        with pytest.raises(InvalidOption, match=message):
            hm.select(patterns(), **wrong)
    with pytest.raises(InvalidData, match="found 30 folds and 40 rows"):
        hm.select(patterns(), hidden=[2], folds=30)
