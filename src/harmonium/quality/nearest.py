"""Nearest-neighbor adversarial accuracy (Yale et al. 2020): detects samples that differ from data or copy them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..estimates import Estimate, jackknife
from ..noise import Seed
from .inputs import GROUPS, ArrayLike, alike, centered, count, drawn, random

_MOST_IN_GROUP = 4096  # maximum rows per group, which bounds the memory of a tile of distances
_EXACT = 2.0**21  # distances of integer rows are exact in float32 up to this squared norm


@dataclass(frozen=True)
class NeighborAccuracy:
    """Fraction of rows whose nearest neighbor is from the same set (data or samples), with ``rows`` rows in each set.

    ``value`` (AA_TS) is the mean of ``truth`` (over the data) and ``synthetic`` (over samples). 0.5 is ideal.
    Above 0.5, samples and data can be distinguished; below 0.5, samples are closer to the data than the data are to
    each other. ``tied`` is the fraction of rows with several nearest neighbors at the same distance.

    ``asymmetry`` is AA_truth - AA_syn: positive if the samples are more spread out than the data, negative if less.
    ``value`` alone can miss this: if data are the nearest neighbors of both noisy samples and data, it is 0.5. In
    many dimensions a few rows ("hubs") are nearest neighbors of many others, and the set that contains them looks
    concentrated.
    """

    accuracy: Estimate
    truth: Estimate
    synthetic: Estimate
    asymmetry: Estimate
    rows: int
    tied: float
    train: NeighborAccuracy | None = None
    privacy_loss: Estimate | None = None

    @property
    def value(self) -> float:
        """Adversarial accuracy AA_TS."""
        return self.accuracy.value

    @property
    def standard_error(self) -> float:
        """Standard error of ``value``."""
        return self.accuracy.standard_error

    @property
    def chance(self) -> float:
        """Expected value for equal distributions: slightly below 0.5, because a row is not its own neighbor."""
        return (self.rows - 1) / (2 * self.rows - 1)


@torch.no_grad()
def nearest_neighbor_accuracy(
    samples: ArrayLike, data: ArrayLike, *, train: ArrayLike | None = None, most_rows: int = 10_000, seed: Seed = None
) -> NeighborAccuracy:
    """Compute the nearest-neighbor adversarial accuracy of samples and data (Yale et al. 2020).

    Both sets are reduced to the same number of rows. Distances are Euclidean, which for binary, spin and one-hot rows
    gives the same order as Hamming distances.

    *Ties.* Such rows often have several nearest neighbors at the same distance. Then the row counts with the fraction
    of them from its own set, the expectation over random tie-breaking. This detects states that are too frequent even
    if both sets contain them. Distances of real numbers are tied if they are equal in single precision.

    *Errors.* Rows that are nearest neighbors of each other are not independent, so an error computed row by row would
    be too small. There are two estimates from groups of rows: the spread between groups, with neighbors searched within
    each, which is too large if states repeat, and the jackknife that leaves out one group, which is always somewhat too
    large (Efron & Stein 1981). The smaller is used. Groups are too small to have hubs, so that for the asymmetry
    twice the spread counts; ``truth`` and ``synthetic`` are the accuracy plus or minus half of it.

    Args:
        samples: samples (n, *shape), at least 40 rows.
        data: rows of data (m, *shape), at least 40; held-out rows if ``train`` is given.
        train: training rows. The result then has ``train``, the accuracy with these rows, and ``privacy_loss``, the
            accuracy for ``data`` minus that for ``train``; it is positive if samples are closer to the training rows.
        most_rows: maximum number of rows of each set; larger sets are subsampled.
        seed: seed of the random subsets.

    >>> data = torch.rand(400, 5, generator=torch.Generator().manual_seed(0))
    >>> result = nearest_neighbor_accuracy(data[:200], data[200:])
    >>> abs(result.value - 0.5) < 3 * result.standard_error
    True
    >>> nearest_neighbor_accuracy(data[:200], data[200:], train=data[:200]).train.value
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
    loss = scores[0][0].mean(1) - scores[1][0].mean(1)  # per group, because both accuracies use the same samples
    return replace(results[0], train=results[1], privacy_loss=_measured(loss))


