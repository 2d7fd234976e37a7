"""Color faces: samples, reconstructions, and distances between sets of images.

The paper crops CelebA, which is not available here; the images are 64 × 64 crops of LFW. The Fréchet distance of
Table 2 uses the features of the Inception network, which is not available either. :func:`describe` are other features:
numbers are comparable with each other and not with those of the paper.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from harmonium import noise
from harmonium.machines import RBM, DeepBeliefNetwork

from .trained import BRIGHTEST, CHUNK, Machines, states

DATASET, LEVELS = "lfw", BRIGHTEST
SWEEPS, BINARY_SWEEPS = 200, 1000  # of the top machine, and of a binary machine in its place
#: the ways to generate images
SAMPLES, BINARY, FEATURES = "samples", "samples with a binary top machine", "samples from the features"
_WIDTHS = (32, 64, 64)  # of the random features
_FLOOR = 1e-3  # of the top features, as shares of N


@torch.no_grad()
def sample(network: DeepBeliefNetwork, n: int, *, seed: int = 0, sweeps: int = SWEEPS) -> Tensor:
    """Draws of the network: Gibbs sampling in the top machine, then one pass down: (n, *image), from 0 to N."""
    return network.sample(n, sweeps=sweeps, means=True, seed=seed, check_mixing=False)


@torch.no_grad()
def descend(network: DeepBeliefNetwork, start: Tensor, layer: int | None = None) -> Tensor:
    """The means going down from states of a layer (default: the top one): (n, *layer) -> (n, *image)."""
    x = start
    for machine in reversed(list(network.machines)[:layer]):
        x = machine.visible_mean(x.reshape(-1, *machine.hidden.shape))
    return x


@torch.no_grad()
def top_states(network: DeepBeliefNetwork, images: Tensor) -> Tensor:
    """The means of the top layer for images: (n, *top)."""
    return torch.cat([network.features(states(part, LEVELS)) for part in images.split(CHUNK)])


def sample_from_binary(network: DeepBeliefNetwork, top: RBM, n: int, *, seed: int = 0) -> Tensor:
    """Draws of a binary machine in place of the top machine, passed down as means: (n, *image)."""
    states = top.sample(n, sweeps=BINARY_SWEEPS, seed=seed, check_mixing=False)
    return descend(network, LEVELS * states, len(network.machines) - 1)


def sample_from_features(network: DeepBeliefNetwork, images: Tensor, n: int, *, seed: int = 0) -> Tensor:
    """Images of top states with the mean and covariance that those of ``images`` have: (n, *image).

    The states are drawn as a Gaussian of their log-odds and passed down as means. This is not a sample of the network:
    the distribution of the top layer is that of the training data.
    """
    top = (top_states(network, images) / LEVELS).clamp(_FLOOR, 1 - _FLOOR).logit().double()
    center = top.mean(0)
    values, vectors = torch.linalg.eigh((top - center).T.cov())
    draws = torch.randn(n, len(center), generator=noise.generator(seed), dtype=top.dtype)
    drawn = center + (draws * values.clamp(min=0).sqrt()) @ vectors.T
    return descend(network, LEVELS * drawn.sigmoid().to(network.dtype))


def generate(trained: Machines, n: int, *, factor: float = 1.0) -> dict[str, Tensor]:
    """Images of the three ways to generate them, (n, *image) each, from the network with ``factor`` times the rate."""
    network, seed = trained.network(DATASET, LEVELS, factor=factor), trained.seed
    return {
        SAMPLES: sample(network, n, seed=seed),
        BINARY: sample_from_binary(network, trained.binary_top(DATASET, network, factor=factor), n, seed=seed),
        FEATURES: sample_from_features(network, trained.rows(DATASET), n, seed=seed),
    }


def interpolate(network: DeepBeliefNetwork, first: Tensor, last: Tensor, steps: int = 8) -> Tensor:
    """Images between two images (*image) each, along the line between the log-odds of their top states."""
    ends = (top_states(network, torch.stack([first, last])) / LEVELS).clamp(_FLOOR, 1 - _FLOOR).logit()
    share = torch.linspace(0, 1, steps)[:, None]
    return descend(network, LEVELS * (ends[0] * (1 - share) + ends[1] * share).sigmoid())


@torch.no_grad()
def reconstruct(network: DeepBeliefNetwork, images: Tensor, layer: int | None = None) -> Tensor:
    """The means going up to a layer (default: the top one) and down again: (n, *image)."""
    return torch.cat([network.reconstruct(states(part, LEVELS), layer) for part in images.split(CHUNK)])


def nearest(images: Tensor, train: Tensor) -> tuple[Tensor, Tensor]:
    """The index of the training image nearest to each image, and the root mean squared distance per value."""
    distances = torch.cdist(images.flatten(1).float(), train.flatten(1).float())
    found = distances.min(1)
    return found.indices, found.values / images[0].numel() ** 0.5


def independent_pixels(images: Tensor, n: int, *, seed: int = 0) -> Tensor:
    """Images whose values are each taken from a random image at the same place: (n, *image)."""
    flat, draw = images.flatten(1), noise.generator(seed)
    rows = torch.randint(len(flat), (n, flat.shape[1]), generator=draw)
    return flat.gather(0, rows).reshape(n, *images.shape[1:])


# -- Fréchet distance -----------------------------------------------------------------------------------------------


@torch.no_grad()
def describe(images: Tensor) -> np.ndarray:
    """64 features of images (n, 3, height, width): a convolutional network with fixed random weights, (n, 64).

    Three convolutions of 4 × 4 pixels with stride 2 and rectification, then the mean over the image. The weights are
    N(0, 2/fan-in) from seed 0.
    """
    draw, parts = noise.generator(0), []
    shapes = zip((images.shape[1], *_WIDTHS), _WIDTHS)  # noqa: B905
    kernels = [torch.randn(above, below, 4, 4, generator=draw) * (2 / (16 * below)) ** 0.5 for below, above in shapes]
    for x in (images.float() / BRIGHTEST - 0.5).split(CHUNK):
        for kernel in kernels:
            x = functional.conv2d(x, kernel, stride=2, padding=1).relu()
        parts.append(x.mean((2, 3)))
    return torch.cat(parts).double().numpy()


def frechet(x: np.ndarray, y: np.ndarray) -> float:
    """The Fréchet distance of two Gaussians with the moments of the features, ‖μ-ν‖² + tr(A + B - 2 (AB)^½).

    The features are divided by the mean standard deviation of ``y`` so that the unit is a variance of the data.

    >>> x = np.random.default_rng(0).normal(size=(400, 3))
    >>> abs(round(frechet(x, x), 6)), round(frechet(x + [2 * x.std(0).mean(), 0, 0], x), 6)
    (0.0, 4.0)
    """
    unit = y.std(0).mean()
    x, y = x / unit, y / unit
    a, b = np.cov(x.T), np.cov(y.T)
    products = np.linalg.eigvals(a @ b).real.clip(min=0)
    return float(((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(a) + np.trace(b) - 2 * np.sqrt(products).sum())
