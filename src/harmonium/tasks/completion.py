"""Predict the other words of a document from some of them."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import noise
from ..arrays import as_tensor
from ..errors import InvalidData
from ..likelihood.documents import replicated_softmax
from ..machines import BoltzmannMachine
from ..machines.chain import ArrayLike
from ..noise import Seed

_ELEMENTS = 2**24  # fields of hidden units computed at once
_MOST_WORDS = 2**24  # of one kind in a document


@torch.no_grad()
def next_word(machine: BoltzmannMachine, documents: ArrayLike) -> Tensor:
    """Compute ln p(w | v) of every word w as the next word of the documents v: (n, words), exactly.

    In a document of D + 1 words of which D are given, p(w | v) ∝ e^{b_w} Π_j Z_j((Wᵀv)_j + W_wj), and the
    normalization is a sum over the words (Salakhutdinov & Hinton 2009). No ln Z is needed.

    Args:
        machine: an RBM with :class:`harmonium.units.Multinomial` visible units.
        documents: word counts (n, words).

    >>> import harmonium as hm
    >>> rbm = hm.RBM(hm.units.Multinomial(3), hm.units.Bernoulli(2))
    >>> next_word(rbm, torch.tensor([[1, 0, 2]])).exp().round(decimals=3)
    tensor([[0.3330, 0.3330, 0.3330]])
    """
    rbm = replicated_softmax(machine)
    rows = rbm.checked_states(documents, "documents")
    weight = rbm.coupling.matrix()
    found = []
    for part in rows.split(max(1, _ELEMENTS // weight.numel())):
        fields = rbm.coupling.up(part).flatten(1).unsqueeze(1) + weight
        shape = (*fields.shape[:2], *rbm.hidden.shape)
        gains = rbm.hidden.log_partition(fields.view(shape))
        found.append(torch.log_softmax(rbm.visible.full(rbm.visible.bias) + gains.flatten(2).sum(-1), 1))
    return torch.cat(found)


def completion_perplexity(log_probabilities: Tensor, rest: ArrayLike) -> float:
    """Perplexity per word of the ``rest`` (n, words) of documents, given ln p(w | the other words) (n, words).

    Every word of the rest is predicted from the same given words, so models of any kind can be compared: for a
    replicated softmax ``log_probabilities`` are those of :func:`next_word`, for a topic model ln Σ_t θ_t φ_tw with
    the topics θ of the given words.

    >>> round(completion_perplexity(torch.full((2, 4), 0.25).log(), torch.ones(2, 4)), 3)
    4.0
    """
    log_probabilities = as_tensor(log_probabilities, "log_probabilities").double()
    counts = as_tensor(rest, "rest").double()
    if counts.shape != log_probabilities.shape:
        raise InvalidData(f"rest: expected the shape {tuple(log_probabilities.shape)}, found {tuple(counts.shape)}")
    total = counts.sum().item()
    if not total > 0:
        raise InvalidData("rest: expected at least one word, found none")
    seen = counts > 0  # 0 · ln 0 = 0
    return (-(counts[seen] * log_probabilities[seen]).sum() / total).exp().item()


def halves(documents: ArrayLike, *, seed: Seed = None) -> tuple[Tensor, Tensor]:
    """Split the words of each document (n, words) at random into two halves; the first gets the odd word.

    >>> first, second = halves(torch.tensor([[2, 0, 3], [1, 0, 0]]))
    >>> first.sum(1), second.sum(1), (first + second)[0]
    (tensor([3, 1]), tensor([2, 0]), tensor([2, 0, 3]))
    """
    counts = as_tensor(documents, "documents")
    counts = counts.long() if counts.dtype == torch.bool else counts
    if counts.ndim != 2 or not bool(((counts >= 0) & (counts == counts.round()) & (counts < _MOST_WORDS)).all()):
        raise InvalidData(
            f"documents: expected word counts (n, words) from 0 to {_MOST_WORDS - 1}, found the shape "
            f"{tuple(counts.shape)}" + ("" if counts.ndim != 2 else " with other numbers")
        )
    generator = noise.generator(seed)
    first = torch.zeros_like(counts)
    for row, out in zip(counts, first, strict=True):
        words = torch.repeat_interleave(torch.arange(len(row)), row.long())
        kept = words[torch.randperm(len(words), generator=generator)[: (len(words) + 1) // 2]]
        out += torch.bincount(kept, minlength=len(row)).to(out.dtype)
    return first, counts - first
