"""Adversarial accuracy of nearest neighbors (Yale et al. 2020): can samples be told from data, are they copies?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .inputs import GROUPS, ArrayLike, alike, centered, count, drawn, random
from .measured import Measured

_MOST_IN_GROUP = 4096  # rows: bounds the memory of a tile of distances
_EXACT = 2.0**21  # squared norms of whole numbers up to which all terms of a distance are exact in float32


@dataclass(frozen=True)
class NeighborAccuracy:
    """How often the nearest neighbor of a row is of its own kind, on ``rows`` rows of each kind.

    ``estimate`` (AA_TS) is the mean of ``truth`` (of the data) and ``synthetic`` (of samples). 0.5 is ideal: above
    it samples and data can be told apart, below it samples lie closer to data than data to each other.
    ``tied`` is the share of rows with several nearest neighbors at the same distance.
    """

    accuracy: Measured
    truth: Measured
    synthetic: Measured
    rows: int
    tied: float
    train: NeighborAccuracy | None = None
    privacy_loss: Measured | None = None

    @property
    def estimate(self) -> float:
        """AA_TS."""
        return self.accuracy.estimate

    @property
    def standard_error(self) -> float:
        """Its standard error."""
        return self.accuracy.standard_error

    @property
    def asymmetry(self) -> Measured:
        """AA_truth - AA_syn: positive where samples scatter wider than data, negative where they crowd together.

        Either can hide in ``estimate``: noisy samples have data as neighbors, and data too, which gives 0.5. In many
        dimensions a few rows are the neighbors of many, and a set that happens to hold them looks crowded: the error
        here is twice that of the groups, which are too small to have such hubs.
        """
        value = self.truth.estimate - self.synthetic.estimate
        return Measured(value, 2 * math.hypot(self.truth.standard_error, self.synthetic.standard_error))

    @property
    def chance(self) -> float:
        """What equal distributions give: a little below 0.5, as a row has one neighbor less of its own kind."""
        return (self.rows - 1) / (2 * self.rows - 1)


@torch.no_grad()
def nearest_neighbor_accuracy(
    samples: ArrayLike,
    data: ArrayLike,
    *,
    train: ArrayLike | None = None,
    most_rows: int = 10_000,
    seed: int | None = None,
) -> NeighborAccuracy:
    """The adversarial accuracy of ``samples`` against ``data``, both (n, *shape), from as many rows of each.

    With ``train`` (the training rows; ``data`` are then held-out rows) the result has ``train``, the
    same against these, and ``privacy_loss``, AA of the data minus AA of the training rows: positive where samples lie
    closer to what was learned than to what was not.

    Distances are Euclidean, which orders neighbors of binary, spin and one-hot rows as Hamming distances do. *Ties*,
    which such rows have many of: a row with several nearest neighbors counts with the share of them that are of its
    own kind, the mean over breaking the tie at random, so that a state that is too frequent is seen though both kinds
    have it. Real numbers are tied where single precision does not tell their distances apart.

    The errors come from groups of rows whose neighbors are looked for within the group, so that they are sets of
    their own: rows that are each other's neighbors are not independent, and counting them as if they were makes errors
    too small. ``most_rows`` of each kind are drawn with the seed where there are more.

    >>> data = torch.rand(400, 5, generator=torch.Generator().manual_seed(0))
    >>> result = nearest_neighbor_accuracy(data[:200], data[200:])
    >>> abs(result.estimate - 0.5) < 3 * result.standard_error
    True
    >>> nearest_neighbor_accuracy(data[:200], data[200:], train=data[:200]).train.estimate
    0.0
    """
    samples, data = alike(samples, data)
    sets = [data] if train is None else [data, alike(samples, train, name="train")[1].to(data.device)]
    n = min(count("most_rows", most_rows, 2 * GROUPS), len(samples), *map(len, sets))
    generator = random(seed)
    fake = drawn(samples, n, generator)
    scores = [_scores(drawn(real, n, generator), fake) for real in sets]
    results = [_result(*score, n) for score in scores]
    if train is None:
        return results[0]
    loss = scores[0][0].mean(1) - scores[1][0].mean(1)  # group by group: both have the same samples
    return replace(results[0], train=results[1], privacy_loss=_measured(loss))


def _measured(scores: Tensor) -> Measured:
    """The score of all rows, with the error of a mean over the groups, each a set of its own: (1 + groups,)."""
    groups = scores[1:]
    return Measured(float(scores[0]), float(groups.std() / len(groups) ** 0.5))


def _result(scores: Tensor, tied: float, n: int) -> NeighborAccuracy:
    truth, synthetic = scores.T
    return NeighborAccuracy(_measured(scores.mean(1)), _measured(truth), _measured(synthetic), rows=n, tied=tied)


def _scores(real: Tensor, fake: Tensor) -> tuple[Tensor, float]:
    """(AA_truth, AA_syn) of all rows, then of each group by itself, (1 + groups, 2); the share of rows with ties."""
    n = len(real)
    points, tolerance = _prepared(torch.cat([real, fake]).flatten(1))
    groups = max(GROUPS, math.ceil(n / _MOST_IN_GROUP))
    member = (torch.arange(n, device=real.device) * groups // n).repeat(2)  # both kinds are in random order
    nearest, number = _nearest(points, tolerance, n, groups)
    best = nearest.amin(1, keepdim=True)
    ties = number * (nearest <= best + tolerance[:, None])
    scores = [_own_share(ties[:, :groups].sum(1), ties[:, groups:].sum(1), n)]
    for group in range(groups):
        rows = member == group
        distance, tied = nearest[rows][:, [group, groups + group]], number[rows][:, [group, groups + group]]
        tied = tied * (distance <= distance.amin(1, keepdim=True) + tolerance[rows, None])
        scores.append(_own_share(tied[:, 0], tied[:, 1], int(rows[:n].sum())))
    return torch.stack(scores).cpu(), (ties.sum(1) > 1).double().mean().item()


def _own_share(real: Tensor, fake: Tensor, n: int) -> Tensor:
    """How many nearest neighbors are real and how many fake, of ``n`` real rows and the fake ones after them."""
    share = real.double() / (real + fake)
    return torch.stack([share[:n].mean(), 1 - share[n:].mean()])


def _prepared(points: Tensor) -> tuple[Tensor, Tensor]:
    """Points (n, d) in float32, and the difference of squared distances from each that does not count, (n,).

    Whole numbers stay as they are, so that their distances and ties are exact; others are taken about their mean.
    """
    if bool((points == points.round()).all()) and float(points.double().square().sum(1).max()) < _EXACT:
        return points.float(), torch.full((len(points),), 0.5, device=points.device)
    points = centered(points)
    return points, 16 * torch.finfo(points.dtype).eps * points.square().sum(1)


def _nearest(points: Tensor, tolerance: Tensor, n: int, groups: int) -> tuple[Tensor, Tensor]:
    """Of each point, in each group of both kinds: the least squared distance and how many have it, (2n, 2·groups).

    Tiles of two groups at a time, each computed once for its rows and its columns.
    """
    square = points.square().sum(1)
    edges = [math.ceil(k * n / groups) for k in range(groups)]  # where ⌊i·groups/n⌋ steps
    starts = [*edges, *(n + edge for edge in edges), 2 * n]
    nearest = torch.empty(2 * n, 2 * groups, device=points.device)
    number = torch.empty_like(nearest)
    for a in range(2 * groups):
        rows = slice(starts[a], starts[a + 1])
        for b in range(a, 2 * groups):
            columns = slice(starts[b], starts[b + 1])
            tile = torch.addmm(square[columns], points[rows], points[columns].T, alpha=-2).add_(square[rows, None])
            if a == b:
                tile.fill_diagonal_(math.inf)
            nearest[rows, b], number[rows, b] = _least(tile, tolerance[rows, None], 1)
            if a != b:
                nearest[columns, a], number[columns, a] = _least(tile, tolerance[columns], 0)
    return nearest, number


def _least(tile: Tensor, tolerance: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    least = tile.amin(dim, keepdim=True)
    return least.squeeze(dim), (tile <= least + tolerance).sum(dim).to(tile.dtype)
