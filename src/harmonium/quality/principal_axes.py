"""Compare samples and data on the principal axes: spectra, overlap of subspaces, and distances along the axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from ..errors import InvalidOption
from ..estimates import Estimate, jackknife
from ..noise import Seed
from ..shown import brief
from .inputs import GROUPS, ArrayLike, alike, centered, count, drawn, random
from .significance import SIGMAS, spread

SPECTRUM = 100  # number of leading eigenvalues
_MATRIX = 2048  # maximum number of columns to compute the covariance matrix explicitly
_SPLITS = 6


@brief
@dataclass(frozen=True)
class Principal:
    """Samples and data on the leading principal axes of the data.

    ``mean`` (d,) and ``axes`` (k, d) are those of the data; ``data`` (n, k) and ``samples`` (m, k) are the projections.
    ``data_spectrum`` and ``sample_spectrum`` are the leading eigenvalues of the two covariance matrices, computed from
    equal numbers of rows.

    ``overlap`` is Σ_ab (u_a·v_b)²/k of the leading subspaces, which is 1 if they are equal. ``distance`` is the
    Wasserstein distance along an axis, in units of the standard deviation of the data, averaged over the axes;
    ``distances`` are its values for each axis. Both compare one half of the data with an equal number of samples.
    ``overlap_floor``, ``distance_floor`` and ``distance_floors`` compare two halves of the data. ``variance`` is the
    total variance of the samples divided by that of the data.
    """

    mean: Tensor
    axes: Tensor
    data: Tensor
    samples: Tensor
    data_spectrum: Tensor
    sample_spectrum: Tensor
    overlap: Estimate
    overlap_floor: Estimate
    distance: Estimate
    distance_floor: Estimate
    distances: Tensor
    distance_floors: Tensor
    variance: Estimate

    @property
    def turned(self) -> bool:
        """Whether the leading subspaces differ significantly more than those of two halves of the data."""
        gap = self.overlap_floor.value - self.overlap.value
        return gap > SIGMAS * float(np.hypot(self.overlap.standard_error, self.overlap_floor.standard_error))

    @property
    def displaced(self) -> bool:
        """Whether the distributions along the axes differ significantly more than those of two halves of the data."""
        gap = self.distance.value - self.distance_floor.value
        return gap > SIGMAS * float(np.hypot(self.distance.standard_error, self.distance_floor.standard_error))

    def histogram(self, axis: int = 0, bins: int = 50) -> tuple[Tensor, Tensor, Tensor]:
        """Histogram along one axis: bin edges (bins + 1,), and densities of data and samples (bins,)."""
        self._check(axis)
        low, high = self._range(axis)
        edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
        densities = [torch.histogram(x[:, axis].double(), edges, density=True).hist for x in (self.data, self.samples)]
        return edges, densities[0], densities[1]

    def histogram2d(self, axes: tuple[int, int] = (0, 1), bins: int = 40) -> tuple[list[Tensor], Tensor, Tensor]:
        """Histogram in a plane of two axes: bin edges of both, and densities of data and samples (bins, bins)."""
        self._check(*axes)
        edges = [torch.linspace(*self._range(axis), bins + 1, dtype=torch.float64) for axis in axes]
        densities = [
            torch.histogramdd(x[:, list(axes)].double(), edges, density=True).hist for x in (self.data, self.samples)
        ]
        return edges, densities[0], densities[1]

    def _range(self, axis: int) -> tuple[float, float]:
        both = torch.cat([self.data[:, axis], self.samples[:, axis]])
        low, high = float(both.min()), float(both.max())
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    def _check(self, *axes: int) -> None:
        for axis in axes:
            if not 0 <= axis < len(self.axes):
                raise InvalidOption(f"axis: expected a number from 0 to {len(self.axes) - 1}, found {axis}")


@torch.no_grad()
def principal(samples: ArrayLike, data: ArrayLike, *, axes: int | None = None, seed: Seed = None) -> Principal:
    """Compare samples and data, both (n, *shape), on the leading principal axes of the data.

    Args:
        samples, data: at least 40 rows each.
        axes: number of axes; by default 10, or half the number of entries of a row (at least 2) if that is smaller.
        seed: seed of the random halves.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(2000, 8, generator=g) * torch.tensor([5.0, 4, 3, 1, 1, 1, 1, 1])
    >>> good, bad = x[1000:], x[1000:].roll(4, 1)
    >>> [principal(fake, x[:1000], axes=3).turned for fake in (good, bad)]
    [False, True]
    """
    samples, data = alike(samples, data)
    d, fewer = data.shape[1:].numel(), min(len(data), len(samples))
    most = min(d, fewer // 2 - 1)
    k = min(10, max(2, d // 2), most) if axes is None else count("axes", axes)
    if k > most:
        raise InvalidOption(f"axes: expected at most {most} for rows of {d} entries, found {k}")
    generator = random(seed)
    mean = data.flatten(1).mean(0, dtype=torch.float64)
    real, fake = ((x.flatten(1).double() - mean).float() for x in (data, samples))
    _, directions = _leading(real, k)
    directions *= directions.sum(1, keepdim=True).sign() + (directions.sum(1, keepdim=True) == 0)  # fix the sign
    spectra = [_leading(drawn(x, fewer, generator), min(SPECTRUM, most))[0].cpu() for x in (real, fake)]
    splits = [_split(real, fake, fewer // 2, k, generator) for _ in range(_SPLITS)]
    overlaps, distances = (torch.stack(parts) for parts in zip(*splits, strict=True))
    return Principal(
        mean=mean.float().cpu(),
        axes=directions.cpu(),
        data=(real @ directions.T).cpu(),
        samples=(fake @ directions.T).cpu(),
        data_spectrum=spectra[0],
        sample_spectrum=spectra[1],
        overlap=spread(overlaps[:, 0]),
        overlap_floor=spread(overlaps[:, 1]),
        distance=spread(distances[:, 0].mean(1)),
        distance_floor=spread(distances[:, 1].mean(1)),
        distances=distances[:, 0].mean(0),
        distance_floors=distances[:, 1].mean(0),
        variance=_variance(real, fake, generator),
    )


def _split(data: Tensor, samples: Tensor, n: int, k: int, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Overlaps (2,) and distances (2, k) of one half of the data to samples and to the other half."""
    from scipy.stats import wasserstein_distance  # slow to load

    drawn_rows = drawn(data, 2 * n, generator)
    half, others = drawn_rows[:n], (drawn(samples, n, generator), drawn_rows[n:])
    variances, axes = _leading(half, k)
    on_axes = (half @ axes.T).double().cpu().numpy()
    deviation = variances.sqrt()
    scale = deviation.clamp_min(float(deviation[0]) / 100 or 1.0).numpy()  # the variance may vanish along some axes
    overlaps, distances = [], []
    for other in others:
        overlaps.append(float((axes @ _leading(other, k)[1].T).square().sum()) / k)
        projected = (other @ axes.T).double().cpu().numpy()
        distances.append([wasserstein_distance(*pair) for pair in zip(on_axes.T, projected.T, strict=True)])
    return torch.tensor(overlaps), torch.tensor(np.array(distances) / scale)


