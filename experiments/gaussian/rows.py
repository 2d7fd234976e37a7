"""Real-valued rows in three parts, for training, validation and test, and a Gaussian with a full covariance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor
from torch.nn import functional

import harmonium as hm

from .whitening import Whitening

#: weight of the diagonal in the covariance, of which validation rows choose one
SHRINKAGE = tuple(10 ** (k / 4) for k in range(-16, 1))
_LEVELS = 256
_PATCH = 8
_GRAY = (0.299, 0.587, 0.114)  # luminance of red, green and blue


@dataclass(frozen=True)
class Rows:
    """Rows of each part, (n, units), and the height and width of the image of a row; possibly whitened."""

    training: Tensor
    validation: Tensor
    test: Tensor
    image: tuple[int, int]
    whitening: Whitening | None = None

    def whitened(self, shrinkage: float) -> Rows:
        """The same rows in the whitened coordinates of the training rows."""
        found = Whitening.fit(self.training, shrinkage)
        training, validation, test = (found.whitened(part) for part in (self.training, self.validation, self.test))
        return replace(self, training=training, validation=validation, test=test, whitening=found)

    @property
    def log_determinant(self) -> float:
        """What is added to a log-likelihood of these rows to get that of the pixels."""
        return 0.0 if self.whitening is None else self.whitening.log_determinant

    def pixels(self, x: Tensor) -> Tensor:
        """Rows x in units of the gray range."""
        return x if self.whitening is None else self.whitening.restored(x)


def load(name: str, noise: float = 0.0) -> Rows:
    """Rows of a data set in units of the gray range, dequantized, with normal noise of deviation ``noise``.

    Pixels are 8-bit integers, for which a density could be infinite: a constant pixel has an unbounded likelihood.
    Uniform noise of one gray level makes the densities proper, and the same rows are given to every model.
    """
    source = Generator().manual_seed(0)
    parts, image = _LOADERS[name](source)
    training, validation, test = (_dequantized(part, noise, source) for part in parts)
    return Rows(training, validation, test, image)


def _dequantized(x: Tensor, noise: float, source: Generator) -> Tensor:
    x = (x * (_LEVELS - 1) + torch.rand(x.shape, generator=source)) / _LEVELS
    return x + noise * torch.randn(x.shape, generator=source)


def _frey(source: Generator) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
    """The last fifth of the training frames is for validation: neighboring frames of a video are alike."""
    x = hm.data.load("frey")
    cut = len(x) * 4 // 5
    return (x[:cut], x[cut:], hm.data.load("frey", split="test")), (28, 20)


def _olivetti(source: Generator) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
    """Faces of 16 × 16 pixels; one of the eight training images of each person is for validation."""
    x, test = (
        functional.avg_pool2d(hm.data.load("olivetti", split=split).view(-1, 1, 64, 64), 4).flatten(1)
        for split in ("train", "test")
    )
    held_out = torch.arange(len(x)) % 8 == 7
    return (x[~held_out], x[held_out], test), (16, 16)


def _mnist(source: Generator) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
    x = hm.data.load("mnist")
    return (x[:10_000], x[10_000:12_000], hm.data.load("mnist", split="test")[:2000]), (28, 28)


def _patches(source: Generator) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
    x, test = _cut("train", 22_000, source), _cut("test", 2000, source)
    return (x[:20_000], x[20_000:], test), (_PATCH, _PATCH)


def _cut(split: str, n: int, source: Generator) -> Tensor:
    """Gray patches at random positions of random images: (n, pixels)."""
    color = hm.data.load("cifar10", split=split).view(-1, 3, 32, 32)
    gray = torch.einsum("nchw,c->nhw", color, torch.tensor(_GRAY))
    image = torch.randint(len(gray), (n, 1, 1), generator=source)
    top, left = torch.randint(32 - _PATCH + 1, (2, n, 1, 1), generator=source)
    pixel = torch.arange(_PATCH)
    return gray[image, top + pixel[:, None], left + pixel].flatten(1)


_LOADERS: dict[str, Callable[[Generator], tuple[tuple[Tensor, ...], tuple[int, int]]]] = {
    "frey": _frey,
    "olivetti": _olivetti,
    "mnist": _mnist,
    "patches": _patches,
}
NAMES = tuple(_LOADERS)


@dataclass(frozen=True)
class Covariance:
    """Mean log-likelihood of the test rows, in nats, under Gaussians with the moments of the training rows."""

    full: float  # with a shrunk covariance
    diagonal: float
    shrinkage: float  # weight of the diagonal, chosen on validation rows
    bits: float  # binary hidden units that such a covariance needs, about


def covariance(rows: Rows) -> Covariance:
    """The Gaussian with covariance (1 - λ) S + λ diag S, where λ gives the validation rows the largest likelihood.

    >>> x = torch.randn(300, 3, generator=Generator().manual_seed(0)).cumsum(1)
    >>> found = covariance(Rows(x[:100], x[100:200], x[200:], image=(1, 3)))
    >>> found.full > found.diagonal
    True
    """
    training, validation, test = (x.double() for x in (rows.training, rows.validation, rows.test))
    mean, S = training.mean(0), training.T.cov(correction=0)
    diagonal = torch.diag(S.diagonal())

    def log_likelihood(x: Tensor, weight: float) -> float:
        factor = torch.linalg.cholesky((1 - weight) * S + weight * diagonal)
        z = torch.linalg.solve_triangular(factor, (x - mean).T, upper=False)
        constant = len(mean) / 2 * math.log(2 * math.pi) + factor.diagonal().log().sum().item()
        return -(z.square().sum(0).mean().item() / 2 + constant)

    chosen = max(SHRINKAGE, key=lambda weight: log_likelihood(validation, weight))
    bits = binary_units((1 - chosen) * S + chosen * diagonal)
    return Covariance(log_likelihood(test, chosen), log_likelihood(test, 1.0), chosen, bits)


def binary_units(covariance: Tensor) -> float:
    """The number of binary hidden units that a machine needs to have a covariance, approximately.

    Given the hidden units, the visible units have independent noise. In units of their standard deviations, its
    variance can be at most the smallest eigenvalue σ² of the correlation matrix. An axis of variance λ then needs
    :func:`units_of_axis` (λ/σ²) units. The result is the sum over all axes.

    >>> round(binary_units(torch.diag(torch.tensor([1.0, 5.0]))), 3)  # independent
    0.0
    >>> round(binary_units(torch.tensor([[1.0, 0.6], [0.6, 1.0]])), 3)  # eigenvalues 0.4 and 1.6
    1.6
    """
    deviation = covariance.diagonal().sqrt()
    eigenvalues = torch.linalg.eigvalsh(covariance / torch.outer(deviation, deviation))
    return sum(units_of_axis(ratio) for ratio in (eigenvalues / eigenvalues[0]).tolist())


def units_of_axis(ratio: float) -> float:
    """Binary units for a normal distribution along one axis, with variance ``ratio`` times that of the noise.

    Each unit contributes ln(1 + e^{c + wv}) to the log-density, which must have the curvature 1 - 1/``ratio`` over the
    whole range of v. A unit does so over a few deviations of the noise, so the number of units grows with the
    deviation, and not with its logarithm. The factor is that of ``gaussian/capacity``.
    """
    return 1.6 * (math.sqrt(ratio) - 1)
