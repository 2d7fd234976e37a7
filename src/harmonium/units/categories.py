"""One-hot units with different numbers of states in one layer."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from .. import noise
from ..checks import whole
from ..errors import InvalidOption
from .base import Unit, Value
from .mixed import Mixed, Parts
from .potts import Potts
from .support import Support

_SAFE = 60.0  # range of fields for which e^field does not underflow in float32


class Categories(Unit):
    """Softmax units with q_1, q_2, … states, concatenated into one flat layer of shape (Σ q_k,), with -U(x) = b·x.

    Used for tables whose columns are categories with different numbers of states.

    The distribution is that of ``Mixed(Potts((1, q_1)), Potts((1, q_2)), …)``. All sites are computed at once, by
    sums over segments of the layer, and there is a single bias: the layer is several times faster with many sites.

    >>> layer = Categories([2, 3])
    >>> layer.shape, layer.sites
    (torch.Size([5]), 2)
    >>> layer.mean(torch.zeros(1, 5))
    tensor([[0.5000, 0.5000, 0.3333, 0.3333, 0.3333]], grad_fn=<DivBackward0>)
    """

    support: Support = Parts("one-hot vectors")
    samples_from_mean = True
    _site: Tensor
    _last: Tensor

    def __init__(self, states: int | Iterable[int], *, bias: Value = 0.0, learn: Iterable[str] = ("bias",)) -> None:
        self.states = tuple(whole("states", q) for q in (states if isinstance(states, Iterable) else (states,)))
        if not self.states or min(self.states) < 2:
            raise InvalidOption(f"categories: expected two or more states of each site, found {self.states}")
        super().__init__(sum(self.states), bias=bias, learn=learn)
        sizes = torch.tensor(self.states)
        self.register_buffer("_site", torch.arange(len(sizes)).repeat_interleave(sizes), persistent=False)
        self.register_buffer("_last", sizes.cumsum(0) - 1, persistent=False)
        self._sites = tuple(
            Potts((1, q)) for q in self.states
        )  # patterns of the parts, without parameters of their own
        self.support = Parts(self.support.description, self._sites)

    # -- the sites ------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> list[Unit]:
        """The sites as Potts layers, whose biases share the memory of the bias of this layer."""
        stored = isinstance(self.bias, nn.Parameter)
        made: list[Unit] = []
        pieces = (self.bias.detach() if stored else self.bias).split(self.states, -1)
        for pattern, piece in zip(self._sites, pieces, strict=True):
            part, bias = copy.copy(pattern), piece.unsqueeze(-2)
            part.learn, part.__dict__["_parameters"] = self.learn, {}
            if stored:
                part.bias = nn.Parameter(bias, requires_grad=self.bias.requires_grad)
            else:
                part.__dict__["bias"] = bias
            made.append(part)
        return made

    def split(self, x: Tensor) -> list[Tensor]:
        return [piece.unsqueeze(-2) for piece in x.split(self.states, -1)]

    def join(self, pieces: Sequence[Tensor]) -> Tensor:
        return torch.cat([piece.squeeze(-2) for piece in pieces], -1)

    def with_parts(self, parts: Sequence[Unit]) -> Unit:
        return Mixed(*parts)

    def in_field(self, B: Tensor) -> Unit:
        return self.with_natural({"bias": self.bias + B})

    @property
    def sites(self) -> int:
        return len(self.states)

    def dot(self, B: Tensor, x: Tensor) -> Tensor:
        return self._total(B * x)

    @classmethod
    def entries(cls, shape: Sequence[int]) -> int:
        return sum(shape)

    def config(self) -> dict[str, Any]:
        return {"unit": self.name(), "states": list(self.states), "learn": list(self.learn)}

    @classmethod
    def build(cls, config: Mapping[str, Any]) -> Categories:
        return cls(config["states"], learn=config["learn"])

    def extra_repr(self) -> str:
        return str(self.states)

    # -- all sites at once ----------------------------------------------------------------------------------------

    def log_weight(self, x: Tensor) -> Tensor:
        return self._total(self.bias * x)

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        weights, largest = self._weights(B, A)
        return self._total(weights).log() + largest

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        weights, _ = self._weights(B, A)
        return weights / self._spread(self._total(weights))

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        quadratic = [None] * self.sites if A is None else self.split(A)
        pieces = zip(self.parts, self.split(B), quadratic, strict=True)
        return self.join([part.variance(b, a) for part, b, a in pieces])

    def cumulant(self, n: int) -> Tensor:
        return self.join([part.cumulant(n) for part in self.parts])

    def mode(self, B: Tensor) -> Tensor:
        return self.join([part.mode(piece) for part, piece in zip(self.parts, self.split(B), strict=True)])

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        return noise.ragged_categorical(self.mean(B, A).detach(), self._last, generator)

    def sample_(self, B: Tensor, out: Tensor, generator: Generator | None = None, mean: Tensor | None = None) -> Tensor:
        return out.copy_(noise.ragged_categorical(self.mean(B) if mean is None else mean, self._last, generator))

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """Initialize each site as :class:`Potts` does."""
        for part, piece in zip(self.parts, self.split(data), strict=True):
            part.initialize_from(piece, pseudocount)  # writes into the memory of the bias

    def _weights(self, B: Tensor, A: Tensor | None) -> tuple[Tensor, Tensor]:
        """e^{b + B - A/2 - c}, (..., size), and c for each site, (..., sites), chosen such that nothing overflows."""
        field = self.bias + B if A is None else self.bias + B - A / 2  # x² = x for each component
        fixed = field.detach()
        largest = fixed.amax(-1, keepdim=True)
        if bool((largest - fixed.amin(-1, keepdim=True) < _SAFE).all()):  # one constant for the whole layer is faster
            return (field - largest).exp(), largest
        largest = torch.full((*field.shape[:-1], self.sites), -math.inf, dtype=field.dtype, device=field.device)
        largest.scatter_reduce_(-1, self._site.expand(field.shape), fixed, "amax")
        return (field - self._spread(largest)).exp(), largest

    def _total(self, x: Tensor) -> Tensor:
        """The sum over the components of each site: (..., size) -> (..., sites)."""
        zero = torch.zeros((*x.shape[:-1], self.sites), dtype=x.dtype, device=x.device)
        return zero.scatter_add(-1, self._site.expand(x.shape), x)

    def _spread(self, x: Tensor) -> Tensor:
        """The value of its site for each component: (..., sites) -> (..., size)."""
        return x.index_select(-1, self._site)