def _leading(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues (k,) of the covariance of ``x`` (n, d), descending, and their eigenvectors (k, d)."""
    import scipy.linalg  # slow to load
    import scipy.sparse.linalg

    z = centered(x)
    n, d = z.shape
    if d <= _MATRIX:
        covariance = (z.T @ z).double().cpu().numpy() / (n - 1)
        values, vectors = scipy.linalg.eigh(covariance, subset_by_index=(d - k, d - 1))
    else:
        array = z.cpu().numpy()
        operator = scipy.sparse.linalg.LinearOperator(
            (d, d), matvec=lambda v: array.T @ (array @ v.astype(np.float32)) / (n - 1), dtype=np.float32
        )
        values, vectors = scipy.sparse.linalg.eigsh(operator, k, v0=array.std(0) + 1e-3, tol=1e-4)
    order = np.argsort(-values, kind="stable")
    found = torch.from_numpy(values[order].clip(0)), torch.from_numpy(np.ascontiguousarray(vectors[:, order].T))
    return found[0].double(), found[1].to(z)


def _variance(data: Tensor, samples: Tensor, generator: Generator | None) -> Estimate:
    """Ratio of the total variances, samples to data."""
    totals = []
    for x in (data, samples):
        square = centered(drawn(x, len(x), generator)).square().sum(1).double()
        parts = [part.cpu() for part in square.tensor_split(GROUPS)]
        sums, sizes = torch.stack([part.sum() for part in parts]), torch.tensor([len(part) for part in parts])
        without = (sums.sum() - sums) / (sizes.sum() - sizes)
        totals.append(torch.cat([square.mean().cpu()[None], without]))
    ratio = torch.where(totals[1] == totals[0], 1.0, totals[1] / totals[0])  # 1 if both variances are zero
    return Estimate(float(ratio[0]), jackknife(ratio[1:]))
