"""Latent Dirichlet allocation of scikit-learn, measured like the replicated softmax.

The topics φ are the posterior means of the variational fit. Three numbers for held-out documents:

* *completion*: ln Σ_t θ_t φ_tw of every further word, with the posterior mean θ of the given words;
* *bound*: the variational lower bound of ln p(document | φ, α), in which the topics of the words are summed out;
* *sampled*: ln p(document | φ, α) by importance sampling of θ from the variational posterior. It is unbiased for p, so
  it is an underestimate of ln p on average, and closer than the bound.

scikit-learn's own ``perplexity`` also contains the divergence of the topics from their prior, which grows with the
vocabulary and not with the held-out documents; it is therefore not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import digamma, gammaln, logsumexp
from torch import Tensor

_SAMPLES = 500  # of θ for each document
_BATCH = 256


@dataclass(frozen=True)
class Lda:
    """A trained model: ``fitted`` by scikit-learn, topics φ (topics, words) and the prior α of θ."""

    fitted: object
    phi: np.ndarray
    alpha: float

    def features(self, documents: Tensor) -> Tensor:
        """The posterior mean of θ of each document, (n, topics)."""
        return torch.from_numpy(self._theta(documents))

    def next_word(self, documents: Tensor) -> Tensor:
        """ln p(w | document) of every word, (n, words)."""
        return torch.from_numpy(np.log(self._theta(documents) @ self.phi))

    def bound(self, documents: Tensor) -> Tensor:
        """The variational lower bound of ln p of each document as a sequence of words, (n,)."""
        counts, gamma = documents.double().numpy(), self._gamma(documents)
        expected = digamma(gamma) - digamma(gamma.sum(1, keepdims=True))
        words = (counts * np.log(np.exp(expected) @ self.phi)).sum(1)
        alpha = np.full_like(gamma, self.alpha)
        divergence = _log_normalizer(alpha) - _log_normalizer(gamma) + ((gamma - alpha) * expected).sum(1)
        return torch.from_numpy(words - divergence)

    def sampled(self, documents: Tensor, seed: int = 0) -> Tensor:
        """An importance-sampling estimate of ln p of each document as a sequence of words, (n,)."""
        random, counts = np.random.default_rng(seed), documents.double().numpy()
        found = []
        for row, gamma in zip(counts, self._gamma(documents), strict=True):
            log_theta = _log_dirichlet(random, gamma, _SAMPLES)
            seen = row > 0
            words = np.log(np.exp(log_theta) @ self.phi[:, seen]) @ row[seen]
            ratio = log_theta @ (self.alpha - gamma)
            normalizers = _log_normalizer(gamma) - _log_normalizer(np.full_like(gamma, self.alpha))
            found.append(logsumexp(words + ratio) - np.log(_SAMPLES) + normalizers)
        return torch.tensor(np.array(found))

    def _theta(self, documents: Tensor) -> np.ndarray:
        return self.fitted.transform(documents.double().numpy())  # type: ignore[attr-defined]

    def _gamma(self, documents: Tensor) -> np.ndarray:
        """The parameters of the variational posterior; their sum is that of the prior plus the number of words."""
        total = self.alpha * len(self.phi) + documents.double().sum(1, keepdim=True).numpy()
        return self._theta(documents) * total


def fit(documents: Tensor, topics: int, *, prior: float, iterations: int, seed: int) -> Lda:
    """Train by online variational Bayes; ``prior`` is that of θ, the prior of the topics is 0.1."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(
        topics,
        doc_topic_prior=prior,
        topic_word_prior=0.1,
        learning_method="online",
        batch_size=_BATCH,
        max_iter=iterations,
        random_state=seed,
    )
    model.fit(documents.numpy())
    return Lda(model, model.components_ / model.components_.sum(1, keepdims=True), prior)


def _log_normalizer(parameters: np.ndarray) -> np.ndarray:
    """ln of the normalization of a Dirichlet distribution: Σ ln Γ(a) - ln Γ(Σ a), over the last dimension."""
    return gammaln(parameters).sum(-1) - gammaln(parameters.sum(-1))


def _log_dirichlet(random: np.random.Generator, parameters: np.ndarray, n: int) -> np.ndarray:
    """ln of Dirichlet draws (n, k); by Γ(a) = Γ(a + 1) U^(1/a), which does not underflow for small a."""
    logs = np.log(random.standard_gamma(parameters + 1, (n, len(parameters))))
    logs += np.log(random.random((n, len(parameters)))) / parameters
    return logs - logsumexp(logs, axis=1, keepdims=True)
