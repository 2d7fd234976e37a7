"""Compare moments of samples with those of data, relative to the sampling noise of sets of finite size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..errors import InvalidOption
from ..estimates import Estimate, jackknife
from ..noise import Seed
from ..shown import brief
from .inputs import GROUPS, ArrayLike, alike, centered, count, drawn, one_hot_size, random
from .significance import SIGMAS, spread

NAMES = {1: "single-site means", 2: "pair correlations", 3: "three-body correlations"}
MOST = {1: 2**31, 2: 500_000, 3: 10_000}  # default maximum number of tuples of each order
_MATRIX = 2048  # maximum number of columns to compute all pairs by one matrix product
_CHUNK = 2**24
_SPLITS = 50


@brief
@dataclass(frozen=True)
class Correlations:
    """Connected moments of one order of samples and data, for ``tuples`` (t, order) of flat indices.

    ``difference`` is the root mean square of samples − data. ``floor`` is its expected value for two independent sets
    of data of these sizes, estimated from random halves of the data and scaled to the sizes. ``pearson`` and ``slope``
    (of samples on data) have the expected values ``ideal_pearson`` and ``ideal_slope``, which are below 1 because of
    the sampling noise of both sets.
    """

    order: int
    tuples: Tensor
    data: Tensor
    samples: Tensor
    pearson: Estimate
    slope: Estimate
    difference: Estimate
    floor: Estimate
    ideal_pearson: float
    ideal_slope: float

    @property
    def name(self) -> str:
        """Name of the moments."""
        return NAMES[self.order]

    @property
    def ratio(self) -> float:
        """Difference divided by the floor; the ideal value is 1."""
        return self.difference.value / self.floor.value if self.floor.value else math.inf

    @property
    def excess(self) -> float:
        """Estimated difference for infinite sets: √(difference² − floor²)."""
        return math.sqrt(max(0.0, self.difference.value**2 - self.floor.value**2))

    @property
    def meaningful(self) -> bool:
        """Whether the difference exceeds the floor by more than four standard errors."""
        return self.difference.value > self.floor.value + SIGMAS * self.floor.standard_error


@torch.no_grad()
def correlations(
    samples: ArrayLike,
    data: ArrayLike,
    order: int = 2,
    *,
    tuples: ArrayLike | None = None,
    most: int | None = None,
    seed: Seed = None,
) -> Correlations:
    """Compare the connected moments ⟨x_i⟩, ⟨x_i x_j⟩ or ⟨x_i x_j x_k⟩ (order 1, 2, 3) of samples and data.

    Rows are flattened and treated as independent. For one-hot data (n, ..., sites, states), the states of the same site
    are not paired, because their correlations follow from the means.

    Args:
        samples, data: rows (n, *shape), at least 40 each.
        order: 1, 2 or 3.
        tuples: flat indices (t, order) of the moments; by default all tuples of different entries.
        most: maximum number of tuples, chosen at random; by default 500 000 pairs or 10 000 triplets.
        seed: seed of the random choices.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(2000, 6, generator=g) @ torch.randn(6, 6, generator=g)
    >>> good, bad = x[1000:], x[1000:].clone()
    >>> bad[:, 0] = bad[torch.randperm(1000, generator=g), 0]
    >>> [correlations(fake, x[:1000], order=2).meaningful for fake in (good, bad)]
    [False, True]
    """
    if order not in NAMES:
        raise InvalidOption(f"order: expected 1, 2 or 3, found {order!r}")
    samples, data = alike(samples, data)
    generator = random(seed)
    chosen = _tuples(data, order, tuples, most, generator)
    group_means = [_group_moments(drawn(x, len(x), generator), chosen) for x in (data, samples)]
    sizes = [_sizes(len(x)) for x in (data, samples)]
    values = [_mean(means, size) for means, size in zip(group_means, sizes, strict=True)]
    left_out = [
        torch.stack([_mean(means, size * (torch.arange(GROUPS) != g)) for g in range(GROUPS)])
        for means, size in zip(group_means, sizes, strict=True)
    ]
    replicates = [_agreement(a, b) for a, b in zip(*left_out, strict=True)]
    errors = [jackknife(torch.tensor(column)) for column in zip(*replicates, strict=True)]
    pearson, slope, difference = map(Estimate, _agreement(*values), errors)
    variance, floor = _noise(group_means[0], len(data), len(samples), generator)
    per_set = [variance / len(data), variance / len(samples)]
    signal = max(0.0, float(values[0].var(correction=0)) - per_set[0])
    observed = [signal + noise for noise in per_set]
    return Correlations(
        order=order,
        tuples=chosen.cpu(),
        data=values[0],
        samples=values[1],
        pearson=pearson,
        slope=slope,
        difference=difference,
        floor=floor,
        ideal_pearson=signal / math.sqrt(math.prod(observed)) if signal else 0.0,
        ideal_slope=signal / observed[0] if signal else 0.0,
    )


# -- which tuples ---------------------------------------------------------------------------------------------


def _tuples(data: Tensor, order: int, given: ArrayLike | None, most: int | None, generator: Generator | None) -> Tensor:
    d = data.shape[1:].numel()
    if given is not None:
        return _given(given, order, d).to(data.device)
    most = MOST[order] if most is None else count("most", most)
    states = one_hot_size(data)
    available = math.comb(d // states, order) * states**order
    if available < 1:
        raise InvalidOption(f"order {order}: expected rows of at least {order} sites, found {d // states}")
    if available <= most or order == 1:
        sites = torch.combinations(torch.arange(d // states), order).view(-1, 1, order)
        letters = torch.cartesian_prod(*[torch.arange(states)] * order).view(1, -1, order)
        found = (sites * states + letters).reshape(-1, order)
        chosen = found if len(found) <= most else found[torch.randperm(len(found), generator=generator)[:most]]
    else:
        chosen = _random_tuples(d, states, order, most, generator)
    return chosen.to(data.device)


def _random_tuples(d: int, states: int, order: int, most: int, generator: Generator | None) -> Tensor:
    """Draw ``most`` different increasing tuples of entries of different sites."""
    found = torch.empty(0, order, dtype=torch.int64)
    while len(found) < most:
        draw = torch.randint(d, (2 * most, order), generator=generator).sort(1).values
        site = draw // states
        draw = draw[(site[:, 1:] != site[:, :-1]).all(1)]
        found = torch.cat([found, draw]).unique(dim=0)
    return found[torch.randperm(len(found), generator=generator)[:most]]


def _given(tuples: ArrayLike, order: int, d: int) -> Tensor:
    try:
        chosen = torch.as_tensor(tuples)
    except (TypeError, ValueError) as error:
        raise InvalidOption(f"tuples: expected whole numbers of shape (t, {order}) ({error})") from None
    if chosen.ndim == 1 and order == 1:
        chosen = chosen.unsqueeze(1)
    if chosen.ndim != 2 or chosen.shape[1] != order or len(chosen) == 0 or chosen.is_floating_point():
        raise InvalidOption(f"tuples: expected whole numbers of shape (t, {order}), found {tuple(chosen.shape)}")
    if int(chosen.min()) < 0 or int(chosen.max()) >= d:
        raise InvalidOption(f"tuples: expected indices from 0 to {d - 1}, found {chosen.min()} to {chosen.max()}")
    return chosen.long()


# -- the moments, group by group ----------------------------------------------------------------------------------


def _sizes(n: int) -> Tensor:
    """Number of rows in each group."""
    return torch.tensor([(n + g) // GROUPS for g in range(GROUPS)], dtype=torch.float64)


def _mean(means: Tensor, weights: Tensor) -> Tensor:
    return (weights / weights.sum()) @ means


def _group_moments(x: Tensor, tuples: Tensor) -> Tensor:
    """Means (groups, t) in float64 over groups of rows, whose weighted mean is the connected moment of all rows.

    The moments are about the mean of all rows. For order 3, the first-order effect of a shift of the mean is
    subtracted, so that the groups fluctuate like moments about their own means, to first order.
    """
    n, order = len(x), tuples.shape[1]
    z = centered(x)
    sizes = [int(size) for size in _sizes(n)]
    group_mean = torch.stack([part.double().mean(0) for part in z.split(sizes)])
    if order == 1:
        mean = x.flatten(1).mean(0, dtype=torch.float64)
        return (group_mean + mean)[:, tuples[:, 0]].cpu()
    if order == 2:
        return (_pair_means(z, tuples, sizes) * (n / (n - 1))).cpu()
    i, j, k = tuples.T
    triple = _product_means(z, tuples, sizes)
    for one, two in ((i, (j, k)), (j, (i, k)), (k, (i, j))):
        triple -= group_mean[:, one] * _pair_means(z, torch.stack(two, 1), [n])
    return (triple * (n * n / ((n - 1) * (n - 2)))).cpu()


def _pair_means(z: Tensor, pairs: Tensor, sizes: list[int]) -> Tensor:
    """Compute ⟨z_i z_j⟩ of each group, (groups, t), by a matrix product unless it is too large."""
    if z.shape[1] > _MATRIX:
        return _product_means(z, pairs, sizes)
    flat = pairs[:, 0] * z.shape[1] + pairs[:, 1]
    return torch.stack([(part.T @ part).flatten()[flat].double() / len(part) for part in z.split(sizes)])


def _product_means(z: Tensor, tuples: Tensor, sizes: list[int]) -> Tensor:
    """Compute ⟨z_i z_j …⟩ of each group, (groups, t), in chunks of tuples."""
    columns = z.T.contiguous()
    weights = torch.block_diag(*(torch.full((size, 1), 1 / size) for size in sizes)).to(z)
    parts = []
    for chunk in tuples.split(max(1, _CHUNK // len(z))):
        product = columns[chunk[:, 0]]
        for index in chunk.T[1:]:
            product *= columns[index]
        parts.append((product @ weights).T.double())
    return torch.cat(parts, 1)


# -- how well they agree --------------------------------------------------------------------------------------------


def _agreement(data: Tensor, samples: Tensor) -> tuple[float, float, float]:
    """Pearson correlation, slope of samples on data, and root mean square difference."""
    a, b = data - data.mean(), samples - samples.mean()
    aa, bb, ab = float(a @ a), float(b @ b), float(a @ b)
    tiny = 1e-24 * len(a)
    pearson = ab / math.sqrt(aa * bb) if min(aa, bb) > tiny else math.nan
    slope = ab / aa if aa > tiny else math.nan
    return pearson, slope, math.sqrt(float((samples - data).square().mean()))


def _noise(means: Tensor, n: int, m: int, generator: Generator | None) -> tuple[float, Estimate]:
    """Variance of a moment of one row, averaged over the tuples, and the floor of the difference of two sets."""
    half = GROUPS // 2
    signs = torch.stack([torch.randperm(GROUPS, generator=generator) for _ in range(_SPLITS)])
    signs = ((signs < half).double() * 2 - 1) / half
    between = (signs @ means).square().mean(1).sqrt()  # differences between two halves of the data
    variance = float(between.square().mean()) * n / 4  # halves of n/2 rows differ with a variance of 4/n
    scale = math.sqrt((1 / n + 1 / m) * n / 4)
    return variance, spread(between * scale)


def all_orders(samples: Tensor, data: Tensor, *, seed: Seed = None) -> dict[int, Correlations]:
    """Compare all orders from 1 to 3 that do not exceed the number of sites."""
    sites = data.shape[1:].numel() // one_hot_size(data)
    return {order: correlations(samples, data, order, seed=seed) for order in NAMES if order <= sites}
