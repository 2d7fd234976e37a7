"""Ising spins {-1, +1}."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus

from .. import noise
from .base import Unit
from .support import signs


class Spin(Unit):
    """Ising spins x ∈ {-1, +1} with -U(x) = b x, mean tanh(b + B) and ln Z = ln 2cosh(b + B).

    Used for data that are symmetric between two values, and for the models of statistical physics.

    Used by Decelle, Fissore & Furtlehner (2017).

    >>> Spin(1).log_partition(torch.zeros(1, 1)).exp()
    tensor([[2.]], grad_fn=<ExpBackward0>)
    """

    support = signs

    def log_weight(self, x: Tensor) -> Tensor:
        return self.bias * x

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        field = self.bias + B
        value = softplus(2 * field, threshold=50.0) - field
        return value if A is None else value - A / 2  # x² = 1

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return torch.tanh(self.bias + B)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        field = 2 * (self.bias + B)
        return 4 * torch.sigmoid(field) * torch.sigmoid(-field)

    def mode(self, B: Tensor) -> Tensor:
        return torch.where(self.bias + B > 0, 1.0, -1.0).to(B.dtype)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        up = torch.sigmoid(2 * (self.bias + B)).detach()
        return noise.bernoulli(up, generator).mul_(2).sub_(1)

    def relax(self, B: Tensor, *, temperature: float = 2 / 3, generator: Generator | None = None) -> Tensor:
        return torch.tanh((self.bias + B + noise.logistic(B, generator) / 2) / temperature)

    def mean_(self, B: Tensor, out: Tensor) -> Tensor:
        return torch.add(B, self.bias, out=out).tanh_()

    def mean_and_variance_(self, B: Tensor, A: Tensor | None, mean: Tensor, variance: Tensor) -> None:
        torch.add(B, self.bias, out=mean)
        torch.cosh(mean, out=variance).reciprocal_().square_()  # 1 - mean² would round to zero in a large field
        mean.tanh_()

    def to_module(self) -> nn.Module:
        return nn.Tanh()

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """b = atanh⟨x⟩, with ``pseudocount`` counts (default 1) of each value added."""
        extra = 1.0 if pseudocount is None else pseudocount
        data = self.observations(data)
        mean = data.sum(0).to(torch.float64) / (len(data) + 2 * extra)
        self.bias.data.copy_(torch.atanh(mean))
