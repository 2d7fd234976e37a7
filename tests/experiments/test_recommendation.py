"""Experiments on ratings: their parts on known cases, and small runs."""

from __future__ import annotations

import pytest
import torch
from record_helpers import check_left_behind

import harmonium as hm
from experiments import Record
from experiments.recommendation import baselines, generated, movielens
from harmonium.data import RatingTable
from harmonium.machines import enumeration


def table(users: int = 30, items: int = 12, seed: int = 0) -> tuple[RatingTable, torch.Tensor]:
    """Ratings that are a sum of a user's and an item's effect, without noise, on a scale with many values."""
    draw = torch.Generator().manual_seed(seed)
    effects = torch.randint(3, (users, 1), generator=draw) + torch.randint(3, (1, items), generator=draw)
    known = torch.rand(users, items, generator=draw) < 0.6
    ratings = [(u, i, float(effects[u, i])) for u, i in known.nonzero().tolist()]
    return RatingTable.of(ratings, users=range(users), items=range(items), values=range(5)), effects.double()


def test_biases_find_additive_effects():
    known, effects = table()
    every = torch.cartesian_prod(torch.arange(30), torch.arange(12))
    found = baselines.Biases.fit(known, 1e-6).predict(every)
    torch.testing.assert_close(found, effects.flatten(), rtol=0, atol=0.02)
    shrunk = baselines.Biases.fit(known, 1e6).predict(every)
    torch.testing.assert_close(shrunk, known.ratings.mean().expand(len(every)), rtol=0, atol=0.01)


def test_factors_find_a_product():
    draw = torch.Generator().manual_seed(0)
    left, right = (torch.randint(2, (n,), generator=draw) * 2 - 1 for n in (40, 20))
    known = torch.rand(40, 20, generator=draw) < 0.7
    ratings = [(u, i, float(3 + left[u] * right[i])) for u, i in known.nonzero().tolist()]
    made = RatingTable.of(ratings, users=range(40), items=range(20), values=range(1, 6))
    biases = baselines.Biases.fit(made, 1e6)
    hidden = (~known).nonzero()
    found = baselines.Factors.fit(made, 1, 1e-3, biases).predict(hidden)
    expected = (3 + left[hidden[:, 0]] * right[hidden[:, 1]]).double()
    assert (found - expected).abs().max() < 0.2


def test_item_means():
    made = RatingTable.of([(1, "a", 1), (2, "a", 2), (1, "b", 5)], items=["a", "b", "c"], values=range(1, 6))
    pairs = torch.tensor([[1, 0], [0, 1], [0, 2]])
    torch.testing.assert_close(baselines.item_means(made, pairs), torch.tensor([1.5, 5.0, 8 / 3], dtype=torch.float64))


@pytest.mark.slow
def test_generated_ratings_have_the_distribution_of_the_known_machine():
    """The frequencies of the ratings of a pair of items, against enumeration of the machine of the two."""
    rbm = generated.machine(2, 3, seed=0)
    made = generated.ratings_of(rbm, 6000, 2, seed=1)
    row = torch.ones(1, 2, 5) / 5
    small = hm.RBM(hm.units.Ratings((2, 5), complete=True, bias=rbm.visible.bias), hm.units.Bernoulli(3), rbm.coupling)
    states, log_p = enumeration.distribution(small)
    assert rbm.conserving(row).log_partition() == pytest.approx(small.log_partition(), abs=1e-5)
    codes = made.level.view(-1, 2)
    order = made.item.view(-1, 2).argsort(1)
    first, second = codes.gather(1, order).T
    share = torch.bincount(first + 5 * second, minlength=25) / 6000
    which = (states.argmax(-1) * torch.tensor([1, 5])).sum(1)
    p = torch.zeros(25, dtype=torch.float64).index_put_((which,), log_p.exp())
    assert ((share - p).abs() < 4.5 * (p * (1 - p) / 6000).sqrt() + 1e-4).all()


@pytest.mark.slow
def test_generated(tmp_path, monkeypatch):
    monkeypatch.setattr(generated, "_TEST_USERS", 50)
    record = Record("recommendation/generated", "quick", tmp_path)
    generated.run(record, "quick", users=60, items=8, each=5, hidden=2, epochs=2)
    record.close()
    check_left_behind(record, "generated")


def test_movielens_is_found_or_described(tmp_path, monkeypatch):
    monkeypatch.setenv("HARMONIUM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(hm.errors.DataNotFound, match=r"u\.data or ml-100k\.inter in .*movielens-100k"):
        movielens.load()
    folder = tmp_path / movielens.FOLDER
    folder.mkdir()
    lines = [f"{u}\t{i}\t{1 + (u + i) % 5}\t0" for u in range(20) for i in range(10)]
    (folder / "u.data").write_text("\n".join(lines))
    with pytest.raises(hm.errors.InvalidData, match="expected 100000 ratings, found 200"):
        movielens.load()
    monkeypatch.setattr(movielens, "_RATINGS", 200)
    made, fold = movielens.load()
    assert fold.bincount().tolist() == [40] * 5
    assert {made.users[u] for u in made.user[fold == 0].tolist()} == {
        "0",
        "1",
        "2",
        "3",
    }  # the first fifth of the lines


@pytest.mark.slow
def test_movielens_runs(tmp_path, monkeypatch):
    made, _ = table(40, 15)
    fold = torch.arange(len(made.user)) % 5
    monkeypatch.setattr(movielens, "load", lambda: (made, fold))
    record = Record("recommendation/movielens", "quick", tmp_path)
    movielens.run(record, "quick", folds=2, epochs=2, hidden=3)
    record.close()
    assert {"folds.csv", "movielens.csv", "validation.csv", "verdict.json"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert all(claim.holds is None for claim in record.claims)  # two folds of five
