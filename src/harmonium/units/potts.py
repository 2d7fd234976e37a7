"""Potts (softmax) units: one-hot vectors of q states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import torch
from torch import Generator, Tensor

from .. import kernels, noise
from ..errors import InvalidOption
from .base import Unit
from .layer import LayerOptions
from .probabilities import softmax, sum_of_others
from .support import OneHot, Support


class Potts(Unit):
    """Softmax units: x is a one-hot vector of q states, -U(x) = b·x; the shape is (sites…, q).

    Used for sequences of letters (proteins, RNA, DNA), labels, and other categories with equally many states per site.
    ln Z = ln Σ_k e^{b_k + B_k}, the mean is the softmax of b + B.

    >>> Potts((1, 4)).mean(torch.zeros(2, 1, 4))[0]
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]], grad_fn=<SelectBackward0>)
    """

    support: Support = OneHot("one-hot vectors")
    samples_from_mean = True

    def __init__(self, shape: int | Iterable[int], **common: Unpack[LayerOptions]) -> None:
        super().__init__(shape, **common)
        if len(self.shape) < 2 or self.states < 2:
            found = tuple(self.shape)
            raise InvalidOption(f"potts: expected a shape (sites, states) with two or more states, found {found}")
        self.support = OneHot(f"one-hot vectors of {self.states} states", self.states)

    @property
    def states(self) -> int:
        """The number q of states of a site."""
        return self.shape[-1]

    def log_weight(self, x: Tensor) -> Tensor:
        return (self.bias * x).sum(-1)

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return torch.logsumexp(self._field(B, A), -1)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return softmax(self._field(B, A))

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        p = self.mean(B, A)
        return p * sum_of_others(p)

    def covariance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        """The full covariance of a site's states: (..., sites, q, q)."""
        p = self.mean(B, A)
        return torch.diag_embed(p * sum_of_others(p) + p.square()) - p.unsqueeze(-1) * p.unsqueeze(-2)

    def mode(self, B: Tensor) -> Tensor:
        top = self._field(B, None).argmax(-1, keepdim=True)
        return torch.zeros_like(B).scatter_(-1, top, 1.0)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        return noise.categorical(self.mean(B, A).detach(), generator)

    def relax(self, B: Tensor, *, temperature: float = 2 / 3, generator: Generator | None = None) -> Tensor:
        gumbel = -noise.exponential(B, generator).log()
        return softmax((self._field(B, None) + gumbel) / temperature)

    def mean_(self, B: Tensor, out: Tensor) -> Tensor:
        return out if kernels.softmax(B, self.bias, out) else out.copy_(self.mean(B))

    def sample_(self, B: Tensor, out: Tensor, generator: Generator | None = None, mean: Tensor | None = None) -> Tensor:
        if mean is None and kernels.draw_softmax(B, self.bias, out, generator):
            return out
        return out.copy_(noise.categorical(self.mean(B) if mean is None else mean, generator))

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """b = ln of the frequencies, with ``pseudocount`` counts (default 1) of each state added; zero-sum gauge."""
        extra = 1.0 if pseudocount is None else pseudocount
        logs = (self.observations(data).to(torch.float64).sum(0) + extra).log()
        self.bias.data.copy_(logs - logs.mean(-1, keepdim=True))

    def _field(self, B: Tensor, A: Tensor | None) -> Tensor:  # x² = x for each component
        return self.bias + B if A is None else self.bias + B - A / 2
