"""Multinomial units: word counts of a document (replicated softmax)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import InvalidData, InvalidOption
from . import lattice
from .base import Unit
from .layer import LayerOptions
from .probabilities import sum_of_others
from .support import MOST_COUNTS, Counts, Support


class Multinomial(Unit):
    """Vectors x of K counts with Σx = D and -U(x) = b·x + ln(D! / Πx_k!): sums of D tied softmax units.

    Used for word counts of documents, and other compositions of a total.

    With ``total=None`` each row has its own D: there is one machine for each document length, and :meth:`conserving`
    takes the lengths from the documents. The hidden bias proportional to D of the replicated softmax (Salakhutdinov &
    Hinton 2009) is part of the weights: c_j Σ_k x_k adds c_j to each W_kj.

    >>> unit = Multinomial(3, total=6)
    >>> unit.mean(torch.zeros(1, 3))
    tensor([[2., 2., 2.]], grad_fn=<MulBackward0>)
    """

    support: Support = Counts("counts")

    def __init__(self, shape: int | Iterable[int], *, total: int | None = None, **common: Unpack[LayerOptions]) -> None:
        if total is not None and not 1 <= total <= MOST_COUNTS:
            raise InvalidOption(f"multinomial: expected a total from 1 to {MOST_COUNTS:,}, found {total}")
        options = {} if total is None else {"total": total}
        super().__init__(shape, **common, options=options)
        size = self.shape[-1]
        what = f"{size} non-negative integer counts of sum " + (
            f"up to {MOST_COUNTS:,}" if total is None else f"{total}"
        )
        self.support = Counts(what, size, total)
        self.total: float | Tensor | None = total

    @property
    def conserves(self) -> bool:
        return "total" not in self.options

    def conserve(self, x: Tensor) -> None:
        self.total = x.sum(-1, keepdim=True)

    @property
    def softmax(self) -> bool:
        return True

    def log_weight(self, x: Tensor) -> Tensor:
        return (self.bias * x).sum(-1) + log_multinomial(x)

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        if A is not None:
            return lattice.log_sum(self._terms(B, A)[1])
        return self._total(B).squeeze(-1) * torch.logsumexp(self.bias + B, -1)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        if A is not None:
            states, exponents = self._terms(B, A)
            return torch.softmax(exponents, -1) @ states
        return self._total(B) * torch.softmax(self.bias + B, -1)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        if A is not None:
            states, exponents = self._terms(B, A)
            p = torch.softmax(exponents, -1).unsqueeze(-1)
            center = (p * states).sum(-2, keepdim=True)
            return (p * (states - center).square()).sum(-2)
        p = torch.softmax(self.bias + B, -1)
        return self._total(B) * p * sum_of_others(p)

    def mode(self, B: Tensor) -> Tensor:
        """The most probable counts, computed exactly; ties are resolved in favor of the first words.

        Adding a count to word k multiplies the weight of x by p_k/(x_k + 1). This factor decreases with x_k, so the
        mode contains the D largest factors (Finucan 1964): x_k = floor(λ p_k), with λ such that Σx = D.
        """
        p = torch.softmax((self.bias + B).detach().to(torch.float64), -1)
        total = self._total(B).to(torch.float64).round()
        # Σ floor(λp) grows with λ, is 0 at λ = 0 and above D at λ = D + K + 1: bisect to neighboring floats
        low, high = torch.zeros_like(total), total + (p.shape[-1] + 1)
        for _ in range(64):
            middle = (low + high) / 2
            fits = (middle * p).floor().sum(-1, keepdim=True) <= total
            low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
        x = (low * p).floor()
        tied = (high * p).floor() > x  # the words with factor 1/λ: any of them may take the remaining counts
        missing = total - x.sum(-1, keepdim=True)
        return (x + (tied & (tied.cumsum(-1) <= missing))).to(B.dtype)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        if A is not None:
            states, exponents = self._terms(B, A)
            return noise.categorical(torch.softmax(exponents.detach(), -1), generator) @ states
        return sample_counts(torch.softmax(self.bias + B, -1).detach(), self._total(B), generator)

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """b = ln of the word frequencies, with ``pseudocount`` counts (default 1) of each word added."""
        extra = 1.0 if pseudocount is None else pseudocount
        logs = (self.observations(data).to(torch.float64).sum(0) + extra).log()
        self.bias.data.copy_(logs - logs.mean(-1, keepdim=True))

    def _total(self, B: Tensor) -> Tensor:
        if self.total is None:
            raise InvalidData(
                "multinomial: the number of counts is not known; pass total=… to the unit, or start from documents"
            )
        return torch.as_tensor(self.total, dtype=B.dtype, device=B.device).expand(*B.shape[:-1], 1)

    def _terms(self, B: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
        """All count vectors (states, K) and their exponents: x_k² ≠ x_k, so A requires an explicit sum."""
        states = self.support.states()
        if states is None:
            raise InvalidData("total: expected a fixed number of counts for a quadratic term, found None")
        states = states.to(B)
        return states, (self.bias + B) @ states.T - A @ states.square().T / 2 + log_multinomial(states)


def log_multinomial(x: Tensor) -> Tensor:
    """ln D!/Πx_k! of counts (..., K), computed in float64 and returned in the type of ``x``: (...)."""
    x64 = x.to(torch.float64)
    return (torch.lgamma(x64.sum(-1) + 1) - torch.lgamma(x64 + 1).sum(-1)).to(x.dtype)


def sample_counts(p: Tensor, total: Tensor, generator: Generator | None) -> Tensor:
    """Multinomial draws of ``total`` (..., 1) counts with probabilities ``p`` (..., K): (..., K).

    Draws word by word, or, if there are many more counts than words, by one binomial for each word. Sums are computed
    in float64, because words may be rare and the conditional probability of a word given others may be close to one.
    """
    drawn = _by_word if float(total.sum()) <= _WORDS_PER_ENTRY * p.numel() else _by_binomials
    return drawn(p, total, generator).to(p.dtype)


_WORDS_PER_ENTRY = 4  # number of words drawn one by one per entry of the table of counts; beyond, binomials are faster


def _by_word(p: Tensor, total: Tensor, generator: Generator | None) -> Tensor:
    """Draw every word by inversion of the cumulative distribution; all rows are searched as one table."""
    size = p.shape[-1]
    ends = p.flatten().cumsum(0, dtype=torch.float64)
    last = ends[size - 1 :: size]
    first = torch.cat([last.new_zeros(1), last[:-1]])
    owner = torch.arange(len(last), device=p.device).repeat_interleave(total.flatten().round().long())
    # in (0, 1], so that words of probability zero are not drawn; away from 0 by more than the rounding of the table
    u = (1 - noise.uniform(ends.new_empty(len(owner)), generator)).clamp_min_(len(last) * 2.0**-50)
    words = torch.searchsorted(ends, torch.lerp(first[owner], last[owner], u))
    return torch.bincount(words.clamp_(owner * size, owner * size + size - 1), minlength=p.numel()).view(p.shape)


def _by_binomials(p: Tensor, total: Tensor, generator: Generator | None) -> Tensor:
    """Draw x_k given x_1 … x_{k-1}, which is binomial, for each k."""
    p, left = p.to(torch.float64), total.squeeze(-1).to(torch.float64)
    # 1 - p_1 - … - p_{k-1}, summed from the right to avoid cancellation
    rest = p.flip(-1).cumsum(-1).flip(-1)
    ratio = torch.where(rest > 0, p / rest, 0.0).clamp(0.0, 1.0)
    counts = torch.empty_like(p)
    for k in range(p.shape[-1] - 1):
        counts[..., k] = torch.binomial(left.contiguous(), ratio[..., k].contiguous(), generator=generator)
        left = left - counts[..., k]
    counts[..., -1] = left
    return counts
