"""Scores of predicted ratings: their error, and how well they rank the items of each user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..arrays import as_tensor, check_finite
from ..checks import whole
from ..data.ratings import RatingTable
from ..errors import InvalidData, InvalidOption

_GOOD = 0.75  # of the range of the scale; 4 of 1 to 5


@dataclass(frozen=True)
class RatingScores:
    """RMSE and MAE over all ratings; NDCG, precision and recall of the first k items, averaged over users."""

    rmse: float
    mae: float
    ndcg: float
    precision: float
    recall: float
    k: int
    relevant: float

    def __str__(self) -> str:
        ranking = f"NDCG@{self.k} {self.ndcg:.4f}, precision {self.precision:.4f}, recall {self.recall:.4f}"
        return f"RMSE {self.rmse:.4f}, MAE {self.mae:.4f}, {ranking}"


def score_ratings(ratings: RatingTable, estimate: Any, *, k: int = 10, relevant: float | None = None) -> RatingScores:
    """Compare predictions with the ratings of a table that the machine has not seen.

    The ranking scores order each user's items in the table by their predictions and look at the first k. Items with
    equal predictions share the average gain of their places (McSherry & Najork 2008), so a constant prediction scores
    as a random order. The gain in NDCG is 2^(place in the scale, from 0) - 1 (Järvelin & Kekäläinen 2002).

    Args:
        ratings: known ratings that the machine has not seen.
        estimate: predictions (n,) of these ratings, in their order.
        k: number of items at the top.
        relevant: smallest rating of a relevant item, for precision and recall. By default at 3/4 of the scale, which is
            4 of 1 to 5.

    Returns:
        The scores. Users without a relevant item are left out of recall, users with the lowest rating alone out of
        NDCG.

    >>> table = RatingTable.of([("ann", "film", 5), ("ann", "play", 1), ("bob", "film", 2)], values=range(1, 6))
    >>> print(score_ratings(table, [4, 2, 2], k=1))
    RMSE 0.8165, MAE 0.6667, NDCG@1 1.0000, precision 0.5000, recall 1.0000
    """
    guess = as_tensor(estimate, "estimate").detach().double().flatten().cpu()
    truth = ratings.ratings
    if len(guess) != len(truth) or len(truth) == 0:
        raise InvalidData(f"estimate: expected {len(truth)} predictions, one for each rating, found {len(guess)}")
    check_finite(guess, "estimate")
    if whole("k", k) < 1:
        raise InvalidOption(f"k: expected at least 1, found {k}")
    low, high = ratings.values[0], ratings.values[-1]
    bound = low + _GOOD * (high - low) if relevant is None else relevant
    gains = 2.0 ** ratings.level.double() - 1
    good = (truth >= bound).double()
    ndcg, precision, recall = [], [], []
    for part in torch.split(torch.arange(len(truth)), torch.bincount(ratings.user).tolist()):
        if len(part) == 0:
            continue
        best = _discounted(gains[part], gains[part], k)
        if best > 0:
            ndcg.append(_discounted(gains[part], guess[part], k) / best)
        hits = _ordered(good[part], guess[part])[:k].sum().item()
        precision.append(hits / min(k, len(part)))
        if good[part].sum() > 0:
            recall.append(hits / good[part].sum().item())
    error = guess - truth
    return RatingScores(
        rmse=error.square().mean().sqrt().item(),
        mae=error.abs().mean().item(),
        ndcg=_mean(ndcg),
        precision=_mean(precision),
        recall=_mean(recall),
        k=k,
        relevant=bound,
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _discounted(gains: Tensor, scores: Tensor, k: int) -> float:
    first = _ordered(gains, scores)[:k]
    return (first / torch.arange(2, len(first) + 2, dtype=torch.float64).log2()).sum().item()


def _ordered(gains: Tensor, scores: Tensor) -> Tensor:
    """The gains in the order of decreasing scores; equal scores share their mean gain."""
    _, group, sizes = scores.unique(return_inverse=True, return_counts=True)
    mean = torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, group, gains) / sizes
    return mean.flip(0).repeat_interleave(sizes.flip(0))
