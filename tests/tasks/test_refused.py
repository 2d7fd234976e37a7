"""Arguments of the applications that cannot be used: one sentence that names the argument."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pytest
import torch

import harmonium as hm
from harmonium import tasks
from harmonium.errors import HarmoniumError

TABLE = hm.data.RatingTable.of([(f"u{k % 7}", f"m{k % 5}", k % 3 + 1) for k in range(35)])
RATED = hm.RBM(hm.units.Ratings(TABLE.shape), 2)
WORDS = hm.data.Documents(("one",), torch.ones(1, 3, dtype=torch.int32), ("sun", "moon", "star"))
PEOPLE = pandas.DataFrame({"age": [20.5, 30.0, 41.0], "job": list("abc")})
ENCODER = hm.data.TableEncoder.fit(PEOPLE)
WINDOWS = hm.ConditionalRBM(6, 3, (2, 6))
LONG = "x" * 5000 + ".txt"

REFUSED = {
    "pairs instead of triples": (lambda: hm.data.RatingTable.of([("a", "b")]), "ratings: expected triples"),
    "a rating that is no number": (lambda: hm.data.RatingTable.of([("a", "b", "good")]), "ratings: expected triples"),
    "infinite ratings": (lambda: hm.data.RatingTable.of([("a", "b", math.inf), ("a", "c", 1)]), "ratings: expected"),
    "a falling scale": (lambda: hm.data.RatingTable.of([("a", "b", 1)], values=[3, 1]), "values: expected two"),
    "a user above": (lambda: TABLE.one_hot([99]), r"users: expected whole numbers \(m,\) from 0 to 6"),
    "a user below": (lambda: TABLE.one_hot([-1]), "users: expected whole numbers"),
    "a subset by fractions": (lambda: TABLE.subset([0.5]), "index: expected whole numbers"),
    "a list of numbers": (lambda: TABLE.decode([[1, 2]]), r"rows: expected shape \(n, 5, 3\)"),
    "no ratings": (lambda: tasks.predict(RATED, None), "ratings: expected rows of numbers"),
    "one number": (lambda: tasks.predict(RATED, 3), "ratings: expected a RatingTable or rows"),
    "pairs of text": (lambda: tasks.predict(RATED, TABLE, [["a", "b"]]), "pairs: expected"),
    "a fraction of items": (lambda: tasks.recommend(RATED, TABLE, 2.5), "n: expected a whole number"),
    "an estimate with NaN": (lambda: tasks.score_ratings(TABLE, [math.nan] * 35), "estimate: expected finite"),
    "one document": (lambda: tasks.halves([1, 2]), "documents: expected word counts"),
    "negative counts": (lambda: tasks.halves([[-1, 2]]), "documents: expected word counts"),
    "endless documents": (lambda: tasks.halves(np.full((1, 3), 1e38)), "documents: expected word counts"),
    "endless training": (
        lambda: hm.fit(hm.RBM(hm.units.Multinomial(3), 2), np.full((9, 3), 1e38), epochs=1, progress=False),
        "counts of sum up to 16,777,216, found",
    ),
    "an endless text": (lambda: WORDS.decode([[1e38, 0, 0]]), "counts: expected numbers below"),
    "a fraction of words": (lambda: tasks.topics(hm.RBM(3, 2), ("a", "b", "c"), 1.5), "n: expected a whole number"),
    "a negative rate": (
        lambda: tasks.finetune(hm.RBM(3, 2), torch.eye(3), [0, 1, 0], learning_rate=-1),
        'learning_rate: expected a positive number or "auto", found -1',
    ),
    "fewer than no chains": (
        lambda: hm.DeepBeliefNetwork.of([3, 2, 2]).sample(-1, start=torch.eye(3)),
        "n: expected at least 1, found -1",
    ),
    "no outputs": (lambda: tasks.to_sequential(hm.RBM(3, 2), -1), "outputs: expected at least 1"),
    "a network with a context": (lambda: tasks.to_sequential(WINDOWS), "expected an RBM or a deep belief network"),
    "a fraction of frames": (lambda: tasks.forecast(WINDOWS, torch.ones(2, 6), 1.5), "frames: expected a whole"),
    "windows of text": (lambda: tasks.forecast(WINDOWS, "text", 3), "start: expected rows of numbers"),
    "complex frames": (lambda: hm.Windows(np.ones((9, 2)) * 1j, 2), "sequence 0: expected real numbers"),
    "contexts of text": (lambda: WINDOWS.given("text"), "context: expected rows of numbers"),
    "rows without values": (lambda: hm.Incomplete(torch.zeros(3, 0)), "data: expected rows of real numbers"),
    "labels of text": (lambda: hm.Labeled(torch.zeros(2, 3), ["a", "b"]), "labels: expected"),
    "other frames": (
        lambda: tasks.LinearAutoregression.fitted(torch.ones(3, 2), torch.ones(4, 2, 2)),
        "v, context: expected the same number of rows",
    ),
    "states of another table": (lambda: ENCODER.probabilities([[1.0]]), r"means: expected shape \(n, 4\)"),
    "rows outside of the table": (lambda: hm.data.TableEncoder.fit(PEOPLE, rows=[99]), "rows: expected row numbers"),
    "cells that are lists": (lambda: hm.data.TableEncoder.fit(pandas.DataFrame({"a": [[1], [2]]})), "expected numbers"),
    "cells of another kind": (
        lambda: ENCODER.complete(PEOPLE.assign(age="old"), torch.zeros(3, 4)),
        "column 'age': expected float64",
    ),
    "fewer states": (lambda: ENCODER.complete(PEOPLE, torch.zeros(2, 4)), "states: expected 3 rows, as in the table"),
    "no encoder": (lambda: hm.data.TableEncoder.load("none.json"), "none.json: expected the description of a table"),
    "an empty encoder": (lambda: hm.data.TableEncoder.from_dict({"format": 1}), "table: expected the columns"),
    "a long name of documents": (lambda: hm.data.read_documents(LONG), "found no file"),
    "a long name of frames": (lambda: hm.data.read_frames(LONG), "found no file|file extension"),
    "a long name of a table": (lambda: hm.data.read_table(LONG[:-3] + "csv"), "found no file"),
    "a long name of ratings": (lambda: hm.data.read_ratings(LONG[:-3] + "csv"), "found no file"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind):
    call, message = REFUSED[kind]
    with pytest.raises(HarmoniumError, match=message) as caught:
        call()
    assert len(str(caught.value)) < 1500


def test_a_table_of_ratings_is_a_sequence():
    assert len(list(TABLE)) == len(TABLE) == 7
    assert torch.equal(TABLE[-1], TABLE[6]) and TABLE[-1].sum() == 5
    assert TABLE.subset(TABLE.user == 2).user.unique().tolist() == [2]
    with pytest.raises(IndexError):
        TABLE[7]


def test_words_that_are_there_or_not():
    first, second = tasks.halves(torch.ones(1, 3, dtype=torch.bool))
    assert (first + second).tolist() == [[1, 1, 1]]
    assert WORDS.decode(torch.tensor([[True, False, True]])) == ["sun star"]


def test_an_impossible_word_has_infinite_perplexity():
    assert tasks.completion_perplexity(torch.tensor([[-1e9, 0.0]]), [[1, 0]]) == math.inf
