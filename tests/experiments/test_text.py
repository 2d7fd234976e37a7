"""The experiment on documents: the measures of latent Dirichlet allocation, and a run on a small generated corpus."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import experiments
import harmonium as hm
from experiments.text import lda, topics

pytest.importorskip("sklearn")
WORDS = 12


def corpus(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Documents of 10 to 40 words of one of two themes, and the themes."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, n)
    themes = np.where((np.arange(WORDS) < 6) == np.array([[True], [False]]), 10.0, 1.0)
    themes /= themes.sum(1, keepdims=True)
    rows = [random.multinomial(random.integers(10, 41), themes[k]) for k in labels]
    return torch.tensor(np.array(rows), dtype=torch.float32), torch.from_numpy(labels)


@pytest.mark.slow
def test_lda_against_the_integral_over_the_share_of_a_topic():
    rows, _ = corpus(100)
    model, few = lda.fit(rows, 2, prior=0.5, iterations=5, seed=0), rows[:4]
    prior = stats.beta(0.5, 0.5)

    def log_p(counts: np.ndarray) -> float:
        def p(angle: float) -> float:  # θ = sin², which removes the poles of the prior at 0 and 1
            share = np.sin(angle) ** 2
            words = counts @ np.log(share * model.phi[0] + (1 - share) * model.phi[1])
            return np.exp(words + 60) * prior.pdf(share) * 2 * np.sin(angle) * np.cos(angle)

        return np.log(integrate.quad(p, 1e-9, np.pi / 2 - 1e-9)[0]) - 60

    exact = torch.tensor([log_p(row.double().numpy()) for row in few])
    bound = model.bound(few)
    assert (bound < exact + 1e-6).all() and (bound > exact - 2).all()
    ratios = torch.stack([(model.sampled(few, seed) - exact).exp() for seed in range(40)])
    assert ((ratios.mean(0) - 1).abs() < 4 * ratios.std(0) / 40**0.5).all()  # unbiased
    assert model.next_word(few).exp().sum(1).tolist() == pytest.approx([1.0] * 4)


def test_per_word_is_the_ratio_of_sums_with_the_error_of_resampled_documents():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(5, 50, (300,), generator=generator).double()
    differences = 0.1 * lengths + torch.randn(300, generator=generator).double()
    found = topics.per_word(differences, lengths)
    index = torch.randint(300, (1000, 300), generator=generator)
    resampled = differences[index].sum(1) / lengths[index].sum(1)
    assert found.value == pytest.approx((differences.sum() / lengths.sum()).item())
    assert found.error == pytest.approx(resampled.std().item(), rel=0.15)


@pytest.mark.slow
def test_a_small_run(tmp_path, monkeypatch):
    def load(name: str, *, split: str, labels: bool) -> tuple[torch.Tensor, torch.Tensor]:
        return corpus(300, seed=0) if split == "train" else corpus(60, seed=1)

    monkeypatch.setattr(hm.data, "load", load)
    monkeypatch.setattr(hm.data, "info", lambda name: SimpleNamespace(has_labels=True))
    monkeypatch.setattr(hm.data, "vocabulary", lambda name: [f"w{k}" for k in range(WORDS)])
    experiments.reproduce(
        "text/topics", "quick", tmp_path / "run", data="mine", topics=4, counts="raw", epochs=40, documents=10, betas=20
    )
    verdict = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert len(verdict["claims"]) == 3
    assert 0.5 < verdict["numbers"]["average_precision"]["replicated softmax"] <= 1
    for name in ("topics.csv", "completion.csv", "perplexity.csv", "retrieval.csv", "retrieval.png"):
        assert (tmp_path / "run" / name).exists()
