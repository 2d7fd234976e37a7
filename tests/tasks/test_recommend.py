"""Predicted ratings equal enumeration; scores equal hand-computed values; recommendations are in the user's names."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

import harmonium as hm
from harmonium.data import RatingTable
from harmonium.errors import InvalidData, InvalidOption
from harmonium.tasks import predict, rating_probabilities, recommend, recommendation, score_ratings

ITEMS, VALUES = 4, 3
HIDDEN = {
    "bernoulli": lambda: hm.units.Bernoulli(3),
    "gaussian": lambda: hm.units.Gaussian(2),
    "spin": lambda: hm.units.Spin((2, 2)),
    "potts": lambda: hm.units.Potts((2, 3)),
}


def machine(hidden="bernoulli", dtype=torch.float64):
    rbm = hm.RBM(hm.units.Ratings((ITEMS, VALUES)), HIDDEN[hidden]()).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in (rbm.coupling.weight, rbm.visible.bias, rbm.hidden.bias):
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return rbm


def rows():
    v = torch.zeros(3, ITEMS, VALUES)
    v[0, 0, 2] = v[0, 2, 1] = v[1, 3, 0] = 1  # the last user has rated nothing
    return v


@pytest.mark.fast_cases(3)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_probabilities_equal_enumeration(hidden):
    """p(rating of q | the others) from the joint probabilities of the user's machine with q added."""
    rbm, v = machine(hidden), rows()
    found = rating_probabilities(rbm, v)
    assert found.shape == (3, ITEMS, VALUES)
    for user, item in itertools.product(range(3), range(ITEMS)):
        each = v[user].expand(VALUES, -1, -1).clone()
        each[:, item] = torch.eye(VALUES)
        energies = [rbm.free_energy(row[None]) for row in each] if hidden == "gaussian" else None
        if energies is not None:  # ln Z is common to all values, because the rated items are the same
            expected = torch.softmax(-torch.cat(energies), 0)
        else:
            expected = torch.softmax(rbm.log_probability(each), 0)
        torch.testing.assert_close(found[user, item], expected)


@pytest.mark.parametrize("ends", [(True, True), (False, True), (True, False)])
def test_conditional_probabilities_equal_enumeration(ends):
    """Given which items are rated, including those whose rating is not known."""
    rbm = hm.ConditionalRBM(
        hm.units.Ratings((ITEMS, VALUES)), hm.units.Bernoulli(2), ITEMS, to_visible=ends[0], to_hidden=ends[1]
    ).double()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in rbm.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    v, context = rows(), torch.rand(3, ITEMS, generator=generator)
    found = rating_probabilities(rbm, v, context=context)
    for user, item in itertools.product(range(3), range(ITEMS)):
        each = v[user].expand(VALUES, -1, -1).clone()
        each[:, item] = torch.eye(VALUES)
        given = rbm.given(context[user : user + 1].expand(VALUES, -1))
        torch.testing.assert_close(found[user, item], torch.softmax(-given.free_energy(each), 0))
    with pytest.raises(InvalidOption, match=r"context: expected rows of shape \(3, 4\), found none"):
        predict(rbm, v)
    with pytest.raises(InvalidOption, match="context: expected none"):
        predict(machine(), v, context=context)


def test_pairs_and_chunks(monkeypatch):
    rbm, v = machine(), rows()
    pairs = torch.tensor([[2, 1], [0, 3], [0, 0], [1, 1], [0, 3]])
    every = rating_probabilities(rbm, v)
    some = rating_probabilities(rbm, v, pairs)
    torch.testing.assert_close(some, every[pairs[:, 0], pairs[:, 1]])
    monkeypatch.setattr(recommendation, "_MOST_ELEMENTS", 10)
    torch.testing.assert_close(rating_probabilities(rbm, v, pairs), some)


def test_own_rating_is_left_out():
    """The prediction for an item does not depend on the user's rating of it."""
    rbm, v = machine(), rows()
    other = v.clone()
    other[0, 0] = torch.eye(VALUES)[0]
    torch.testing.assert_close(predict(rbm, v, [[0, 0]]), predict(rbm, other, [[0, 0]]))
    assert not torch.allclose(predict(rbm, v, [[0, 1]]), predict(rbm, other, [[0, 1]]))


def test_mean_field():
    """Exact without couplings; close for weak ones, with an error of second order."""
    rbm, v = machine(), rows()
    errors = []
    weight = rbm.weight.detach().clone()
    for scale in (0.2, 0.1):
        with torch.no_grad():
            rbm.weight.copy_(scale * weight)
        errors.append((predict(rbm, v, method="mean-field") - predict(rbm, v)).abs().max().item())
    assert 0 < errors[1] < errors[0] / 3 < 0.02
    with torch.no_grad():
        rbm.weight.zero_()
    torch.testing.assert_close(predict(rbm, v, method="mean-field"), predict(rbm, v))


def table():
    ratings = [("u7", "b", 4.5), ("u7", "a", 1.0), ("u10", "c", 3.0), ("u10", "d", 1.5), ("u10", "a", 2.0)]
    return RatingTable.of(ratings, values=(1.0, 1.5, 2.0, 3.0, 4.5))