def _measured(scores: Tensor, factor: float = 1.0) -> Estimate:
    """Score of all rows with its standard error, from scores (1 + 2·groups,) as those of :func:`_scores`.

    The spread between groups counts ``factor`` times.
    """
    within, without = scores[1:].chunk(2)
    return Estimate(float(scores[0]), min(factor * float(within.std()) / len(within) ** 0.5, jackknife(without)))


def _result(scores: Tensor, tied: float, n: int) -> NeighborAccuracy:
    truth, synthetic = scores.T
    accuracy, asymmetry = _measured(scores.mean(1)), _measured(truth - synthetic, factor=2.0)
    error = math.hypot(accuracy.standard_error, asymmetry.standard_error / 2)
    of_data, of_samples = (Estimate(float(side[0]), error) for side in (truth, synthetic))
    return NeighborAccuracy(accuracy, of_data, of_samples, asymmetry, rows=n, tied=tied)


def _scores(real: Tensor, fake: Tensor) -> tuple[Tensor, float]:
    """Return scores (1 + 2·groups, 2), and the fraction of tied rows.

    A score is (AA_truth, AA_syn): of all rows, of each group alone, and of the rows outside of each group.
    """
    n = len(real)
    points, tolerance = _prepared(torch.cat([real, fake]).flatten(1))
    groups = max(GROUPS, math.ceil(n / _MOST_IN_GROUP))
    member = (torch.arange(n, device=real.device) * groups // n).repeat(2)  # both sets are in random order
    nearest, number = _nearest(points, tolerance, n, groups)

    def tied(rows: Tensor, columns: Tensor) -> Tensor:
        """Numbers of nearest neighbors of some rows in some of the 2·groups groups."""
        distance = nearest[rows][:, columns]
        return number[rows][:, columns] * (distance <= distance.amin(1, keepdim=True) + tolerance[rows, None])

    def score(rows: Tensor, columns: Tensor) -> Tensor:
        of_real, of_fake = tied(rows, columns).chunk(2, 1)
        return _own_share(of_real.sum(1), of_fake.sum(1), int(rows[:n].sum()))

    of = torch.arange(2 * groups, device=real.device) % groups  # the group of a column
    everyone = torch.ones_like(member, dtype=torch.bool)
    scores = [score(everyone, of >= 0)]
    scores += [score(member == group, of == group) for group in range(groups)]
    scores += [score(member != group, of != group) for group in range(groups)]
    return torch.stack(scores).cpu(), (tied(everyone, of >= 0).sum(1) > 1).double().mean().item()


def _own_share(real: Tensor, fake: Tensor, n: int) -> Tensor:
    """Accuracies (2,) from the numbers of real and fake nearest neighbors of ``n`` real rows followed by fake rows."""
    share = real.double() / (real + fake)
    return torch.stack([share[:n].mean(), 1 - share[n:].mean()])


def _prepared(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return points (n, d) in float32, and for each point the tolerance (n,) for ties of squared distances.

    Integers are unchanged, so that their distances and ties are exact; the mean of other points is subtracted.
    """
    if bool((points == points.round()).all()) and float(points.double().square().sum(1).max()) < _EXACT:
        return points.float(), torch.full((len(points),), 0.5, device=points.device)
    points = centered(points)
    return points, 16 * torch.finfo(points.dtype).eps * points.square().sum(1)


def _nearest(points: Tensor, tolerance: Tensor, n: int, groups: int) -> tuple[Tensor, Tensor]:
    """Smallest squared distance of each point to each group, and how many points have it, both (2n, 2·groups).

    Each tile of distances between two groups is computed once and used for its rows and its columns.
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
