"""Topics, completion and retrieval of documents."""

from __future__ import annotations

import pytest
import torch

import harmonium as hm
from harmonium import tasks

WORDS = 5


def machine() -> hm.RBM:
    rbm = hm.RBM(hm.units.Multinomial(WORDS), hm.units.Bernoulli(3)).double()
    rbm.initialize(scale=1.0, seed=0)
    rbm.visible.shift_bias(torch.linspace(-1, 1, WORDS, dtype=torch.float64))
    rbm.hidden.shift_bias(torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64))
    return rbm


def test_the_next_word_agrees_with_enumeration():
    """p(w | v) is the share of w among all documents that have the words v and one more."""
    rbm, given = machine(), torch.tensor([[1, 0, 2, 0, 0], [0, 0, 0, 0, 1]]).double()
    for row, found in zip(given, tasks.next_word(rbm, given), strict=True):
        longer = row + torch.eye(WORDS).double()
        sequences = hm.likelihood.exact(rbm, longer).per_row  # of equal length: the same ln Z
        torch.testing.assert_close(found.exp(), torch.softmax(sequences, 0))


def test_completion_perplexity():
    log_p = torch.tensor([[0.5, 0.25, 0.25, 0.0]]).log()
    assert tasks.completion_perplexity(log_p, torch.tensor([[1, 1, 0, 0]])) == pytest.approx(8**0.5)
    with pytest.raises(ValueError, match="at least one word"):
        tasks.completion_perplexity(log_p, torch.zeros(1, 4))
    with pytest.raises(ValueError, match=r"expected the shape \(1, 4\), found \(1, 3\)"):
        tasks.completion_perplexity(log_p, torch.zeros(1, 3))


def test_halves_are_random_and_complete():
    rows = torch.tensor([[10, 0, 5], [0, 1, 0]])
    first, second = tasks.halves(rows, seed=1)
    assert torch.equal(first + second, rows) and first.sum(1).tolist() == [8, 1] and (second >= 0).all()
    shares = torch.stack([tasks.halves(rows, seed=seed)[0][0] for seed in range(400)]).double().mean(0)
    assert shares.tolist() == pytest.approx([16 / 3, 0, 8 / 3], abs=0.2)


def test_topics_are_the_words_that_a_unit_makes_more_probable():
    rbm = machine()
    documents = torch.ones(4, WORDS).double()
    names = [f"w{k}" for k in range(WORDS)]
    found = tasks.topics(rbm, names, n=2, documents=documents)
    assert sorted(topic.unit for topic in found) == [0, 1, 2]
    for topic in found:
        states = torch.zeros(2, 3).double()
        states[1, topic.unit] = 1
        off, on = rbm.conserving(documents[:2]).visible_mean(states).detach()
        ratio = (on / off).log()
        assert list(topic.words) == [names[k] for k in ratio.argsort(descending=True)[:2]]
        assert list(topic.lowered) == [names[k] for k in ratio.argsort()[:2]]
        assert topic.activity == pytest.approx(rbm.hidden_mean(documents)[:, topic.unit].mean().item())
    spread = [sum(w * w for w in t.weights) for t in tasks.topics(rbm, names, n=WORDS, documents=documents)]
    assert spread == sorted(spread, reverse=True)


@pytest.mark.parametrize(
    ("names", "n", "words"), [(["a"] * 4, 2, "expected 5 words"), (["a"] * 5, 6, "expected 1 to 5 words, found 6")]
)
def test_invalid_topics(names, n, words):
    with pytest.raises(ValueError, match=words):
        tasks.topics(machine(), names, n=n)


def test_retrieval_agrees_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    generator = torch.Generator().manual_seed(0)
    rows, queries = torch.randn(60, 4, generator=generator), torch.randn(20, 4, generator=generator)
    labels, wanted = (torch.randint(3, (n,), generator=generator) for n in (60, 20))
    found = tasks.retrieval(rows, labels, queries, wanted)
    similarity = torch.nn.functional.cosine_similarity(queries[:, None], rows[None], dim=-1)
    expected = [metrics.average_precision_score(labels == k, row) for k, row in zip(wanted, similarity, strict=True)]
    assert found.average_precision == pytest.approx(sum(expected) / 20, abs=1e-6)
    best = similarity.topk(4).indices
    assert found.retrieved.tolist() == [1, 2, 4, 8, 16, 32, 60]
    assert found.precision[2].item() == pytest.approx((labels[best] == wanted[:, None]).double().mean().item())
    assert found.recall[-1].item() == pytest.approx(1.0)


def test_invalid_retrieval():
    with pytest.raises(ValueError, match="query_labels: expected one for each of 2 rows"):
        tasks.retrieval(torch.ones(3, 2), [0, 1, 1], torch.ones(2, 2), [0])
    with pytest.raises(ValueError, match="expected 2 features, found 3"):
        tasks.retrieval(torch.ones(3, 2), [0, 1, 1], torch.ones(1, 3), [0])
