"""Binary units {0, 1}."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus

from .. import noise
from .base import Unit
from .support import boolean


class Bernoulli(Unit):
    """Binary units x ∈ {0, 1} with -U(x) = b x and a step activation. Tramel et al. (2018), eqs. (C34)-(C38).

    Used for binary data, such as spikes, presence or absence, and binary images, and as the standard hidden unit.
    ln Z = ln(1 + e^{b+B}), the mean is the logistic function of b + B.

    >>> unit = Bernoulli(2, bias=torch.tensor([0.0, 2.0]))
    >>> unit.mean(torch.tensor([[0.0, -2.0]]))
    tensor([[0.5000, 0.5000]], grad_fn=<SigmoidBackward0>)
    """

    support = boolean
    samples_from_mean = True

    def log_weight(self, x: Tensor) -> Tensor:
        return self.bias * x

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return softplus(self._field(B, A), threshold=50.0)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return torch.sigmoid(self._field(B, A))

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        field = self._field(B, A)
        return torch.sigmoid(field) * torch.sigmoid(-field)

    def mode(self, B: Tensor) -> Tensor:
        return (self._field(B, None) > 0).to(B.dtype)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        return noise.bernoulli(self.mean(B, A).detach(), generator)

    def relax(self, B: Tensor, *, temperature: float = 2 / 3, generator: Generator | None = None) -> Tensor:
        return torch.sigmoid((self._field(B, None) + noise.logistic(B, generator)) / temperature)

    def log_partition_gain(self, B: Tensor, before: Unit, B_before: Tensor, mean: Tensor | None = None) -> Tensor:
        # softplus(y) - softplus(x) = -ln(1 + σ(y)(e^{x-y} - 1)) avoids the cancellation of large numbers, uses the
        # known σ, and needs a single logarithm of the product over all units. For steps so large that the sum in the
        # logarithm cancels or overflows, the plain difference is as accurate. If the product overflows, the result is
        # infinite; annealing detects this and uses the plain difference instead.
        fall = torch.add(B_before, before.bias - self.bias).sub_(B)
        mean = self.mean(B) if mean is None else mean
        ratios = fall.expm1_().mul_(mean).add_(1.0)
        least, most = torch.aminmax(ratios)
        if not (least > 2.0**-4 and most < 2.0**60):  # false for NaN too
            return super().log_partition_gain(B, before, B_before)
        return ratios.flatten(1).prod(1, dtype=torch.float64).log_().neg_()

    def mean_(self, B: Tensor, out: Tensor) -> Tensor:
        return torch.add(B, self.bias, out=out).sigmoid_()

    def mean_and_variance_(self, B: Tensor, A: Tensor | None, mean: Tensor, variance: Tensor) -> None:
        torch.add(B, self.bias, out=mean)
        if A is not None:
            mean.sub_(A, alpha=0.5)
        torch.neg(mean, out=variance).sigmoid_()  # 1 - mean without rounding to zero in a large field
        variance.mul_(mean.sigmoid_())

    def sample_(self, B: Tensor, out: Tensor, generator: Generator | None = None, mean: Tensor | None = None) -> Tensor:
        return noise.bernoulli_(self.mean_(B, B) if mean is None else mean, out, generator)

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """b = ln⟨x⟩ - ln(1 - ⟨x⟩), with ``pseudocount`` counts (default 1) of each value added."""
        extra = 1.0 if pseudocount is None else pseudocount
        data = self.observations(data)
        mean = (data.sum(0) + extra) / (len(data) + 2 * extra)
        self.bias.data.copy_(torch.logit(mean.to(torch.float64)))

    def to_module(self) -> nn.Module:
        return nn.Sigmoid()

    def _field(self, B: Tensor, A: Tensor | None) -> Tensor:  # x² = x, so the quadratic term is a shift
        return self.bias + B if A is None else self.bias + B - A / 2
