"""Units of q states and a state "none": one-hot vectors or zero, as in probabilistic max-pooling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from .. import noise
from ..errors import InvalidOption
from .base import Unit
from .bernoulli import Bernoulli
from .layer import LayerOptions
from .probabilities import softmax, sum_of_others
from .support import AtMostOneHot, Support


class AtMostOne(Unit):
    """Vectors of q binary components of which at most one is 1, with -U(x) = b·x; the shape is (sites…, q).

    Used for probabilistic max-pooling, and for a category that may be missing.

    ln Z(B) = ln(1 + Σ_k e^{b_k + B_k}). In probabilistic max-pooling (Lee et al. 2009), the components are the
    detection units of a block, and the pooling unit, :meth:`pool`, is on if one of them is
    (:class:`harmonium.couplings.Conv2d` with ``pool``). The unit is also a category that may be missing.

    >>> unit = AtMostOne((1, 3))
    >>> unit.mean(torch.zeros(2, 1, 3))[0]
    tensor([[0.2500, 0.2500, 0.2500]], grad_fn=<SelectBackward0>)
    >>> unit.pool(torch.tensor([[[0.0, 1.0, 0.0]], [[0.0, 0.0, 0.0]]]))
    tensor([[1.],
            [0.]])
    """

    support: Support = AtMostOneHot("one-hot vectors or zero vectors")
    samples_from_mean = True
    shares_components = True

    def __init__(self, shape: int | Iterable[int], **common: Unpack[LayerOptions]) -> None:
        super().__init__(shape, **common)
        if len(self.shape) < 2:
            raise InvalidOption(f"at-most-one: expected a shape (sites, states), found {tuple(self.shape)}")
        q = self.shape[-1]
        self.support = AtMostOneHot(f"one-hot vectors of {q} states or zero vectors", q)

    @property
    def softmax(self) -> bool:
        return True

    def copies(self, mean: Tensor) -> Tensor:
        return torch.ones_like(mean[..., :1])

    @property
    def pooled_shape(self) -> torch.Size:
        return self.shape[:-1]

    def pool(self, x: Tensor) -> Tensor:
        """1 for each unit with a component that is 1, else 0; also the probability of this, for means x."""
        return x.sum(-1)

    def unpool(self, p: Tensor, *, generator: Generator | None = None) -> Tensor:
        """Zero where p is 0; where p is 1, a one-hot vector with the probabilities softmax(b)."""
        field = self.full(self.bias.detach()).expand(*p.shape, self.shape[-1])
        return noise.categorical(softmax(field), generator) * p.unsqueeze(-1)

    def log_unpool(self, x: Tensor) -> Tensor:
        """ln of the probability with which :meth:`unpool` draws x from its pooled state: (n, *shape) -> (n,)."""
        return (x * torch.log_softmax(self.full(self.bias), -1)).flatten(1).sum(1)

    def pooled_layer(self) -> Unit:
        return Bernoulli(self.pooled_shape, shared=[dim for dim in self.shared if dim < len(self.pooled_shape)])

    def log_weight(self, x: Tensor) -> Tensor:
        return (self.bias * x).sum(-1)

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return softplus(torch.logsumexp(self._field(B, A), -1), threshold=50.0)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        weights, none = self._weights(B, A)
        return weights / (weights.sum(-1, keepdim=True) + none)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        weights, none = self._weights(B, A)
        every = torch.cat([none, weights], -1)
        p = every / every.sum(-1, keepdim=True)
        return (p * sum_of_others(p))[..., 1:]

    def mode(self, B: Tensor) -> Tensor:
        best, top = self._field(B, None).max(-1, keepdim=True)
        return torch.zeros_like(B).scatter_(-1, top, (best > 0).to(B.dtype))

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        return _draw(self.mean(B, A).detach(), generator)

    def sample_(self, B: Tensor, out: Tensor, generator: Generator | None = None, mean: Tensor | None = None) -> Tensor:
        return out.copy_(_draw(self.mean(B) if mean is None else mean, generator))

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """b_k = ln p_k - ln p_none, with ``pseudocount`` counts (default 1) of each of the q + 1 states added."""
        extra = 1.0 if pseudocount is None else pseudocount
        positions = self.sites // self.parameter_shape[:-1].numel()  # that share a bias
        counts = positions * self.shared_mean(data.to(torch.float64).sum(0))
        none = positions * len(data) - counts.expand(*counts.shape[:-1], self.shape[-1]).sum(-1, keepdim=True)
        self.bias.data.copy_((counts + extra).log() - (none.clamp_min(0.0) + extra).log())

    def _field(self, B: Tensor, A: Tensor | None) -> Tensor:  # x² = x for each component
        return self.bias + B if A is None else self.bias + B - A / 2

    def _weights(self, B: Tensor, A: Tensor | None) -> tuple[Tensor, Tensor]:
        """The weights of the q states and of "none", divided by the largest: (..., q) and (..., 1)."""
        field = self._field(B, A)
        largest = field.detach().amax(-1, keepdim=True).clamp_min(0.0)
        return (field - largest).exp(), (-largest).exp()


def _draw(p: Tensor, generator: Generator | None) -> Tensor:
    none = (1 - p.sum(-1, keepdim=True)).clamp_min(0.0)
    return noise.categorical(torch.cat([none, p], -1), generator)[..., 1:]
