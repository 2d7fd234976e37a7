"""Table 2: the Fréchet distance between generated and real faces, with features that are not those of Inception."""

from __future__ import annotations

import numpy as np
import torch

from harmonium import noise

from ..judging import Measured, Verdict, brief, claim
from ..options import with_options_of
from ..record import Record
from .faces import DATASET, LEVELS, describe, frechet, generate, independent_pixels, reconstruct
from .trained import Machines

_RESAMPLES = 50


@with_options_of(Machines)
def run(record: Record, trained: Machines, n: int = 1000) -> None:
    """Distances of generated images from test faces; real training faces and independent pixels for comparison."""
    network, train = trained.network(DATASET, LEVELS), trained.rows(DATASET)
    test = trained.load(DATASET, "test")[0]
    made = generate(trained, n)
    sets = {
        "training faces": train[:n],
        "reconstructions of training faces": reconstruct(network, train[:n]),
        **made,
        "independent pixels": independent_pixels(train, n, seed=trained.seed),
        "mean face with noise": noisy_mean(train, n, seed=trained.seed),
    }
    real = describe(test)
    found = {name: measured(describe(images), real) for name, images in sets.items()}
    record.table(
        "table2", [{"images": name, "distance": x.value, "standard_error": x.error} for name, x in found.items()]
    )
    for name in made:
        claim(
            record,
            f"{name.capitalize()} are nearer to real faces than independent pixels (the published distance, 101.05 "
            "with Inception features, has no counterpart here)",
            f"{brief(found[name])}, independent pixels {brief(found['independent pixels'])}, "
            f"training faces {brief(found['training faces'])}",
            judge_nearer(found[name], found["independent pixels"]),
            f"LFW instead of CelebA, random features instead of Inception, {trained.difference(DATASET)}",
        )


def noisy_mean(images: torch.Tensor, n: int, seed: int = 0) -> torch.Tensor:
    """The mean image with Gaussian noise of 5 gray values: (n, *image).

    >>> torch.equal(noisy_mean(torch.ones(2, 3), 4), noisy_mean(torch.ones(2, 3), 4))
    True
    """
    return images.float().mean(0) + 5 * torch.randn(n, *images.shape[1:], generator=noise.generator(seed))


def measured(x: np.ndarray, y: np.ndarray, seed: int = 0) -> Measured:
    """The distance, with the error from resampling the rows of both sets."""
    draw = np.random.default_rng(seed)
    again = [
        frechet(x[draw.integers(len(x), size=len(x))], y[draw.integers(len(y), size=len(y))]) for _ in range(_RESAMPLES)
    ]
    return Measured(frechet(x, y), float(np.std(again)))


def judge_nearer(own: Measured, other: Measured) -> Verdict:
    """Criterion: the distance is smaller."""
    return other.minus(own).above()