def test_table_and_rows_agree():
    known = table()
    rbm = hm.RBM(hm.units.Ratings(known.shape), hm.units.Bernoulli(2))
    rbm.initialize(known.one_hot(), scale=1.0, seed=0)
    by_rows = predict(rbm, known.one_hot(), values=known.values)
    torch.testing.assert_close(predict(rbm, known), by_rows)
    pairs = torch.cat([known.pairs, torch.tensor([[1, 1]])])
    torch.testing.assert_close(predict(rbm, known, pairs), by_rows[pairs[:, 0], pairs[:, 1]])


def test_recommendations():
    known = table()
    rbm = hm.RBM(hm.units.Ratings(known.shape), hm.units.Bernoulli(2))
    rbm.initialize(known.one_hot(), scale=1.0, seed=0)
    expected = predict(rbm, known)
    everyone = recommend(rbm, known)
    assert [found.user for found in everyone] == list(known.users)
    for k, found in enumerate(everyone):
        rated = {known.items[i] for u, i in known.pairs.tolist() if u == k}
        assert set(found.items) == set(known.items) - rated
        assert list(found.expected) == sorted(found.expected, reverse=True)
        for item, value in zip(found.items, found.expected, strict=True):
            assert value == pytest.approx(expected[k, known.items.index(item)].item(), abs=1e-6)
    assert recommend(rbm, known, 1, users=["u7"])[0].items == everyone[known.users.index("u7")].items[:1]
    equal = recommend(rbm, replace(known, values=(1.0, 2.0, 3.0, 4.0, 5.0)))
    by_rows = recommend(rbm, known.one_hot())  # users and items are numbers, and the scale is 1 to 5
    assert [[known.items[int(i)] for i in found.items] for found in by_rows] == [list(f.items) for f in equal]
    with pytest.raises(InvalidOption, match="unknown user 'u8'"):
        recommend(rbm, known, users=["u8"])
    with pytest.raises(InvalidOption, match="n: expected at least 1, found 0"):
        recommend(rbm, known, 0)


# -- scores ---------------------------------------------------------------------------------------------------------


def test_scores_by_hand():
    held_out = RatingTable.of(
        [("a", "x", 5), ("a", "y", 3), ("a", "z", 4), ("b", "x", 1), ("b", "y", 2)], values=range(1, 6)
    )
    predicted = torch.tensor([3.0, 4.0, 3.5, 2.0, 1.0])  # ranks y, z, x for a, and x, y for b
    scores = score_ratings(held_out, predicted, k=2)
    assert scores.rmse == pytest.approx(math.sqrt((4 + 1 + 0.25 + 1 + 1) / 5))
    assert scores.mae == pytest.approx((2 + 1 + 0.5 + 1 + 1) / 5)
    discount = 1 / math.log2(3)
    ndcg = [(3 + 7 * discount) / (15 + 7 * discount), (0 + 1 * discount) / 1]
    assert scores.ndcg == pytest.approx(sum(ndcg) / 2)
    assert scores.precision == pytest.approx((1 / 2 + 0) / 2)  # of the first two of a, only z is relevant
    assert scores.recall == pytest.approx(1 / 2)  # b has no relevant item
    assert scores.relevant == 4.0


def test_perfect_and_constant_predictions():
    generator = torch.Generator().manual_seed(0)
    ratings = [(u, i, int(torch.randint(1, 6, (1,), generator=generator))) for u in range(30) for i in range(12)]
    held_out = RatingTable.of(ratings, values=range(1, 6))
    best = score_ratings(held_out, held_out.ratings, k=5)
    assert (best.rmse, best.mae, best.ndcg) == (0.0, 0.0, pytest.approx(1.0))
    constant = score_ratings(held_out, torch.full((len(ratings),), 3.0), k=5)
    random = [score_ratings(held_out, torch.rand(len(ratings), generator=generator), k=5) for _ in range(60)]
    for name in ("ndcg", "precision", "recall"):  # ties are scored as the mean of all orders
        mean = sum(getattr(one, name) for one in random) / len(random)
        assert getattr(constant, name) == pytest.approx(mean, abs=0.02)
        assert getattr(best, name) > getattr(constant, name) + 0.1


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: predict(hm.RBM(4, 2), torch.zeros(1, 4)), "ratings as visible units, found bernoulli"),
        (lambda: predict(machine(), rows(), [[3, 0]]), "positions of users from 0 to 2, found 3"),
        (lambda: predict(machine(), rows(), [[0, 4]]), "positions of items from 0 to 3, found 4"),
        (lambda: predict(machine(), rows(), [[0.5, 0.0]]), "pairs: expected whole numbers"),
        (lambda: predict(machine(), rows(), values=[1, 2]), "values: expected 3 values of the scale, found 2"),
        (lambda: predict(machine(), rows(), method="guess"), "unknown method 'guess'"),
        (lambda: predict(machine(), 2 * rows(), [[0, 1]]), "one-hot vectors of 3 values"),
        (lambda: score_ratings(table(), [1.0]), "estimate: expected 5 predictions, one for each rating, found 1"),
        (lambda: score_ratings(table(), torch.ones(5), k=0), "k: expected at least 1, found 0"),
    ],
)
def test_errors(call, words):
    with pytest.raises((InvalidData, InvalidOption), match=words):
        call()
