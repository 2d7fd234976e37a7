"""Ratings of items: one-hot vectors of the items that a user has rated; the other items are not in the machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import torch
from torch import Generator, Tensor

from .. import noise
from ..errors import InvalidData
from .layer import LayerOptions
from .potts import Potts
from .probabilities import softmax, sum_of_others
from .support import RatedOneHot, Support


class Ratings(Potts):
    """Ratings on a scale of K values: x is one-hot for a rated item and zero for others; the shape is (items, K).

    Used for ratings of items by users, most of them missing.

    Every user has a machine of their own (Salakhutdinov, Mnih & Hinton 2007): it contains only the items that the user
    has rated, with the weights and biases of all other users. So which items are rated is not random but given by the
    row, and :meth:`conserving` takes it from there. An item that is not rated adds nothing to ln Z, means or gradients:

        ln Z(B) = ln Σ_k e^{b_k + B_k} for a rated item, and 0 for others.

    With ``complete=True`` every item is rated, as in a machine from which ratings are generated.

    >>> unit = Ratings((2, 5)).conserving(torch.tensor([[[0.0, 0, 0, 1, 0], [0.0, 0, 0, 0, 0]]]))
    >>> unit.mean(torch.zeros(1, 2, 5))
    tensor([[[0.2000, 0.2000, 0.2000, 0.2000, 0.2000],
             [0.0000, 0.0000, 0.0000, 0.0000, 0.0000]]], grad_fn=<MulBackward0>)
    """

    support: Support = RatedOneHot("one-hot vectors, or zero vectors for items without a rating")

    def __init__(self, shape: int | Iterable[int], *, complete: bool = False, **common: Unpack[LayerOptions]) -> None:
        super().__init__(shape, **common)
        self.options = {"complete": True} if complete else {}
        size = self.shape[-1]
        if not complete:
            what = f"one-hot vectors of {size} values, or zero vectors for items without a rating"
            self.support = RatedOneHot(what, size)
        #: 1 for rated items and 0 for others, (n, items, 1); None if it is not known
        self.rated: Tensor | None = torch.ones(()) if complete else None

    def conserve(self, x: Tensor) -> None:
        """Set the rated items to those of ``x`` (n, items, K)."""
        self.rated = x.sum(-1, keepdim=True)

    @property
    def conserves(self) -> bool:
        return not self.options

    @property
    def softmax(self) -> bool:
        return True

    def log_partition(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return super().log_partition(B, A) * self._rated(B).squeeze(-1)

    def mean(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        return super().mean(B, A) * self._rated(B)

    def variance(self, B: Tensor, A: Tensor | None = None) -> Tensor:
        p = super().mean(B, A)
        return p * sum_of_others(p) * self._rated(B)

    def mode(self, B: Tensor) -> Tensor:
        return super().mode(B) * self._rated(B)

    def sample(self, B: Tensor, *, generator: Generator | None = None, A: Tensor | None = None) -> Tensor:
        return self._draw(self._field(B, A).detach(), torch.empty_like(B), generator)

    def sample_(self, B: Tensor, out: Tensor, generator: Generator | None = None, mean: Tensor | None = None) -> Tensor:
        return self._draw(self._field(B, None).detach() if mean is None else mean.log(), out, generator)

    def initialize_from(self, data: Tensor, pseudocount: float | None = None) -> None:
        """b = ln of the frequencies of an item's ratings, with ``pseudocount`` · K ratings (default: 1 · K) added.

        The added ratings have the frequencies of all items together: an item with few ratings begins close to these.
        """
        extra = 1.0 if pseudocount is None else pseudocount
        counts = self.observations(data).to(torch.float64).sum(0)
        total = counts.flatten(0, -2).sum(0) + 1.0
        prior = self.shape[-1] * total / total.sum()
        known = counts.sum(-1, keepdim=True) + extra > 0
        logs = torch.where(known, counts + extra * prior, prior).log()
        self.bias.data.copy_(logs - logs.mean(-1, keepdim=True))

    def _rated(self, B: Tensor) -> Tensor:
        """1 for rated items, else 0: (..., items, 1) in the type of B."""
        if self.rated is None:
            raise InvalidData(
                "ratings: the rated items are not known, and ln Z and samples depend on them; use "
                "machine.log_probability(rows), machine.sample(start=rows) or machine.conserving(rows)"
            )
        return self.rated.to(B).expand(*B.shape[:-1], 1)

    def _draw(self, logits: Tensor, out: Tensor, generator: Generator | None) -> Tensor:
        """Write draws of the rated items into ``out``: the others, most of them, cost nothing."""
        rated = self._rated(out).squeeze(-1) > 0
        out.zero_()[rated] = noise.categorical(softmax(logits[rated]), generator)
        return out
