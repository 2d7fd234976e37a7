"""Binomial units: the sum of N tied binary units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from .. import noise
from ..checks import whole
from ..errors import InvalidOption
from . import lattice
from .base import Unit
from .layer import LayerOptions
from .support import MOST_COUNTS, Integers, Support, counts


class Binomial(Unit):
    """Binomial units x ∈ {0, …, N} with -U(x) = b x + ln C(N, x).

    Used for counts with a known maximum, such as successes in N trials, and for N tied copies of a Bernoulli unit.
    ln Z = N ln(1 + e^{b+B}), the mean is N σ(b + B).

    >>> Binomial(1, trials=4).mean(torch.zeros(1, 1))
    tensor([[2.]], grad_fn=<MulBackward0>)
    """

    support: Support = counts

    def __init__(self, shape: int | Iterable[int], *, trials: int, **common: Unpack[LayerOptions]) -> None:
        trials = whole("trials", trials)
        if not 1 <= trials <= MOST_COUNTS:
            raise InvalidOption(f"binomial: expected from 1 to {MOST_COUNTS:,} trials, found {trials}")
        super().__init__(shape, **common, options={"trials": trials})
        self.trials = trials
        self.support = Integers(f"integers from 0 to {trials}", trials)

    def log_weight(self, x: Tensor) -> Tensor:
        return self.bias * x + log_binomial(self.trials, x)

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        if A is None:
            return self.trials * softplus(self.bias + B, threshold=50.0)
        return lattice.log_sum(self._terms(B, A)[1])

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        if A is None:
            return self.trials * torch.sigmoid(self.bias + B)
        return lattice.mean(*self._terms(B, A))

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        if A is None:
            field = self.bias + B
            return self.trials * torch.sigmoid(field) * torch.sigmoid(-field)
        return lattice.variance(*self._terms(B, A))

    def mode(self, B: Tensor) -> Tensor:
        p = torch.sigmoid((self.bias + B).detach().to(torch.float64))  # float32 would be off by one for many trials
        return ((self.trials + 1) * p).floor().clamp_max(self.trials).to(B.dtype)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        if A is not None:
            return lattice.sample(*self._terms(B, A), generator)
        return sum_of_bernoulli((self.bias + B).detach(), self.trials, generator)

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """b = logit(⟨x⟩/N), with ``pseudocount`` (default 1) successes and failures added."""
        extra = 1.0 if pseudocount is None else pseudocount
        data = self.observations(data)
        mean = (data.to(torch.float64).sum(0) + extra) / (len(data) * self.trials + 2 * extra)
        self.bias.data.copy_(torch.logit(mean))

    def _terms(self, B: Tensor, A: Tensor | None) -> tuple[Tensor, Tensor]:
        values = torch.arange(self.trials + 1, dtype=B.dtype, device=B.device)
        return values, lattice.terms(values, log_binomial(self.trials, values), self.bias + B, A)


def log_binomial(trials: int, x: Tensor) -> Tensor:
    """ln C(N, x), computed in float64 and returned in the type of ``x``."""
    x64 = x.to(torch.float64)
    top = torch.lgamma(torch.tensor(trials + 1.0, dtype=torch.float64, device=x.device))
    return (top - torch.lgamma(x64 + 1) - torch.lgamma(trials - x64 + 1)).to(x.dtype)


def sum_of_bernoulli(field: Tensor, trials: int, generator: Generator | None) -> Tensor:
    """Draw from Binomial(N, σ(field)): as N Bernoulli draws for small N, otherwise by torch's binomial sampler.

    The binomial sampler draws the rarer outcome, because σ(field) rounds to one where σ(-field) is still precise.

    >>> sum_of_bernoulli(torch.tensor([40.0, -40.0]), 20, None)
    tensor([20.,  0.])
    """
    if trials > 16:
        rare = torch.sigmoid(-field.abs()).to(torch.float64)
        count = torch.binomial(torch.full_like(rare, trials), rare, generator=generator).to(field.dtype)
        return torch.where(field > 0, trials - count, count)
    p = torch.sigmoid(field)
    total = noise.bernoulli(p, generator)
    coin = torch.empty_like(p)
    for _ in range(trials - 1):
        total += noise.bernoulli_(p, coin, generator)
    return total
