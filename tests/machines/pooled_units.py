"""A unit with pooled states, as in probabilistic max-pooling: one-hot vectors or zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from harmonium import noise
from harmonium.units import Unit
from harmonium.units.support import Support


@dataclass(frozen=True)
class OneOrNone(Support):
    size: int = 2
    event_dim: ClassVar[int] = 1

    def contains(self, x: Tensor) -> Tensor:
        return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) <= 1)

    def states(self) -> Tensor:
        return torch.cat([torch.zeros(1, self.size), torch.eye(self.size)]).double()


class Block(Unit, named=False):
    """Blocks of 2 units of which at most one is on; the pooled state is whether one is."""

    support = OneOrNone("one-hot vectors or zero", 2)

    @property
    def pooled_shape(self) -> torch.Size:
        return self.shape[:-1]

    def pool(self, x: Tensor) -> Tensor:
        return x.sum(-1)

    def unpool(self, p: Tensor, *, generator: Generator | None = None) -> Tensor:
        free = torch.softmax(self.bias.detach(), -1).expand(*p.shape, self.shape[-1])
        return noise.categorical(free, generator) * p.unsqueeze(-1)

    def log_unpool(self, x: Tensor) -> Tensor:
        return (torch.log_softmax(self.bias, -1) * x).flatten(1).sum(1)

    def log_weight(self, x: Tensor) -> Tensor:
        return (self.bias * x).sum(-1)

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        counts = data.sum(0).double()
        none = len(data) - counts.sum(-1, keepdim=True)
        self.bias.data.copy_((counts + 1).log() - (none + 1).log())
