"""Simple predictions of ratings: means, biases of users and items, and a factorization with few dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harmonium import noise
from harmonium.data import RatingTable

_SWEEPS = 20


def global_mean(train: RatingTable, pairs: Tensor) -> Tensor:
    """The mean rating of all items."""
    return train.ratings.mean().expand(len(pairs))


def item_means(train: RatingTable, pairs: Tensor) -> Tensor:
    """The mean rating of the item; that of all items if nobody has rated it."""
    counts = torch.bincount(train.item, minlength=len(train.items))
    sums = torch.zeros(len(train.items), dtype=torch.float64).index_add_(0, train.item, train.ratings)
    means = torch.where(counts > 0, sums / counts.clamp_min(1), train.ratings.mean())
    return means[pairs[:, 1]]


@dataclass(frozen=True)
class Biases:
    """μ + b_user + b_item with ridge penalties λ Σ b², fitted by coordinate descent."""

    mean: Tensor
    user: Tensor
    item: Tensor

    @classmethod
    def fit(cls, train: RatingTable, ridge: float) -> Biases:
        """Fit the biases to the ratings with the penalty λ = ``ridge``."""
        mean, ratings = train.ratings.mean(), train.ratings
        sizes = [len(train.users), len(train.items)]
        index = [train.user, train.item]
        values = [torch.zeros(size, dtype=torch.float64) for size in sizes]
        counts = [torch.bincount(where, minlength=size) for where, size in zip(index, sizes, strict=True)]
        for _ in range(_SWEEPS):
            for one, other in ((1, 0), (0, 1)):
                left = ratings - mean - values[other][index[other]]
                sums = torch.zeros_like(values[one]).index_add_(0, index[one], left)
                values[one] = sums / (counts[one] + ridge)
        return cls(mean, values[0], values[1])

    def predict(self, pairs: Tensor) -> Tensor:
        """Predict the ratings of pairs (m, 2) of a user and an item."""
        return self.mean + self.user[pairs[:, 0]] + self.item[pairs[:, 1]]


@dataclass(frozen=True)
class Factors:
    """A truncated, regularized singular value decomposition of what the biases leave: alternating least squares.

    Minimizes Σ (r - p_user · q_item)² + λ (Σ_u n_u |p_u|² + Σ_i n_i |q_i|²) over the known ratings.
    """

    biases: Biases
    user: Tensor
    item: Tensor

    @classmethod
    def fit(cls, train: RatingTable, rank: int, ridge: float, biases: Biases, seed: int = 0) -> Factors:
        """Fit ``rank`` factors to what ``biases`` leave, with the penalty λ = ``ridge``."""
        known = train.rated.double()
        left = torch.zeros_like(known)
        left[train.user, train.item] = train.ratings - biases.predict(train.pairs)
        item = 0.1 * torch.randn(known.shape[1], rank, dtype=torch.float64, generator=noise.generator(seed))
        for _ in range(_SWEEPS):
            user = _solve(known, left, item, ridge)
            item = _solve(known.T, left.T, user, ridge)
        return cls(biases, user, item)

    def predict(self, pairs: Tensor) -> Tensor:
        """Predict the ratings of pairs (m, 2) of a user and an item."""
        return self.biases.predict(pairs) + (self.user[pairs[:, 0]] * self.item[pairs[:, 1]]).sum(1)


def _solve(known: Tensor, left: Tensor, other: Tensor, ridge: float) -> Tensor:
    """The factors (rows, rank) of the least squares problem of each row, given those of the columns."""
    rank = other.shape[1]
    squares = known @ (other.unsqueeze(2) * other.unsqueeze(1)).flatten(1)
    counts = known.sum(1).clamp_min(1.0).view(-1, 1, 1)
    system = squares.view(-1, rank, rank) + ridge * counts * torch.eye(rank, dtype=other.dtype)
    return torch.linalg.solve(system, left @ other)
